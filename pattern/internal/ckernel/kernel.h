/* Copy kernels: included once per instruction set with NAME, TARGET and WIDE (bytes of the widest move) defined.
 * The argument is struct gobw_copy; pattern/kernel.go has its twin. */

#define CAT2(a, b) a##b
#define CAT(a, b) CAT2(a, b)
#define FN(x) CAT(x, NAME)
#define INL static inline __attribute__((always_inline)) TARGET

#define MOVE(T, d, s) (*(T *)(d) = *(const T *)(s))

/* The head and the tail may overlap: both are loaded before either is stored. */
#define MOVE2(T, d, s, n)                                                      \
	do {                                                                   \
		T head_ = *(const T *)(s), tail_ = *(const T *)((s) + (n) - sizeof(T)); \
		*(T *)(d) = head_;                                             \
		*(T *)((d) + (n) - sizeof(T)) = tail_;                         \
	} while (0)

#define EACH(...)                                               \
	do {                                                    \
		_Pragma("GCC unroll 4") for (; n; n--) {        \
			__VA_ARGS__;                            \
			d += ds;                                \
			s += ss;                                \
		}                                               \
	} while (0);                                            \
	return

/* Packing asks ahead for what it reads, unpacking for what it writes: the strided side. */
#define EACH_READ(...) EACH(__builtin_prefetch(s + ahead); __VA_ARGS__)
#define EACH_WRITE(...) EACH(__builtin_prefetch(d + ahead, 1); __VA_ARGS__)

#define SMALL(RUN)                                                 \
	switch (a->op) {                                            \
	case OP_1: RUN(*d = *s);                                   \
	case OP_2: RUN(MOVE(u16, d, s));                           \
	case OP_3: RUN(MOVE2(u16, d, s, block));                   \
	case OP_4: RUN(MOVE(u32, d, s));                           \
	case OP_5_7: RUN(MOVE2(u32, d, s, block));                 \
	case OP_8: RUN(MOVE(u64, d, s));                           \
	case OP_9_15: RUN(MOVE2(u64, d, s, block));                \
	case OP_16: RUN(MOVE(v16, d, s));                          \
	case OP_17_31: RUN(MOVE2(v16, d, s, block));               \
	case OP_32: RUN(MOVE(v32, d, s));                          \
	case OP_33_63: RUN(MOVE2(v32, d, s, block));               \
	case OP_64: RUN(MOVE(v64, d, s));                          \
	}

/* One block of 64 bytes or more. The tail is one move that ends where the block ends. */
INL void FN(block)(char *d, const char *s, u64 n, i64 ahead, int unpack)
{
	u64 i = 0;
#define ASK(o)                                                  \
	do {                                                    \
		if (unpack)                                     \
			__builtin_prefetch(d + (o) + ahead, 1); \
		else                                            \
			__builtin_prefetch(s + (o) + ahead);    \
	} while (0)

	for (; i + 256 <= n; i += 256) {
		ASK(i);
		ASK(i + 64);
		ASK(i + 128);
		ASK(i + 192);
		v64 w = *(const v64 *)(s + i), x = *(const v64 *)(s + i + 64);
		v64 y = *(const v64 *)(s + i + 128), z = *(const v64 *)(s + i + 192);
		*(v64 *)(d + i) = w;
		*(v64 *)(d + i + 64) = x;
		*(v64 *)(d + i + 128) = y;
		*(v64 *)(d + i + 192) = z;
	}
	for (; i + 64 <= n; i += 64) {
		ASK(i);
		MOVE(v64, d + i, s + i);
	}
	if (i < n)
		MOVE(v64, d + n - 64, s + n - 64);
#undef ASK
}

INL void FN(block_hot)(char *d, const char *s, u64 n)
{
	u64 i = 0;

	for (; i + 256 <= n; i += 256) {
		v64 w = *(const v64 *)(s + i), x = *(const v64 *)(s + i + 64);
		v64 y = *(const v64 *)(s + i + 128), z = *(const v64 *)(s + i + 192);
		*(v64 *)(d + i) = w;
		*(v64 *)(d + i + 64) = x;
		*(v64 *)(d + i + 128) = y;
		*(v64 *)(d + i + 192) = z;
	}
	for (; i + 64 <= n; i += 64)
		MOVE(v64, d + i, s + i);
	if (i < n)
		MOVE(v64, d + n - 64, s + n - 64);
}

INL void FN(any)(char *d, const char *s, u64 n)
{
	if (n >= 64)
		FN(block_hot)(d, s, n);
	else if (n >= 32)
		MOVE2(v32, d, s, n);
	else if (n >= 16)
		MOVE2(v16, d, s, n);
	else if (n >= 8)
		MOVE2(u64, d, s, n);
	else if (n >= 4)
		MOVE2(u32, d, s, n);
	else if (n >= 2)
		MOVE2(u16, d, s, n);
	else if (n)
		*d = *s;
}

TARGET static void FN(row)(const struct gobw_copy *a, char *d, const char *s)
{
	u64 n = a->n0, block = a->block;
	i64 ds = a->dst0, ss = a->src0, ahead = a->ahead;

	if (a->op == OP_LIST) {
		for (; n; n--, d += ds, s += ss) {
			const struct gobw_entry *e = a->list, *end = e + a->entries;
			if (a->flags & FLAG_UNPACK) {
				const char *p = s;
				for (; e < end; p += e->length, e++)
					FN(any)(d + e->offset, p, e->length);
			} else {
				char *p = d;
				for (; e < end; p += e->length, e++) {
					__builtin_prefetch(s + e[AHEAD_ENTRIES].offset);
					FN(any)(p, s + e->offset, e->length);
				}
			}
		}
		return;
	}
	if (a->flags & FLAG_STREAM) {
		for (; n; n--, d += ds, s += ss)
			FN(stream)(d, s, block, ahead);
		return;
	}
	if (a->flags & FLAG_STRING) {
		for (; n; n--, d += ds, s += ss)
			memcpy(d, s, block);
		return;
	}
	if (a->op == OP_WIDE) {
		if (block == 128 && a->flags & FLAG_AHEAD && !(a->flags & FLAG_UNPACK)) {
			EACH(__builtin_prefetch(s + ahead); __builtin_prefetch(s + ahead + 64);
			     v64 x = *(const v64 *)s; v64 y = *(const v64 *)(s + 64);
			     *(v64 *)d = x; *(v64 *)(d + 64) = y);
		}
		if (!(a->flags & FLAG_AHEAD))
			for (; n; n--, d += ds, s += ss)
				FN(block_hot)(d, s, block);
		else if (a->flags & FLAG_UNPACK)
			for (; n; n--, d += ds, s += ss)
				FN(block)(d, s, block, ahead, 1);
		else
			for (; n; n--, d += ds, s += ss)
				FN(block)(d, s, block, ahead, 0);
		return;
	}
	if (!(a->flags & FLAG_AHEAD)) {
		SMALL(EACH)
	} else if (a->flags & FLAG_UNPACK) {
		SMALL(EACH_WRITE)
	} else {
		SMALL(EACH_READ)
	}
}

TARGET static void FN(copy)(void *arg)
{
	const struct gobw_copy *a = arg;
	char *d = a->dst;
	const char *s = a->src;

	for (u64 i = 0; i < a->n1; i++, d += a->dst1, s += a->src1)
		FN(row)(a, d, s);
	if (a->flags & FLAG_STREAM)
		FENCE();
}

#undef FN
#undef CAT
#undef CAT2
#undef INL
#undef MOVE
#undef MOVE2
#undef EACH
#undef EACH_READ
#undef EACH_WRITE
#undef SMALL
#undef NAME
#undef TARGET
#undef FENCE

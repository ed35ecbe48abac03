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
	}

enum FN(how) { FN(HOT), FN(NEAR), FN(ASK), FN(ASK_WRITE), FN(STREAM), FN(STREAM_ASK) };

/* Four loads before four stores: in the first-level cache that keeps one store a cycle. */
#define BATCH4(d, s, d1, s1, d2, s2, d3, s3)                                     \
	do {                                                                     \
		v64 w_ = *(const v64 *)(s), x_ = *(const v64 *)(s1);             \
		v64 y_ = *(const v64 *)(s2), z_ = *(const v64 *)(s3);            \
		*(v64 *)(d) = w_;                                                \
		*(v64 *)(d1) = x_;                                               \
		*(v64 *)(d2) = y_;                                               \
		*(v64 *)(d3) = z_;                                               \
	} while (0)

/* A compiler may not collect the loads of several lines: where they come from the second level, that costs a third. */
#define APART() __asm__ volatile("" ::: "memory")

#define MOVE4(how, d, s, d1, s1, d2, s2, d3, s3)                                 \
	do {                                                                     \
		if ((how) == FN(STREAM) || (how) == FN(STREAM_ASK)) {            \
			FN(line)(d, s);                                          \
			FN(line)(d1, s1);                                        \
			FN(line)(d2, s2);                                        \
			FN(line)(d3, s3);                                        \
		} else if ((how) == FN(NEAR)) {                                  \
			MOVE(v64, d, s);                                         \
			APART();                                                 \
			MOVE(v64, d1, s1);                                       \
			APART();                                                 \
			MOVE(v64, d2, s2);                                       \
			APART();                                                 \
			MOVE(v64, d3, s3);                                       \
			APART();                                                 \
		} else {                                                         \
			BATCH4(d, s, d1, s1, d2, s2, d3, s3);                    \
		}                                                                \
	} while (0)

INL void FN(line)(char *d, const char *s) { CAT(stream_line, NAME)(d, s); }

/* Asks for the line at p of the strided side: to be read by a pack, to be written by an unpack. */
INL void FN(want)(const char *p, enum FN(how) how)
{
	if (how == FN(ASK) || how == FN(STREAM_ASK))
		__builtin_prefetch(p);
	else if (how == FN(ASK_WRITE))
		__builtin_prefetch(p, 1);
}

INL void FN(want4)(const char *p, enum FN(how) how)
{
	FN(want)(p, how);
	FN(want)(p + 64, how);
	FN(want)(p + 128, how);
	FN(want)(p + 192, how);
}

/* One block of 64 bytes or more. Asking ahead goes along the blocks: within a block AHEAD bytes on, over its last AHEAD
 * bytes at the next blocks. The tail is one move that ends where the block ends. */
INL void FN(block)(char *d, const char *s, u64 n, i64 ahead, enum FN(how) how)
{
	const char *strided = how == FN(ASK_WRITE) ? d : s;
	u64 i = 0, far = n > AHEAD ? n - AHEAD : 0;

	for (; i + 256 <= n; i += 256) {
		FN(want4)(strided + i + (i < far ? AHEAD : ahead), how);
		MOVE4(how, d + i, s + i, d + i + 64, s + i + 64, d + i + 128, s + i + 128, d + i + 192, s + i + 192);
	}
	for (; i + 64 <= n; i += 64) {
		FN(want)(strided + i + (i < far ? AHEAD : ahead), how);
		if (how == FN(STREAM) || how == FN(STREAM_ASK))
			FN(line)(d + i, s + i);
		else
			MOVE(v64, d + i, s + i);
	}
	if (i < n)
		MOVE(v64, d + n - 64, s + n - 64);
}

/* A row of blocks: of one line by four, of two lines by two, else one by one. */
INL void FN(blocks)(const struct gobw_copy *a, char *d, const char *s, enum FN(how) how)
{
	u64 n = a->n0, block = a->block;
	i64 ds = a->dst0, ss = a->src0, ahead = a->ahead, step = how == FN(ASK_WRITE) ? ds : ss;

	if (block == 64)
		for (; n >= 4; n -= 4, d += 4 * ds, s += 4 * ss) {
			const char *p = (how == FN(ASK_WRITE) ? d : s) + ahead;
			FN(want)(p, how);
			FN(want)(p + step, how);
			FN(want)(p + 2 * step, how);
			FN(want)(p + 3 * step, how);
			MOVE4(how, d, s, d + ds, s + ss, d + 2 * ds, s + 2 * ss, d + 3 * ds, s + 3 * ss);
		}
	else if (block == 128 && how == FN(NEAR)) /* two at once are slower here */
		for (; n; n--, d += ds, s += ss) {
			MOVE(v64, d, s);
			APART();
			MOVE(v64, d + 64, s + 64);
			APART();
		}
	else if (block == 128)
		for (; n >= 2; n -= 2, d += 2 * ds, s += 2 * ss) {
			const char *p = (how == FN(ASK_WRITE) ? d : s) + ahead;
			FN(want)(p, how);
			FN(want)(p + 64, how);
			FN(want)(p + step, how);
			FN(want)(p + step + 64, how);
			MOVE4(how, d, s, d + 64, s + 64, d + ds, s + ss, d + ds + 64, s + ss + 64);
		}
	for (; n; n--, d += ds, s += ss)
		FN(block)(d, s, block, ahead, how);
}

INL void FN(any)(char *d, const char *s, u64 n, i64 ahead, enum FN(how) how)
{
	if (n >= 64) {
		FN(block)(d, s, n, ahead, how);
		return;
	}
	FN(want)(s + ahead, how);
	if (n >= 32)
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

/* A list of blocks, n0 times over; ahead is the distance of list entries. */
INL void FN(list)(const struct gobw_copy *a, char *d, const char *s, enum FN(how) how)
{
	u64 n = a->n0;
	i64 distance = a->ahead / (i64)sizeof(struct gobw_entry);

	for (; n; n--, d += a->dst0, s += a->src0) {
		const struct gobw_entry *e = a->list, *end = e + a->entries;
		i64 ahead = 0;
		if (a->flags & FLAG_UNPACK) {
			for (const char *p = s; e < end; p += e->length, e++) {
				if (how == FN(ASK_WRITE))
					ahead = (i64)(e[distance].offset - e->offset);
				FN(any)(d + e->offset, p, e->length, ahead, how);
			}
		} else {
			for (char *p = d; e < end; p += e->length, e++) {
				if (how == FN(ASK) || how == FN(STREAM_ASK))
					ahead = (i64)(e[distance].offset - e->offset);
				FN(any)(p, s + e->offset, e->length, ahead, how);
			}
		}
	}
}

/* A list of blocks of one length: of one line by four, of two lines by two, else one by one. */
INL void FN(even)(const struct gobw_copy *a, char *d, const char *s, enum FN(how) how, int unpack)
{
	u64 block = a->block;
	i64 distance = a->ahead / (i64)sizeof(struct gobw_entry);

	for (u64 n = a->n0; n; n--, d += a->dst0, s += a->src0) {
		const struct gobw_entry *e = a->list;
		u64 left = a->entries;
		char *far = unpack ? d : (char *)s, *p = unpack ? (char *)s : d;

#define TO(far_, near_) (unpack ? (far_) : (near_))
#define FROM(far_, near_) (unpack ? (near_) : (far_))
		if (block == 64)
			for (; left >= 4; left -= 4, e += 4, p += 256) {
				char *f0 = far + e[0].offset, *f1 = far + e[1].offset, *f2 = far + e[2].offset, *f3 = far + e[3].offset;
				FN(want)(far + e[distance].offset, how);
				FN(want)(far + e[distance + 1].offset, how);
				FN(want)(far + e[distance + 2].offset, how);
				FN(want)(far + e[distance + 3].offset, how);
				MOVE4(how, TO(f0, p), FROM(f0, p), TO(f1, p + 64), FROM(f1, p + 64), TO(f2, p + 128), FROM(f2, p + 128),
				      TO(f3, p + 192), FROM(f3, p + 192));
			}
		else if (block == 128)
			for (; left >= 2; left -= 2, e += 2, p += 256) {
				char *f0 = far + e[0].offset, *f1 = far + e[1].offset;
				FN(want)(far + e[distance].offset, how);
				FN(want)(far + e[distance].offset + 64, how);
				FN(want)(far + e[distance + 1].offset, how);
				FN(want)(far + e[distance + 1].offset + 64, how);
				MOVE4(how, TO(f0, p), FROM(f0, p), TO(f0 + 64, p + 64), FROM(f0 + 64, p + 64), TO(f1, p + 128), FROM(f1, p + 128),
				      TO(f1 + 64, p + 192), FROM(f1 + 64, p + 192));
			}
		for (; left; left--, e++, p += block) {
			char *f0 = far + e->offset;
			FN(block)(TO(f0, p), FROM(f0, p), block, (i64)(e[distance].offset - e->offset), how);
		}
#undef TO
#undef FROM
	}
}

/* A list, whatever its blocks. */
INL void FN(entries)(const struct gobw_copy *a, char *d, const char *s, enum FN(how) how)
{
	if (!(a->flags & FLAG_EVEN))
		FN(list)(a, d, s, how);
	else if (a->flags & FLAG_UNPACK)
		FN(even)(a, d, s, how, 1);
	else
		FN(even)(a, d, s, how, 0);
}

#define HOW(RUN)                                                                      \
	do {                                                                          \
		int ask_ = a->flags & FLAG_AHEAD, unpack_ = a->flags & FLAG_UNPACK;    \
		if (a->flags & FLAG_STREAM && ask_ && !unpack_)                        \
			RUN(a, d, s, FN(STREAM_ASK));                                  \
		else if (a->flags & FLAG_STREAM)                                       \
			RUN(a, d, s, FN(STREAM));                                      \
		else if (ask_ && unpack_)                                              \
			RUN(a, d, s, FN(ASK_WRITE));                                   \
		else if (ask_)                                                         \
			RUN(a, d, s, FN(ASK));                                         \
		else if (a->flags & FLAG_NEAR)                                         \
			RUN(a, d, s, FN(NEAR));                                        \
		else                                                                   \
			RUN(a, d, s, FN(HOT));                                         \
	} while (0)

TARGET static void FN(row)(const struct gobw_copy *a, char *d, const char *s)
{
	u64 n = a->n0, block = a->block;
	i64 ds = a->dst0, ss = a->src0, ahead = a->ahead;

	if (a->op == OP_LIST) {
		HOW(FN(entries));
		return;
	}
	if (a->op >= OP_64) {
		HOW(FN(blocks));
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
#undef BATCH4
#undef MOVE4
#undef APART
#undef HOW
#undef NAME
#undef TARGET
#undef FENCE

//go:build cgo && (amd64 || arm64)

package yardstick

/*
#cgo CFLAGS: -O2 -Wall
#include <stdint.h>
#include <string.h>

typedef uint64_t u64 __attribute__((aligned(1), may_alias));
typedef int64_t i64;

enum { OP_LIST = 13, FLAG_UNPACK = 1 };

struct gobw_entry { uint64_t offset, length; };

struct gobw_copy {
	char *dst;
	const char *src;
	uint64_t block;
	uint64_t n0;
	int64_t dst0, src0;
	uint64_t n1;
	int64_t dst1, src1;
	const struct gobw_entry *list;
	uint64_t entries;
	int64_t ahead;
	uint32_t op, flags;
};
_Static_assert(sizeof(struct gobw_copy) == 104, "twin of pattern.copyArgs");

// The yardsticks: what cannot be beaten, and what everybody writes. Each walks the blocks of all arguments.
static uint64_t sink;

#define STRIDED(a) ((a)->flags & FLAG_UNPACK ? (a)->dst : (char *)(a)->src)

// Calls VISIT(strided, packed, bytes) for each block of argument a.
#define BLOCKS(a, VISIT)                                                                                   \
	do {                                                                                               \
		int unpack_ = (a)->flags & FLAG_UNPACK;                                                    \
		i64 far0_ = unpack_ ? (a)->dst0 : (a)->src0, near0_ = unpack_ ? (a)->src0 : (a)->dst0;     \
		i64 far1_ = unpack_ ? (a)->dst1 : (a)->src1, near1_ = unpack_ ? (a)->src1 : (a)->dst1;     \
		char *f1_ = STRIDED(a), *p1_ = unpack_ ? (char *)(a)->src : (a)->dst;                       \
		for (uint64_t j_ = 0; j_ < (a)->n1; j_++, f1_ += far1_, p1_ += near1_) {                    \
			char *f_ = f1_, *p_ = p1_;                                                         \
			if ((a)->op == OP_LIST)                                                            \
				for (uint64_t k_ = 0; k_ < (a)->n0; k_++, f_ += far0_, p_ += near0_) {     \
					char *q_ = p_;                                                     \
					const struct gobw_entry *e_ = (a)->list, *end_ = e_ + (a)->entries; \
					for (; e_ < end_; q_ += e_->length, e_++)                          \
						VISIT(f_ + e_->offset, q_, e_->length);                    \
				}                                                                          \
			else                                                                               \
				for (uint64_t k_ = 0; k_ < (a)->n0; k_++, f_ += far0_, p_ += near0_)       \
					VISIT(f_, p_, (a)->block);                                         \
		}                                                                                          \
	} while (0)

#define YARDSTICK(NAME, VISIT)                                                                             \
	static void NAME(void *arg, uint64_t args, uint64_t stride, uint64_t reps)                         \
	{                                                                                                  \
		uint64_t sum = 0;                                                                          \
                                                                                                           \
		for (uint64_t r = 0; r < reps; r++)                                                        \
			for (uint64_t i = 0; i < args; i++) {                                              \
				const struct gobw_copy *a = (const void *)((char *)arg + i * stride);      \
				BLOCKS(a, VISIT);                                                          \
			}                                                                                  \
		sink += sum;                                                                               \
	}

#define READ(far, near, n)                                     \
	do {                                                   \
		for (uint64_t o_ = 0; o_ < (n); o_ += 64)      \
			sum += *(const volatile u64 *)((far) + o_); \
		(void)(near);                                  \
	} while (0)
YARDSTICK(read_lines, READ)

#define COPY(far, near, n) (unpack_ ? memcpy(far, near, n) : memcpy(near, far, n))
YARDSTICK(memcpy_blocks, COPY)
*/
import "C"

import "unsafe"

// Args is an array of kernel arguments outside the Go heap: Count of them, Stride bytes apart.
type Args struct {
	First  unsafe.Pointer
	Count  int
	Stride int
}

// ReadLines reads one word of every cache line of every block in strided memory: what no copy can beat.
func ReadLines(a Args, reps int) {
	C.read_lines(a.First, C.uint64_t(a.Count), C.uint64_t(a.Stride), C.uint64_t(reps))
}

// MemcpyBlocks calls memcpy once per block.
func MemcpyBlocks(a Args, reps int) {
	C.memcpy_blocks(a.First, C.uint64_t(a.Count), C.uint64_t(a.Stride), C.uint64_t(reps))
}

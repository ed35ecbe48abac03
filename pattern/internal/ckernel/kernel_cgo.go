//go:build cgo && (amd64 || arm64)

package ckernel

/*
#cgo CFLAGS: -O2 -Wall
#include <stdint.h>
#include <string.h>

typedef uint16_t u16 __attribute__((aligned(1), may_alias));
typedef uint32_t u32 __attribute__((aligned(1), may_alias));
typedef uint64_t u64 __attribute__((aligned(1), may_alias));
typedef int64_t i64;
typedef long long v16 __attribute__((vector_size(16), aligned(1), may_alias));
typedef long long v32 __attribute__((vector_size(32), aligned(1), may_alias));
typedef long long v64 __attribute__((vector_size(64), aligned(1), may_alias));

enum { OP_1, OP_2, OP_3, OP_4, OP_5_7, OP_8, OP_9_15, OP_16, OP_17_31, OP_32, OP_33_63, OP_64, OP_WIDE, OP_LIST };
enum { FLAG_UNPACK = 1, FLAG_AHEAD = 2, FLAG_STREAM = 4, FLAG_STRING = 8 };
enum { AHEAD_ENTRIES = 16 };

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

#if defined(__x86_64__)
#include <immintrin.h>

__attribute__((target("avx512f,avx512bw,avx512vl,prfchw")))
static inline void stream_avx512(char *d, const char *s, uint64_t n, int64_t ahead)
{
	for (uint64_t i = 0; i < n; i += 64) {
		__builtin_prefetch(s + i + ahead);
		_mm512_stream_si512((void *)(d + i), _mm512_loadu_si512(s + i));
	}
}

__attribute__((target("avx2,prfchw")))
static inline void stream_avx2(char *d, const char *s, uint64_t n, int64_t ahead)
{
	for (uint64_t i = 0; i < n; i += 64) {
		__builtin_prefetch(s + i + ahead);
		__m256i x = _mm256_loadu_si256((const void *)(s + i));
		__m256i y = _mm256_loadu_si256((const void *)(s + i + 32));
		_mm256_stream_si256((void *)(d + i), x);
		_mm256_stream_si256((void *)(d + i + 32), y);
	}
}

static inline void stream_base(char *d, const char *s, uint64_t n, int64_t ahead)
{
	for (uint64_t i = 0; i < n; i += 16) {
		if (!(i & 63))
			__builtin_prefetch(s + i + ahead);
		_mm_stream_si128((void *)(d + i), _mm_loadu_si128((const void *)(s + i)));
	}
}

#define NAME _avx512
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,prfchw")))
#define FENCE() _mm_sfence()
#include "kernel.h"

#define NAME _avx2
#define TARGET __attribute__((target("avx2,prfchw")))
#define FENCE() _mm_sfence()
#include "kernel.h"

#define NAME _base
#define TARGET
#define FENCE() _mm_sfence()
#include "kernel.h"

static uintptr_t variant(int i)
{
	static const uintptr_t none;
	__builtin_cpu_init();
	switch (i) {
	case 0: return (uintptr_t)copy_base;
	case 1: return __builtin_cpu_supports("avx2") ? (uintptr_t)copy_avx2 : none;
	case 2: return __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vl") ? (uintptr_t)copy_avx512 : none;
	}
	return none;
}
#else
static inline void stream_base(char *d, const char *s, uint64_t n, int64_t ahead)
{
	(void)ahead;
	memcpy(d, s, n);
}
#define NAME _base
#define TARGET
#define FENCE() ((void)0)
#include "kernel.h"
static uintptr_t variant(int i) { return i ? 0 : (uintptr_t)copy_base; }
#endif

static void run(uintptr_t fn, void *arg, uint64_t args, uint64_t stride, uint64_t reps)
{
	void (*f)(void *) = (void (*)(void *))fn;

	for (uint64_t r = 0; r < reps; r++)
		for (uint64_t i = 0; i < args; i++)
			f((char *)arg + i * stride);
}

// The yardsticks: what cannot be beaten, and what everybody writes.
static uint64_t sink;

static void read_lines(void *arg, uint64_t args, uint64_t stride, uint64_t reps)
{
	uint64_t sum = 0;

	for (uint64_t r = 0; r < reps; r++)
		for (uint64_t i = 0; i < args; i++) {
			const struct gobw_copy *a = (const void *)((char *)arg + i * stride);
			const char *s1 = a->src;
			for (uint64_t j = 0; j < a->n1; j++, s1 += a->src1) {
				const char *s = s1;
				for (uint64_t k = 0; k < a->n0; k++, s += a->src0)
					for (uint64_t o = 0; o < a->block; o += 64)
						sum += *(const volatile u64 *)(s + o);
			}
		}
	sink += sum;
}

static void memcpy_blocks(void *arg, uint64_t args, uint64_t stride, uint64_t reps)
{
	for (uint64_t r = 0; r < reps; r++)
		for (uint64_t i = 0; i < args; i++) {
			const struct gobw_copy *a = (const void *)((char *)arg + i * stride);
			const char *s1 = a->src;
			char *d1 = a->dst;
			for (uint64_t j = 0; j < a->n1; j++, s1 += a->src1, d1 += a->dst1) {
				const char *s = s1;
				char *d = d1;
				for (uint64_t k = 0; k < a->n0; k++, s += a->src0, d += a->dst0)
					memcpy(d, s, a->block);
			}
		}
}
*/
import "C"

import "unsafe"

// Kernel is the address of void copy(void *arg) for this processor, and the name of its instruction set.
func Kernel() (address uintptr, isa string) {
	for i, name := range instructionSets() {
		if a := uintptr(C.variant(C.int(i))); a != 0 {
			address, isa = a, name
		}
	}
	return address, isa
}

// Kernels are all that run on this processor, by instruction set.
func Kernels() map[string]uintptr {
	all := map[string]uintptr{}
	for i, name := range instructionSets() {
		if a := uintptr(C.variant(C.int(i))); a != 0 {
			all[name] = a
		}
	}
	return all
}

// instructionSets are in rising order.
func instructionSets() []string { return []string{"base", "avx2", "avx512"} }

// Args is an array of kernel arguments outside the Go heap: Count of them, Stride bytes apart.
type Args struct {
	First  unsafe.Pointer
	Count  int
	Stride int
}

// Run calls the kernel at address once per argument, reps times over.
func Run(address uintptr, a Args, reps int) {
	C.run(C.uintptr_t(address), a.First, C.uint64_t(a.Count), C.uint64_t(a.Stride), C.uint64_t(reps))
}

// ReadLines reads one word of every cache line of every source block: what no copy can beat.
func ReadLines(a Args, reps int) {
	C.read_lines(a.First, C.uint64_t(a.Count), C.uint64_t(a.Stride), C.uint64_t(reps))
}

// MemcpyBlocks calls memcpy once per block.
func MemcpyBlocks(a Args, reps int) {
	C.memcpy_blocks(a.First, C.uint64_t(a.Count), C.uint64_t(a.Stride), C.uint64_t(reps))
}

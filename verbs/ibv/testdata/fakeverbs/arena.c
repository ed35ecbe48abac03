#define _GNU_SOURCE
#include "fake.h"

#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Objects of an arena lie at the same address in every process, so that they may point at each other. */
static void *const ARENA_AT = (void *)0x210000000000;
enum { ARENA_BYTES = 1 << 30 };

static struct shared own;
static int arena_file = -1;
struct shared *shared = &own;

static void refuse(const char *what, const char *file) {
	fprintf(stderr, "fakeverbs: FAKEVERBS_ARENA=%s: %s: %s\n", file, what, strerror(errno));
	exit(2);
}

/* join_arena maps the file, emptied if no other process has it. The lock of a process ends with it. */
__attribute__((constructor)) static void join_arena(void) {
	const char *file = getenv("FAKEVERBS_ARENA");
	if (!file || !*file)
		return;
	char gate_name[4096];
	snprintf(gate_name, sizeof gate_name, "%s.gate", file);
	int gate = open(gate_name, O_RDWR | O_CREAT | O_CLOEXEC, 0600), fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (gate < 0 || fd < 0 || flock(gate, LOCK_EX))
		refuse("open", file);
	if (!flock(fd, LOCK_EX | LOCK_NB) && (ftruncate(fd, 0) || ftruncate(fd, ARENA_BYTES)))
		refuse("truncate", file);
	flock(fd, LOCK_SH);
	if (mmap(ARENA_AT, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE | MAP_NORESERVE, fd, 0) != ARENA_AT)
		refuse("map", file);
	shared = ARENA_AT;
	if (!shared->used)
		shared->used = (sizeof *shared + 63) & ~63ull;
	arena_file = fd;
	close(gate);
}

int has_arena(void) { return shared != &own; }

pid_t this_process(void) {
	static pid_t pid; /* asking takes a system call */
	return pid ? pid : (pid = getpid());
}

void *new_object(size_t bytes) {
	bytes = (bytes + 63) & ~63ull;
	if (has_arena()) {
		uint64_t at = __atomic_fetch_add(&shared->used, bytes, __ATOMIC_RELAXED);
		if (at + bytes > ARENA_BYTES) {
			fprintf(stderr, "fakeverbs: the arena is full\n");
			abort();
		}
		return (char *)shared + at; /* of zeros: nothing is used twice */
	}
	void *p = aligned_alloc(64, bytes);
	if (!p)
		abort();
	return memset(p, 0, bytes);
}

void free_object(void *p) {
	if (!has_arena())
		free(p);
}

uint8_t *share_memory(void *addr, size_t bytes) {
	const uint64_t page = 4096, whole = bytes & ~(page - 1);
	if (!has_arena() || (uint64_t)addr % page || !whole)
		return NULL;
	uint8_t *at = new_object(whole + page);
	at += -(uint64_t)at % page;
	memcpy(at, addr, whole);
	const off_t offset = at - (uint8_t *)shared;
	if (mmap(addr, whole, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, arena_file, offset) != addr)
		refuse("share memory", getenv("FAKEVERBS_ARENA"));
	return at;
}

int is_ours(struct vb_context *c) { return !has_arena() || context_of(c)->process == this_process(); }

/* The lock spins: the processes that share it hold it for less than it takes to sleep. */
void take_lock(void) {
	for (int spins = 0; __atomic_exchange_n(&shared->lock, 1, __ATOMIC_ACQUIRE); spins++) {
		while (__atomic_load_n(&shared->lock, __ATOMIC_RELAXED))
			if (++spins % 1000 == 0)
				sched_yield();
	}
}

void drop_lock(void) { __atomic_store_n(&shared->lock, 0, __ATOMIC_RELEASE); }

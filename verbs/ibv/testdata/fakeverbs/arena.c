#define _GNU_SOURCE
#include "fake.h"

#include <sched.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* Objects of an arena lie at the same address in every process, so that they may point at each other. */
static void *const ARENA_AT = (void *)0x210000000000;
static const uint64_t ARENA_BYTES = 1ull << 32; /* the file has holes */

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
	if (!flock(fd, LOCK_EX | LOCK_NB) && (ftruncate(fd, 0) || ftruncate(fd, (off_t)ARENA_BYTES)))
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

enum { PAGE = 4096 };

/* take_block takes whole pages: of what was given back, or new ones. */
static uint8_t *take_block(size_t bytes) {
	for (int i = 0; i < FREE_BLOCKS; i++) {
		struct free_block *f = &shared->free[i];
		if (f->bytes < bytes)
			continue;
		f->bytes -= bytes;
		return f->at + f->bytes;
	}
	uint8_t *at = new_object(bytes + PAGE);
	return at + -(uint64_t)at % PAGE;
}

/* give_block gives pages back, of zeros. */
static void give_block(uint8_t *at, size_t bytes) {
	if (fallocate(arena_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at - (uint8_t *)shared, (off_t)bytes))
		memset(at, 0, bytes);
	for (int i = 0; i < FREE_BLOCKS; i++) { /* with its neighbours */
		struct free_block *f = &shared->free[i];
		if (f->bytes && (f->at + f->bytes == at || at + bytes == f->at)) {
			at = f->at < at ? f->at : at;
			bytes += f->bytes;
			f->bytes = 0;
		}
	}
	for (int i = 0; i < FREE_BLOCKS; i++)
		if (!shared->free[i].bytes) {
			shared->free[i] = (struct free_block){at, bytes};
			return;
		}
}

struct block share_memory(void *addr, size_t bytes) {
	struct block b = {.from = addr, .bytes = bytes & ~(size_t)(PAGE - 1)};
	if (!has_arena() || (uint64_t)addr % PAGE || !b.bytes)
		return (struct block){0};
	b.at = take_block(b.bytes);
	memcpy(b.at, addr, b.bytes);
	if (mmap(addr, b.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, arena_file, b.at - (uint8_t *)shared) != addr)
		refuse("share memory", getenv("FAKEVERBS_ARENA"));
	return b;
}

void unshare_memory(struct block b) {
	if (mmap(b.from, b.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != b.from)
		refuse("take memory back", getenv("FAKEVERBS_ARENA"));
	memcpy(b.from, b.at, b.bytes);
	give_block(b.at, b.bytes);
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

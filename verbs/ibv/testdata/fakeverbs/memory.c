#define _GNU_SOURCE
#include "fake.h"

struct vb_pd *ibv_alloc_pd(struct vb_context *c) {
	if (fault("alloc_pd") || gone(c))
		return NULL;
	struct vb_pd *pd = new_object(sizeof *pd);
	pd->context = lies_about("a domain without a context") ? NULL : c;
	return pd;
}

int ibv_dealloc_pd(struct vb_pd *pd) { free_object(pd); return 0; }

/* share lets all processes see a key's memory: where another key's lies already, or in a block of the arena. */
static void share(struct key *k) {
	for (int i = 0; i < KEYS; i++) {
		const struct key *other = &keys[i];
		if (other == k || !other->pd || !other->shared || other->pd->context != k->pd->context || !within(other, k->addr, k->length))
			continue;
		k->block = other->block;
		k->shared = other->shared + (k->addr - other->addr);
		return;
	}
	k->block = share_memory((void *)k->addr, k->length);
	k->shared = k->block.at;
}

static struct key *new_key(struct vb_pd *pd) {
	for (int tries = 0; tries < KEYS; tries++) {
		uint32_t n = ++shared->next_key, i = n % KEYS;
		if (i && !keys[i].pd) {
			keys[i] = (struct key){.key = i << 8 | (n / KEYS & 0x7f), .pd = pd};
			return &keys[i];
		}
	}
	errno = ENOMEM;
	return NULL;
}

struct key *find_key(uint32_t key) {
	struct key *k = &keys[key >> 8 & (KEYS - 1)];
	return k->pd && k->key == key ? k : NULL;
}

struct vb_mr *ibv_reg_mr_iova2(struct vb_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access) {
	if (iova != (uint64_t)addr)
		note("reg_mr iova %#llx", (unsigned long long)iova);
	if (fault("reg_mr") || gone(pd->context))
		return NULL;
	if ((access & ON_DEMAND) && !setting("FAKEVERBS_ODP", 0)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (access & ON_DEMAND)
		note("reg_mr on demand");
	if (!length || ((access & (REMOTE_WRITE | REMOTE_ATOMIC)) && !(access & LOCAL_WRITE))) {
		errno = EINVAL;
		return NULL;
	}
	take_lock();
	struct key *k = new_key(pd);
	struct vb_mr *mr = k ? new_object(sizeof *mr) : NULL;
	if (mr) {
		k->addr = (uint64_t)addr, k->length = length, k->access = (int)access;
		share(k);
		*mr = (struct vb_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length, .lkey = k->key, .rkey = k->key};
	}
	drop_lock();
	return mr;
}

struct vb_mr *ibv_reg_dmabuf_mr(struct vb_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
	note("reg_dmabuf_mr fd %d offset %llu length %zu iova %#llx", fd, (unsigned long long)offset, length, (unsigned long long)iova);
	return ibv_reg_mr_iova2(pd, (void *)iova, length, iova, (unsigned)access);
}

struct vb_mr *ibv_reg_mr(struct vb_pd *pd, void *addr, size_t length, int access) {
	return ibv_reg_mr_iova2(pd, addr, length, (uint64_t)addr, (unsigned)access);
}

static void drop_key(uint32_t key) {
	take_lock();
	struct key *k = &keys[key >> 8 & (KEYS - 1)];
	int last = k->shared != NULL;
	k->pd = NULL;
	for (int i = 0; i < KEYS && last; i++)
		last = !keys[i].pd || keys[i].block.at != k->block.at;
	if (last)
		unshare_memory(k->block);
	drop_lock();
}

int ibv_dereg_mr(struct vb_mr *mr) { drop_key(mr->lkey); free_object(mr); return 0; }

struct vb_mw *alloc_mw(struct vb_pd *pd, int type) {
	take_lock();
	struct key *k = new_key(pd);
	struct vb_mw *mw = k ? new_object(sizeof *mw) : NULL;
	if (mw) {
		k->is_window = 1;
		*mw = (struct vb_mw){.context = pd->context, .pd = pd, .rkey = k->key, .type = type};
	}
	drop_lock();
	return mw;
}

int dealloc_mw(struct vb_mw *mw) { drop_key(mw->rkey); free_object(mw); return 0; }

int within(const struct key *k, uint64_t addr, uint64_t length) {
	return addr >= k->addr && length <= k->length && addr - k->addr <= k->length - length;
}


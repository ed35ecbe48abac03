#define _GNU_SOURCE
#include "fake.h"

static uint32_t next_key;

struct vb_pd *ibv_alloc_pd(struct vb_context *c) {
	if (fault("alloc_pd") || gone(c))
		return NULL;
	struct vb_pd *pd = calloc(1, sizeof *pd);
	pd->context = c;
	return pd;
}

int ibv_dealloc_pd(struct vb_pd *pd) { free(pd); return 0; }

static struct key *new_key(struct vb_pd *pd) {
	for (int tries = 0; tries < KEYS; tries++) {
		uint32_t n = ++next_key, i = n % KEYS;
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
	pthread_mutex_lock(&lock);
	struct key *k = new_key(pd);
	struct vb_mr *mr = k ? calloc(1, sizeof *mr) : NULL;
	if (mr) {
		k->addr = (uint64_t)addr, k->length = length, k->access = (int)access;
		*mr = (struct vb_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length, .lkey = k->key, .rkey = k->key};
	}
	pthread_mutex_unlock(&lock);
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
	pthread_mutex_lock(&lock);
	keys[key >> 8 & (KEYS - 1)].pd = NULL;
	pthread_mutex_unlock(&lock);
}

int ibv_dereg_mr(struct vb_mr *mr) { drop_key(mr->lkey); free(mr); return 0; }

struct vb_mw *alloc_mw(struct vb_pd *pd, int type) {
	pthread_mutex_lock(&lock);
	struct key *k = new_key(pd);
	struct vb_mw *mw = k ? calloc(1, sizeof *mw) : NULL;
	if (mw) {
		k->is_window = 1;
		*mw = (struct vb_mw){.context = pd->context, .pd = pd, .rkey = k->key, .type = type};
	}
	pthread_mutex_unlock(&lock);
	return mw;
}

int dealloc_mw(struct vb_mw *mw) { drop_key(mw->rkey); free(mw); return 0; }

int within(const struct key *k, uint64_t addr, uint64_t length) {
	return addr >= k->addr && length <= k->length && addr - k->addr <= k->length - length;
}


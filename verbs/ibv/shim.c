//go:build linux && cgo

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct vb_symbol symbols[] = {
#define SYMBOL(symbol, how, type, name, version, parameters, arguments, without) ROW(vb_verbs, symbol, version, name, without)
#include "symbols.h"
};
_Static_assert(sizeof symbols / sizeof *symbols <= 64, "struct vb_loaded.missing has 64 bits");
const struct vb_table vb_verbs_table = {symbols, sizeof symbols / sizeof *symbols, sizeof(struct vb_verbs)};

struct vb_call vb_calls[VB_CALLS];

struct vb_call *vb_enter(const char *name, const void *object, enum vb_object is) {
	if (object && is == VB_OF_CONTEXT)
		object = *(struct vb_context *const *)object;
	if (object && is >= VB_CONTEXT)
		object = ((const struct vb_context *)object)->device;
	for (struct vb_call *c = vb_calls; c < vb_calls + VB_CALLS; c++) {
		uint32_t free = __atomic_load_n(&c->serial, __ATOMIC_RELAXED) & ~1u;
		if (!__atomic_compare_exchange_n(&c->serial, &free, free + 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			continue;
		c->name = name;
		memset(c->device, 0, sizeof c->device);
		if (object && is != VB_NONE)
			memcpy(c->device, ((const struct vb_device *)object)->name, sizeof c->device - 1);
		return c;
	}
	return NULL;
}

void vb_leave(struct vb_call *c) {
	if (c)
		__atomic_fetch_add(&c->serial, 1, __ATOMIC_RELEASE);
}

int vb_load(struct vb_loaded *l, const char *name, const struct vb_table *t, void *into) {
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *e = dlerror();
		snprintf(l->error, sizeof l->error, "%s", e ? e : "unknown error");
		return -1;
	}
	int lacking = 0;
	void *any = NULL;
	for (int i = 0; i < t->count; i++) {
		const struct vb_symbol *row = &t->rows[i];
		void *f = dlvsym(handle, row->name, row->version);
		if (!f) {
			l->missing |= 1ull << i;
			lacking |= !*row->without;
			continue;
		}
		any = f;
		memcpy((char *)into + row->offset, &f, sizeof f);
	}
	Dl_info where;
	if (any && dladdr(any, &where) && where.dli_fname) {
		char *real = realpath(where.dli_fname, NULL);
		snprintf(l->path, sizeof l->path, "%s", real ? real : where.dli_fname);
		free(real);
	}
	return lacking ? -2 : 0;
}

/* EXTENDED is the extended context of a device, NULL where it does not have that entry. */
#define EXTENDED(c, entry) extended(c, offsetof(struct vb_verbs_context, entry))

static struct vb_verbs_context *extended(struct vb_context *c, size_t entry) {
	if (c->abi_compat != (void *)-1)
		return NULL;
	struct vb_verbs_context *x = (struct vb_verbs_context *)((char *)c - offsetof(struct vb_verbs_context, context));
	if (x->sz < sizeof *x - entry || !*(void **)((char *)x + entry))
		return NULL;
	return x;
}

int vb_query_device_ex(struct vb_context *c, struct vb_device_attr_ex *a) {
	memset(a, 0, sizeof *a);
	struct vb_verbs_context *x = EXTENDED(c, query_device_ex);
	if (!x)
		return EOPNOTSUPP;
	WATCH("ibv_query_device_ex", c);
	errno = 0;
	return vb_result(x->query_device_ex(c, NULL, a, sizeof *a));
}

int vb_query_gid_table(const struct vb_verbs *v, struct vb_context *c, struct vb_gid_entry *e, size_t max) {
	if (!v->query_gid_table)
		return -ENOSYS;
	WATCH("ibv_query_gid_table", c);
	errno = 0;
	ssize_t n = v->query_gid_table(c, e, max, 0, sizeof *e);
	return n < 0 ? -vb_result((int)n) : (int)n;
}

struct vb_mw *vb_alloc_mw(struct vb_pd *pd) {
	WATCH("ibv_alloc_mw", pd);
	errno = 0;
	if (!pd->context->ops.alloc_mw) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return pd->context->ops.alloc_mw(pd, 2);
}

struct vb_cq *vb_create_cq(const struct vb_verbs *v, struct vb_context *c, int depth, struct vb_comp_channel *ch, int vector, int stamps) {
	WATCH("ibv_create_cq", c);
	struct vb_verbs_context *x = EXTENDED(c, create_cq_ex);
	struct vb_cq_init_attr_ex a = {
		.cqe = (uint32_t)depth, .channel = ch, .comp_vector = (uint32_t)vector,
		.wc_flags = stamps ? VB_WC_EX_BYTE_LEN | VB_WC_EX_IMM | VB_WC_EX_QP_NUM | VB_WC_EX_SRC_QP | VB_WC_EX_TIMESTAMP : 0,
	};
	errno = x ? 0 : EOPNOTSUPP;
	struct vb_cq_ex *cq = x ? x->create_cq_ex(c, &a) : NULL;
	if (stamps && cq && !cq->read_completion_ts) { /* the driver does not know the flag */
		v->destroy_cq(&cq->base);
		cq = NULL;
		errno = EOPNOTSUPP;
	}
	if (cq || stamps || errno != EOPNOTSUPP)
		return (struct vb_cq *)cq;
	errno = 0;
	return v->create_cq(c, depth, NULL, ch, vector);
}

int vb_poll_cq(struct vb_cq *cq, int n, struct vb_wc *wc) {
	errno = 0;
	n = cq->context->ops.poll_cq(cq, n, wc);
	return n < 0 ? -vb_result(n) : n;
}

int vb_poll_stamped(struct vb_cq *cq, int n, struct vb_wc *wc) {
	struct vb_cq_ex *x = (struct vb_cq_ex *)cq;
	struct vb_polled *p = (struct vb_polled *)wc;
	struct vb_poll_cq_attr attr = {0};
	int got = 0, rc = x->start_poll(x, &attr);
	if (rc)
		return rc == ENOENT ? 0 : -rc;
	do {
		struct vb_wc *w = &wc[got];
		*w = (struct vb_wc){.wr_id = x->wr_id, .status = x->status, .qp_num = x->read_qp_num(x)};
		if (w->status) {
			w->vendor_err = x->read_vendor_err(x);
			continue;
		}
		w->opcode = x->read_opcode(x);
		w->byte_len = x->read_byte_len(x);
		w->wc_flags = x->read_wc_flags(x);
		if (w->wc_flags & (VB_WC_WITH_IMM | VB_WC_WITH_INV))
			w->imm_or_rkey = x->read_imm_data(x);
		if (w->opcode & VB_WC_RECV)
			w->src_qp = x->read_src_qp(x);
		p->latest[w->opcode & VB_WC_RECV ? 1 : 0] = p->stamps[got] = x->read_completion_ts(x);
	} while (++got < n && x->next_poll(x) == 0);
	x->end_poll(x);
	return got;
}

struct vb_qp *vb_create_qp_ex(const struct vb_verbs *v, struct vb_pd *pd, struct vb_qp_init_attr *a, uint64_t ops) {
	WATCH("ibv_create_qp_ex", pd);
	struct vb_verbs_context *c = EXTENDED(pd->context, create_qp_ex);
	if (!c || !v->qp_to_qp_ex) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct vb_qp_init_attr_ex x = {
		.send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq, .cap = a->cap, .qp_type = a->qp_type, .sq_sig_all = a->sq_sig_all,
		.comp_mask = VB_QP_INIT_PD | VB_QP_INIT_SEND_OPS, .pd = pd, .send_ops_flags = ops,
	};
	errno = 0;
	struct vb_qp *qp = c->create_qp_ex(pd->context, &x);
	if (!qp)
		return NULL;
	if ((void *)v->qp_to_qp_ex(qp) != (void *)qp) { /* no ibv_wr_* after all */
		v->destroy_qp(qp);
		errno = EOPNOTSUPP;
		return NULL;
	}
	a->cap = x.cap;
	return qp;
}

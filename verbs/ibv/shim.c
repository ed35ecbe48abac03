//go:build linux && cgo

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONAL, REQUIRED };

#define ROW(name, version, need, field, without) {name, version, need, offsetof(struct vb_verbs, field), without}

/* One row per verb: the loader walks this, and nothing else knows the names. */
static const struct vb_symbol symbols[] = {
	ROW("ibv_get_device_list", "IBVERBS_1.1", REQUIRED, get_device_list, ""),
	ROW("ibv_free_device_list", "IBVERBS_1.1", REQUIRED, free_device_list, ""),
	ROW("ibv_get_device_guid", "IBVERBS_1.1", REQUIRED, get_device_guid, ""),
	ROW("ibv_open_device", "IBVERBS_1.1", REQUIRED, open_device, ""),
	ROW("ibv_close_device", "IBVERBS_1.1", REQUIRED, close_device, ""),
	ROW("ibv_query_device", "IBVERBS_1.1", REQUIRED, query_device, ""),
	ROW("ibv_query_port", "IBVERBS_1.1", REQUIRED, query_port, ""),
	ROW("ibv_query_gid", "IBVERBS_1.1", REQUIRED, query_gid, ""),
	ROW("_ibv_query_gid_table", "IBVERBS_1.11", OPTIONAL, query_gid_table, "the GID table with its types (read from sysfs instead)"),
	ROW("ibv_query_pkey", "IBVERBS_1.1", REQUIRED, query_pkey, ""),
	ROW("ibv_get_async_event", "IBVERBS_1.1", REQUIRED, get_async_event, ""),
	ROW("ibv_ack_async_event", "IBVERBS_1.1", REQUIRED, ack_async_event, ""),
	ROW("ibv_alloc_pd", "IBVERBS_1.1", REQUIRED, alloc_pd, ""),
	ROW("ibv_dealloc_pd", "IBVERBS_1.1", REQUIRED, dealloc_pd, ""),
	ROW("ibv_reg_mr", "IBVERBS_1.1", REQUIRED, reg_mr, ""),
	ROW("ibv_reg_mr_iova2", "IBVERBS_1.8", OPTIONAL, reg_mr_iova2, "relaxed ordering of memory regions"),
	ROW("ibv_reg_dmabuf_mr", "IBVERBS_1.12", OPTIONAL, reg_dmabuf_mr, "registering dma-bufs"),
	ROW("ibv_dereg_mr", "IBVERBS_1.1", REQUIRED, dereg_mr, ""),
	ROW("ibv_create_comp_channel", "IBVERBS_1.0", REQUIRED, create_comp_channel, ""),
	ROW("ibv_destroy_comp_channel", "IBVERBS_1.0", REQUIRED, destroy_comp_channel, ""),
	ROW("ibv_get_cq_event", "IBVERBS_1.1", REQUIRED, get_cq_event, ""),
	ROW("ibv_ack_cq_events", "IBVERBS_1.1", REQUIRED, ack_cq_events, ""),
	ROW("ibv_create_cq", "IBVERBS_1.1", REQUIRED, create_cq, ""),
	ROW("ibv_resize_cq", "IBVERBS_1.1", OPTIONAL, resize_cq, "resizing completion queues"),
	ROW("ibv_destroy_cq", "IBVERBS_1.1", REQUIRED, destroy_cq, ""),
	ROW("ibv_create_qp", "IBVERBS_1.1", REQUIRED, create_qp, ""),
	ROW("ibv_qp_to_qp_ex", "IBVERBS_1.6", OPTIONAL, qp_to_qp_ex, "posting with ibv_wr_*, as stock perftest does on some devices (ibv_post_send instead)"),
	ROW("ibv_modify_qp", "IBVERBS_1.1", REQUIRED, modify_qp, ""),
	ROW("ibv_query_qp", "IBVERBS_1.1", REQUIRED, query_qp, ""),
	ROW("ibv_destroy_qp", "IBVERBS_1.1", REQUIRED, destroy_qp, ""),
	ROW("ibv_create_srq", "IBVERBS_1.1", REQUIRED, create_srq, ""),
	ROW("ibv_modify_srq", "IBVERBS_1.1", REQUIRED, modify_srq, ""),
	ROW("ibv_query_srq", "IBVERBS_1.1", REQUIRED, query_srq, ""),
	ROW("ibv_destroy_srq", "IBVERBS_1.1", REQUIRED, destroy_srq, ""),
	ROW("ibv_create_ah", "IBVERBS_1.1", REQUIRED, create_ah, ""),
	ROW("ibv_destroy_ah", "IBVERBS_1.1", REQUIRED, destroy_ah, ""),
	ROW("ibv_attach_mcast", "IBVERBS_1.1", REQUIRED, attach_mcast, ""),
	ROW("ibv_detach_mcast", "IBVERBS_1.1", REQUIRED, detach_mcast, ""),
};

enum { SYMBOLS = sizeof symbols / sizeof symbols[0] };
_Static_assert(SYMBOLS <= 64, "struct vb_loaded.missing has 64 bits");

int vb_symbol_count(void) { return SYMBOLS; }

const struct vb_symbol *vb_symbol_at(int i) { return &symbols[i]; }

int vb_load(struct vb_library *lib, const char *name) {
	return vb_load_symbols(&lib->loaded, name, symbols, SYMBOLS, &lib->verbs);
}

int vb_load_symbols(struct vb_loaded *l, const char *name, const struct vb_symbol *rows, int n, void *into) {
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *e = dlerror();
		snprintf(l->error, sizeof l->error, "%s", e ? e : "unknown error");
		return -1;
	}
	int lacking = 0;
	void *any = NULL;
	for (int i = 0; i < n; i++) {
		void *f = dlvsym(handle, rows[i].name, rows[i].version);
		if (!f) {
			l->missing |= 1ull << i;
			lacking |= rows[i].required;
			continue;
		}
		any = f;
		memcpy((char *)into + rows[i].offset, &f, sizeof f);
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

uint64_t vb_get_device_guid(const struct vb_verbs *v, struct vb_device *d) { return __builtin_bswap64(v->get_device_guid(d)); }

static void non_blocking(int fd) {
	int flags = fcntl(fd, F_GETFL);
	if (flags >= 0)
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

struct vb_context *vb_open_device(const struct vb_verbs *v, struct vb_device *d) {
	errno = 0;
	struct vb_context *c = v->open_device(d);
	if (c)
		non_blocking(c->async_fd);
	return c;
}

int vb_query_device(const struct vb_verbs *v, struct vb_context *c, struct vb_device_attr *a) {
	int rc = vb_result(v->query_device(c, a));
	a->node_guid = __builtin_bswap64(a->node_guid);
	a->sys_image_guid = __builtin_bswap64(a->sys_image_guid);
	return rc;
}

int vb_query_device_ex(struct vb_context *c, struct vb_device_attr_ex *a) {
	memset(a, 0, sizeof *a);
	struct vb_verbs_context *x = EXTENDED(c, query_device_ex);
	if (!x)
		return EOPNOTSUPP;
	errno = 0;
	return vb_result(x->query_device_ex(c, NULL, a, sizeof *a));
}

int vb_query_port(const struct vb_verbs *v, struct vb_context *c, int port, struct vb_port_attr *a) {
	/* ibv_query_port@IBVERBS_1.1 writes 48 bytes; room for a longer one costs nothing. */
	union { struct vb_port_attr a; char room[256]; } u;
	memset(&u, 0, sizeof u);
	int rc = vb_result(v->query_port(c, (uint8_t)port, &u));
	*a = u.a;
	return rc;
}

int vb_query_gid_table(const struct vb_verbs *v, struct vb_context *c, struct vb_gid_entry *e, size_t max) {
	if (!v->query_gid_table)
		return -ENOSYS;
	errno = 0;
	ssize_t n = v->query_gid_table(c, e, max, 0, sizeof *e);
	return n < 0 ? -vb_result((int)n) : (int)n;
}

int vb_query_pkey(const struct vb_verbs *v, struct vb_context *c, int port, int index, uint16_t *key) {
	errno = 0;
	int rc = vb_result(v->query_pkey(c, (uint8_t)port, index, key));
	*key = __builtin_bswap16(*key);
	return rc;
}

int vb_get_async_event(const struct vb_verbs *v, struct vb_context *c, struct vb_async_event *e, int *port, void **object) {
	errno = 0;
	int rc = vb_result(v->get_async_event(c, e));
	*port = 0;
	*object = NULL;
	switch (rc ? -1 : e->event_type) {
	case -1: case 8: /* none; of the device */
		break;
	case 9: case 10: case 11: case 12: case 13: case 17: case 18: /* of a port */
		*port = e->element.port_num;
		break;
	default:
		*object = e->element.qp;
	}
	return rc;
}

struct vb_mr *vb_reg_mr(const struct vb_verbs *v, struct vb_pd *pd, int fd, uint64_t addr, size_t length, uint64_t iova, unsigned access) {
	errno = 0;
	if (fd >= 0 && v->reg_dmabuf_mr)
		return v->reg_dmabuf_mr(pd, addr, length, iova, fd, (int)access);
	if (fd < 0 && v->reg_mr_iova2)
		return v->reg_mr_iova2(pd, (void *)addr, length, iova, access);
	if (fd >= 0 || iova != addr) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return v->reg_mr(pd, (void *)addr, length, (int)(access & 0xfffff)); /* without the optional flags */
}

struct vb_mw *vb_alloc_mw(struct vb_pd *pd) {
	errno = 0;
	if (!pd->context->ops.alloc_mw) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	return pd->context->ops.alloc_mw(pd, 2);
}

struct vb_comp_channel *vb_create_comp_channel(const struct vb_verbs *v, struct vb_context *c) {
	errno = 0;
	struct vb_comp_channel *ch = v->create_comp_channel(c);
	if (ch)
		non_blocking(ch->fd);
	return ch;
}

int vb_wait(const struct vb_comp_channel *ch, int ms) {
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};
	return poll(&p, 1, ms);
}

int vb_get_cq_event(const struct vb_verbs *v, struct vb_comp_channel *ch, struct vb_cq **cq) {
	void *context;
	errno = 0;
	return vb_result(v->get_cq_event(ch, cq, &context));
}

struct vb_cq *vb_create_cq(const struct vb_verbs *v, struct vb_context *c, int depth, struct vb_comp_channel *ch, int vector, int stamps) {
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

int vb_post_srq_recv(struct vb_srq *srq, struct vb_recv_wr *wr, struct vb_recv_wr **bad) {
	errno = 0;
	if (!srq->context->ops.post_srq_recv)
		return EOPNOTSUPP;
	return vb_result(srq->context->ops.post_srq_recv(srq, wr, bad));
}


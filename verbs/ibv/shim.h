/* Loading libibverbs and calling it: one wrapper per verb, none of them with a decision of its own. */
#ifndef GOBW_IBV_SHIM_H
#define GOBW_IBV_SHIM_H

#include "abi.h"

#include <errno.h>

/* The symbols of libibverbs that we call. */
struct vb_verbs {
	struct vb_device **(*get_device_list)(int *);
	void (*free_device_list)(struct vb_device **);
	uint64_t (*get_device_guid)(struct vb_device *);
	struct vb_context *(*open_device)(struct vb_device *);
	int (*close_device)(struct vb_context *);
	int (*query_device)(struct vb_context *, struct vb_device_attr *);
	int (*query_port)(struct vb_context *, uint8_t, void *);
	int (*query_gid)(struct vb_context *, uint8_t, int, void *);
	ssize_t (*query_gid_table)(struct vb_context *, struct vb_gid_entry *, size_t, uint32_t, size_t);
	int (*query_pkey)(struct vb_context *, uint8_t, int, uint16_t *);
	int (*get_async_event)(struct vb_context *, struct vb_async_event *);
	void (*ack_async_event)(struct vb_async_event *);
	struct vb_pd *(*alloc_pd)(struct vb_context *);
	int (*dealloc_pd)(struct vb_pd *);
	struct vb_mr *(*reg_mr)(struct vb_pd *, void *, size_t, int);
	struct vb_mr *(*reg_mr_iova2)(struct vb_pd *, void *, size_t, uint64_t, unsigned);
	struct vb_mr *(*reg_dmabuf_mr)(struct vb_pd *, uint64_t offset, size_t length, uint64_t iova, int fd, int access);
	int (*dereg_mr)(struct vb_mr *);
	struct vb_comp_channel *(*create_comp_channel)(struct vb_context *);
	int (*destroy_comp_channel)(struct vb_comp_channel *);
	int (*get_cq_event)(struct vb_comp_channel *, struct vb_cq **, void **);
	void (*ack_cq_events)(struct vb_cq *, unsigned);
	struct vb_cq *(*create_cq)(struct vb_context *, int, void *, struct vb_comp_channel *, int);
	int (*resize_cq)(struct vb_cq *, int);
	int (*destroy_cq)(struct vb_cq *);
	struct vb_qp *(*create_qp)(struct vb_pd *, struct vb_qp_init_attr *);
	struct vb_qp_ex *(*qp_to_qp_ex)(struct vb_qp *);
	int (*modify_qp)(struct vb_qp *, struct vb_qp_attr *, int);
	int (*query_qp)(struct vb_qp *, struct vb_qp_attr *, int, struct vb_qp_init_attr *);
	int (*destroy_qp)(struct vb_qp *);
	struct vb_srq *(*create_srq)(struct vb_pd *, struct vb_srq_init_attr *);
	int (*modify_srq)(struct vb_srq *, struct vb_srq_attr *, int);
	int (*query_srq)(struct vb_srq *, struct vb_srq_attr *);
	int (*destroy_srq)(struct vb_srq *);
	struct vb_ah *(*create_ah)(struct vb_pd *, struct vb_ah_attr *);
	int (*destroy_ah)(struct vb_ah *);
	int (*attach_mcast)(struct vb_qp *, const void *gid, uint16_t lid);
	int (*detach_mcast)(struct vb_qp *, const void *gid, uint16_t lid);
};

/* VB_POLL_BATCH is the number of completions fetched in one call. */
enum { VB_POLL_BATCH = 16 };

/* What vb_poll_stamped has found: beside the completions the device's time stamps of those that succeeded, and of all found so
   far the latest stamp of an own request [0] and of a receive [1]. */
struct vb_polled {
	struct vb_wc wc[VB_POLL_BATCH];
	uint64_t stamps[VB_POLL_BATCH];
	uint64_t latest[2];
};

/* A row of a library's symbol table. */
struct vb_symbol {
	const char *name;
	const char *version; /* of the symbol, in the library's map */
	int required;
	size_t offset;       /* in the struct of pointers */
	const char *without; /* what is off when it is missing */
};

/* What loading a library found. */
struct vb_loaded {
	char path[512];   /* where it was found */
	char error[512];  /* what dlopen said */
	uint64_t missing; /* bit i: symbol i was not found */
};

/* A loaded libibverbs. It is never unloaded: providers keep threads and state. */
struct vb_library {
	struct vb_verbs verbs;
	struct vb_loaded loaded;
};

/* vb_load_symbols opens a library and fills a struct of pointers: 0, or -1 with l->error set, or -2 when a required symbol
   is missing. */
int vb_load_symbols(struct vb_loaded *l, const char *name, const struct vb_symbol *rows, int n, void *into);

int vb_symbol_count(void);
const struct vb_symbol *vb_symbol_at(int i);
int vb_load(struct vb_library *lib, const char *name);

/* CALL makes a verb's result 0 or an errno: verbs return 0, a positive errno, a negative one, or -1 with errno set, depending on
   their age and on the driver. What is above 0 stays. */
#define CALL(f) (errno = 0, vb_result(f))
static inline int vb_result(int rc) { return rc >= 0 ? rc : rc != -1 ? -rc : errno ? errno : EIO; }

/* Wrappers: pointers are NULL with errno set, integers are 0 or an errno. */
static inline struct vb_device **vb_get_device_list(const struct vb_verbs *v, int *n) { errno = 0; return v->get_device_list(n); }
static inline void vb_free_device_list(const struct vb_verbs *v, struct vb_device **list) { v->free_device_list(list); }
uint64_t vb_get_device_guid(const struct vb_verbs *v, struct vb_device *d);
struct vb_context *vb_open_device(const struct vb_verbs *v, struct vb_device *d);
static inline int vb_close_device(const struct vb_verbs *v, struct vb_context *c) { return CALL(v->close_device(c)); }
int vb_query_device(const struct vb_verbs *v, struct vb_context *c, struct vb_device_attr *a);
/* vb_query_device_ex fills what the device knows of the extended attributes, the rest with 0. */
int vb_query_device_ex(struct vb_context *c, struct vb_device_attr_ex *a);
int vb_query_port(const struct vb_verbs *v, struct vb_context *c, int port, struct vb_port_attr *a);
static inline int vb_query_gid(const struct vb_verbs *v, struct vb_context *c, int port, int index, void *gid) {
	return CALL(v->query_gid(c, (uint8_t)port, index, gid));
}
int vb_query_gid_table(const struct vb_verbs *v, struct vb_context *c, struct vb_gid_entry *e, size_t max); /* n, or -errno */
int vb_query_pkey(const struct vb_verbs *v, struct vb_context *c, int port, int index, uint16_t *key);
/* vb_get_async_event says which port or object the event is about; the object stays until the event is acknowledged. */
int vb_get_async_event(const struct vb_verbs *v, struct vb_context *c, struct vb_async_event *e, int *port, void **object);
static inline void vb_ack_async_event(const struct vb_verbs *v, struct vb_async_event *e) { v->ack_async_event(e); }
static inline struct vb_pd *vb_alloc_pd(const struct vb_verbs *v, struct vb_context *c) { errno = 0; return v->alloc_pd(c); }
static inline int vb_dealloc_pd(const struct vb_verbs *v, struct vb_pd *pd) { return CALL(v->dealloc_pd(pd)); }
/* vb_reg_mr registers memory at addr or, with an fd that is not negative, at that place of a dma-buf. */
struct vb_mr *vb_reg_mr(const struct vb_verbs *v, struct vb_pd *pd, int fd, uint64_t addr, size_t length, uint64_t iova, unsigned access);
static inline int vb_dereg_mr(const struct vb_verbs *v, struct vb_mr *mr) { return CALL(v->dereg_mr(mr)); }
struct vb_mw *vb_alloc_mw(struct vb_pd *pd);
static inline int vb_dealloc_mw(struct vb_mw *mw) { return CALL(mw->context->ops.dealloc_mw(mw)); }
struct vb_comp_channel *vb_create_comp_channel(const struct vb_verbs *v, struct vb_context *c);
static inline int vb_destroy_comp_channel(const struct vb_verbs *v, struct vb_comp_channel *ch) {
	return CALL(v->destroy_comp_channel(ch));
}
/* vb_wait tells, with a number above 0, that a channel has an event within so many milliseconds. */
int vb_wait(const struct vb_comp_channel *ch, int ms);
int vb_get_cq_event(const struct vb_verbs *v, struct vb_comp_channel *ch, struct vb_cq **cq);
static inline void vb_ack_cq_events(const struct vb_verbs *v, struct vb_cq *cq, unsigned n) { v->ack_cq_events(cq, n); }
/* vb_create_cq makes a queue as perftest does, by ibv_create_cq_ex where the device has it. One with stamps is polled with
   vb_poll_stamped; NULL with errno EOPNOTSUPP where there is none. */
struct vb_cq *vb_create_cq(const struct vb_verbs *v, struct vb_context *c, int depth, struct vb_comp_channel *ch, int vector, int stamps);
static inline int vb_resize_cq(const struct vb_verbs *v, struct vb_cq *cq, int depth) {
	return v->resize_cq ? CALL(v->resize_cq(cq, depth)) : EOPNOTSUPP;
}
static inline int vb_destroy_cq(const struct vb_verbs *v, struct vb_cq *cq) { return CALL(v->destroy_cq(cq)); }
int vb_poll_cq(struct vb_cq *cq, int n, struct vb_wc *wc); /* n found, or a negative errno */
int vb_poll_stamped(struct vb_cq *cq, int n, struct vb_wc *wc); /* the same, into the wc of a struct vb_polled */
static inline int vb_req_notify_cq(struct vb_cq *cq, int solicited_only) {
	return CALL(cq->context->ops.req_notify_cq(cq, solicited_only));
}
static inline struct vb_qp *vb_create_qp(const struct vb_verbs *v, struct vb_pd *pd, struct vb_qp_init_attr *a) {
	errno = 0;
	return v->create_qp(pd, a);
}
/* vb_create_qp_ex makes a queue pair whose sends are posted with ibv_wr_*: ops are bits, 1 << opcode. NULL with errno EOPNOTSUPP
   where the library or the device has no such interface, or not for all of ops. */
struct vb_qp *vb_create_qp_ex(const struct vb_verbs *v, struct vb_pd *pd, struct vb_qp_init_attr *a, uint64_t ops);
static inline int vb_modify_qp(const struct vb_verbs *v, struct vb_qp *qp, struct vb_qp_attr *a, int mask) {
	return CALL(v->modify_qp(qp, a, mask));
}
static inline int vb_query_qp(const struct vb_verbs *v, struct vb_qp *qp, struct vb_qp_attr *a, int mask, struct vb_qp_init_attr *i) {
	return CALL(v->query_qp(qp, a, mask, i));
}
static inline int vb_destroy_qp(const struct vb_verbs *v, struct vb_qp *qp) { return CALL(v->destroy_qp(qp)); }
/* vb_post_send calls a device's own function, or one of post.h. */
static inline int vb_post_send(vb_post_send_fn *post, struct vb_qp *qp, struct vb_send_wr *wr, struct vb_send_wr **bad) {
	return CALL(post(qp, wr, bad));
}
static inline int vb_post_recv(struct vb_qp *qp, struct vb_recv_wr *wr, struct vb_recv_wr **bad) {
	return CALL(qp->context->ops.post_recv(qp, wr, bad));
}
static inline struct vb_srq *vb_create_srq(const struct vb_verbs *v, struct vb_pd *pd, struct vb_srq_init_attr *a) {
	errno = 0;
	return v->create_srq(pd, a);
}
static inline int vb_modify_srq(const struct vb_verbs *v, struct vb_srq *srq, struct vb_srq_attr *a, int mask) {
	return CALL(v->modify_srq(srq, a, mask));
}
static inline int vb_query_srq(const struct vb_verbs *v, struct vb_srq *srq, struct vb_srq_attr *a) { return CALL(v->query_srq(srq, a)); }
static inline int vb_destroy_srq(const struct vb_verbs *v, struct vb_srq *srq) { return CALL(v->destroy_srq(srq)); }
int vb_post_srq_recv(struct vb_srq *srq, struct vb_recv_wr *wr, struct vb_recv_wr **bad);
static inline struct vb_ah *vb_create_ah(const struct vb_verbs *v, struct vb_pd *pd, struct vb_ah_attr *a) {
	errno = 0;
	return v->create_ah(pd, a);
}
static inline int vb_destroy_ah(const struct vb_verbs *v, struct vb_ah *ah) { return CALL(v->destroy_ah(ah)); }
static inline int vb_attach_mcast(const struct vb_verbs *v, struct vb_qp *qp, const void *gid, int lid) {
	return CALL(v->attach_mcast(qp, gid, (uint16_t)lid));
}
static inline int vb_detach_mcast(const struct vb_verbs *v, struct vb_qp *qp, const void *gid, int lid) {
	return CALL(v->detach_mcast(qp, gid, (uint16_t)lid));
}

#endif

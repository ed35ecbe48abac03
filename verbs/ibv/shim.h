/* Loading libibverbs and calling it: one wrapper per verb, none of them with a decision of its own. */
#ifndef GOBW_IBV_SHIM_H
#define GOBW_IBV_SHIM_H

#include "abi.h"

#include <errno.h>

/* A row of a library's symbol table, and the table. */
struct vb_symbol {
	const char *name;
	const char *version; /* of the symbol, in the library's map */
	size_t offset;       /* in the struct of pointers */
	const char *without; /* what is off when it is missing; "": it is required */
};
struct vb_table {
	const struct vb_symbol *rows;
	int count;
	size_t size; /* of the struct of pointers */
};

/* What loading a library found. */
struct vb_loaded {
	char path[512];   /* where it was found */
	char error[512];  /* what dlopen said */
	uint64_t missing; /* bit i: symbol i was not found */
};

/* vb_load opens a library and fills a struct of pointers: 0, or -1 with l->error set, or -2 when a required symbol is missing. It is
   never unloaded: providers keep threads and state. */
int vb_load(struct vb_loaded *l, const char *name, const struct vb_table *t, void *into);

/* CALL makes a verb's result 0 or an errno: verbs return 0, a positive errno, a negative one, or -1 with errno set, depending on
   their age and on the driver. What is above 0 stays. */
#define CALL(f) (errno = 0, vb_result(f))
static inline int vb_result(int rc) { return rc >= 0 ? rc : rc != -1 ? -rc : errno ? errno : EIO; }

/* A call into a library that is under way. A driver may hang: hanging.go tells which call has not returned for long. */
struct vb_call {
	uint32_t serial; /* odd: under way */
	const char *name;
	char device[64];
};
enum { VB_CALLS = 64 }; /* of one process at once; further ones are not seen */
extern struct vb_call vb_calls[VB_CALLS];

/* vb_enter notes that a call begins, vb_leave that it has returned. The object is a device, or what begins with its context, or NULL. */
enum vb_object { VB_NONE, VB_DEVICE, VB_CONTEXT, VB_OF_CONTEXT };
struct vb_call *vb_enter(const char *name, const void *object, enum vb_object is);
void vb_leave(struct vb_call *call);
/* vb_enter_run notes that a job runs: its polls and posts make no mark of their own. */
static inline struct vb_call *vb_enter_run(struct vb_context *c) {
	return vb_enter("ibv_poll_cq, ibv_post_send or ibv_post_recv", c, VB_CONTEXT);
}
static inline void vb_end(struct vb_call **call) { vb_leave(*call); }


/* WATCH has a call of this name be seen for as long as its block runs. */
#define WATCH(name, object) __attribute__((cleanup(vb_end))) struct vb_call *call = vb_enter(name, object, OBJECT(object))
#define OBJECT(x)                                                                      \
	_Generic((x), struct vb_device *: VB_DEVICE, struct vb_context *: VB_CONTEXT, struct vb_pd *: VB_OF_CONTEXT, \
		 struct vb_mr *: VB_OF_CONTEXT, struct vb_mw *: VB_OF_CONTEXT, struct vb_cq *: VB_OF_CONTEXT,        \
		 struct vb_qp *: VB_OF_CONTEXT, struct vb_srq *: VB_OF_CONTEXT, struct vb_ah *: VB_OF_CONTEXT,       \
		 struct vb_comp_channel *: VB_OF_CONTEXT, default: VB_NONE)
#define FIRST(first, ...) (first)

/* What the rows of symbols.h and rdmacm_symbols.h make. */
#define POINTER(symbol, how, type, name, version, parameters, arguments, without) type(*name) parameters;
#define WRAPPER(library, prefix, symbol, how, type, name, parameters, arguments) \
	WRAP_##how(library, prefix, symbol, type, name, parameters, arguments)
#define LIST(...) __VA_ARGS__
#define WRAP_PTR(library, prefix, symbol, type, name, parameters, arguments)               \
	static inline type prefix##name(const struct library *v, LIST parameters) {        \
		WATCH(symbol, FIRST arguments);                                            \
		errno = v->name ? 0 : EOPNOTSUPP;                                          \
		return v->name ? v->name arguments : NULL;                                 \
	}
#define WRAP_INT(library, prefix, symbol, type, name, parameters, arguments)               \
	static inline type prefix##name(const struct library *v, LIST parameters) {        \
		WATCH(symbol, FIRST arguments);                                            \
		return v->name ? CALL(v->name arguments) : EOPNOTSUPP;                     \
	}
#define WRAP_VALUE(library, prefix, symbol, type, name, parameters, arguments) \
	static inline type prefix##name(const struct library *v, LIST parameters) { return v->name arguments; }
#define WRAP_OWN(library, prefix, symbol, type, name, parameters, arguments)
#define ROW(library, symbol, version, name, without) {symbol, version, offsetof(struct library, name), without},

struct vb_verbs {
#define SYMBOL POINTER
#include "symbols.h"
};
#define SYMBOL(symbol, how, type, name, version, parameters, arguments, without) WRAPPER(vb_verbs, vb_, symbol, how, type, name, parameters, arguments)
#include "symbols.h"
extern const struct vb_table vb_verbs_table;

/* vb_query_gid_table returns how many entries there are, or a negative errno. */
int vb_query_gid_table(const struct vb_verbs *v, struct vb_context *c, struct vb_gid_entry *e, size_t max);
/* vb_query_device_ex fills what the device knows of the extended attributes, the rest with 0. */
int vb_query_device_ex(struct vb_context *c, struct vb_device_attr_ex *a);
struct vb_mw *vb_alloc_mw(struct vb_pd *pd);
static inline int vb_dealloc_mw(struct vb_mw *mw) {
	WATCH("ibv_dealloc_mw", mw);
	return CALL(mw->context->ops.dealloc_mw(mw));
}

/* vb_create_cq makes a queue as perftest does, by ibv_create_cq_ex where the device has it. One with stamps is polled with
   vb_poll_stamped; NULL with errno EOPNOTSUPP where there is none. */
struct vb_cq *vb_create_cq(const struct vb_verbs *v, struct vb_context *c, int depth, struct vb_comp_channel *ch, int vector, int stamps);
static inline int vb_req_notify_cq(struct vb_cq *cq, int solicited_only) {
	return CALL(cq->context->ops.req_notify_cq(cq, solicited_only));
}

/* VB_POLL_BATCH is the number of completions fetched in one call. */
enum { VB_POLL_BATCH = 16 };

/* What vb_poll_stamped has found: beside the completions the device's time stamps of those that succeeded, and of all found so
   far the latest stamp of an own request [0] and of a receive [1]. */
struct vb_polled {
	struct vb_wc wc[VB_POLL_BATCH];
	uint64_t stamps[VB_POLL_BATCH];
	uint64_t latest[2];
};
int vb_poll_cq(struct vb_cq *cq, int n, struct vb_wc *wc);      /* n found, or a negative errno */
int vb_poll_stamped(struct vb_cq *cq, int n, struct vb_wc *wc); /* the same, into the wc of a struct vb_polled */
static inline int vb_poll(struct vb_cq *cq, int n, struct vb_polled *p, int stamps) {
	return stamps ? vb_poll_stamped(cq, n, p->wc) : vb_poll_cq(cq, n, p->wc);
}

/* vb_create_qp_ex makes a queue pair whose sends are posted with ibv_wr_*: ops are bits, 1 << opcode. NULL with errno EOPNOTSUPP
   where the library or the device has no such interface, or not for all of ops. */
struct vb_qp *vb_create_qp_ex(const struct vb_verbs *v, struct vb_pd *pd, struct vb_qp_init_attr *a, uint64_t ops);
/* vb_poster returns the function that posts a list of requests like this one to a queue pair made for ibv_wr_*. It is called
   as ibv_post_send is; in a list that it refuses, no request is posted. alike: every list it will be given has this list's
   opcodes and flags, and one entry for each request. */
vb_post_send_fn *vb_poster(const struct vb_qp *qp, const struct vb_send_wr *list, int alike);
/* vb_post_send calls a device's own function, or a poster. */
static inline int vb_post_send(vb_post_send_fn *post, struct vb_qp *qp, struct vb_send_wr *wr, struct vb_send_wr **bad) {
	return CALL(post(qp, wr, bad));
}
/* vb_post_recv calls a device's post_recv or post_srq_recv, with the queue that it is for. */
static inline int vb_post_recv(void *post, void *queue, struct vb_recv_wr *wr, struct vb_recv_wr **bad) {
	return post ? CALL(((int (*)(void *, struct vb_recv_wr *, struct vb_recv_wr **))post)(queue, wr, bad)) : EOPNOTSUPP;
}

#endif

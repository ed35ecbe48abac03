/*
 * libibverbs.so.1 whose device is roce0: the structs and calls that a program sees. The device itself is written in Go, in a
 * library of its own beside this one. It is loaded when a program opens the device, so that a program that only links with
 * libibverbs has no Go runtime in it, and one that forks first may fork.
 */
#ifndef GOBW_LIBIBVERBS_DEVICE_H
#define GOBW_LIBIBVERBS_DEVICE_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../ibv/abi.h"

#define EXPORT __attribute__((visibility("default")))
#define DEVICE_NAME "roce0"

/* The calls into the Go library. An int is an errno, 0 for success, where nothing else is said. */
#define DEVICE_CALLS(X)                                                                                                \
	X(Open, (int))                     /* of the context's events */                                               \
	X(Close, (int))                                                                                                \
	X(Quit, (void))                    /* the program exits */                                                     \
	X(MakeRoom, (void))                /* on the stack of this thread's calls */                                   \
	X(Device, (struct vb_device_attr_ex *))                                                                        \
	X(Port, (uint8_t, struct vb_port_attr *))                                                                      \
	X(GID, (uint32_t, struct vb_gid_entry *))                                                                      \
	X(AllocPD, (int, uint32_t *))                                                                                  \
	X(Free, (uint32_t, uint32_t *)) /* how many events it has told: by the context's pipe, by the channel's */     \
	X(Register, (uint32_t, void *, size_t, uint64_t, int, uint32_t *, uint32_t *))                                 \
	X(AllocWindow, (uint32_t, int, uint32_t *, uint32_t *))                                                        \
	X(CreateAH, (uint32_t, struct vb_ah_attr *, uint32_t *))                                                       \
	X(CreateChannel, (int, int, uint32_t *))                                                                       \
	X(CreateCQ, (uint32_t, int, void *, int, int, uint32_t *, int *))                                              \
	X(ResizeCQ, (uint32_t, int, int *))                                                                            \
	X(Poll, (uint32_t, int, struct vb_wc *, uint64_t *)) /* how many; -1: the queue has overflowed */              \
	X(Arm, (uint32_t, int))                                                                                        \
	X(CreateSRQ, (uint32_t, int, void *, struct vb_srq_attr *, uint32_t *))                                        \
	X(LimitSRQ, (uint32_t, uint32_t))                                                                              \
	X(QuerySRQ, (uint32_t, uint32_t *))                                                                            \
	X(CreateQP, (uint32_t, int, struct vb_qp_init_attr *, uint32_t, void *, uint32_t *, uint32_t *))               \
	X(ModifyQP, (uint32_t, struct vb_qp_attr *, int))                                                              \
	X(QueryQP, (uint32_t, struct vb_qp_attr *))                                                                    \
	X(PostSend, (uint32_t, struct vb_send_wr *, struct vb_send_wr **, int)) /* so many together, or none; 0: any */ \
	X(PostReceive, (uint32_t, struct vb_recv_wr *, struct vb_recv_wr **))                                          \
	X(Multicast, (uint32_t, void *, uint16_t, int))

#define DEVICE_CALL_FIELD(name, arguments) int(*name) arguments;
struct device_calls {
	DEVICE_CALLS(DEVICE_CALL_FIELD)
};
extern struct device_calls device;

/* An event of a context, as the Go library writes it to the context's pipe. */
struct event {
	uint64_t element; /* a struct of the program, or a port */
	uint64_t type;
};

/* Objects of the program, each with what the library keeps of it behind the part that verbs.h declares. */
struct parent_domain_attr {
	struct vb_pd *pd;
	void *td;
	uint32_t comp_mask;
};

struct values_ex {
	uint32_t comp_mask;
	struct timespec raw_clock;
};

struct channel {
	struct vb_comp_channel base;
	int events;
	uint32_t handle;
};

struct pd {
	struct vb_pd base;
	struct pd *of; /* a parent domain: the domain itself */
	int parents;   /* those of it */
};

struct mr {
	struct vb_mr base;
	uint64_t iova;
	int access;
};

struct mw_bind {
	uint64_t wr_id;
	uint32_t send_flags;
	struct vb_mw_bind_info info;
};

struct ah {
	struct vb_context *context;
	struct vb_pd *pd;
	uint32_t handle;
};

struct srq {
	struct vb_context *context;
	void *srq_context;
	struct vb_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	struct vb_srq_attr attr;
};

struct cq {
	struct vb_cq_ex ex;
	void *later_readers[4]; /* cvlan, flow tag, tag matching, wall clock: 0 */
	int events;             /* the context's pipe, for what happens to the queue */
	pthread_mutex_t polling; /* held from ibv_start_poll to ibv_end_poll */
	struct vb_wc wc;         /* the completion that is shown */
	uint64_t stamp;
};

struct qp {
	struct vb_qp_ex ex;
	void *later_calls[4]; /* atomic write, flush: not for queue pairs of this device */
	int sq_sig_all, is_extended;
	struct vb_qp_cap cap;
	struct batch *batch; /* requests between ibv_wr_start and ibv_wr_complete */
};

/* An extended context: in front of what ibv/abi.h knows are the calls that it does not use. */
struct context {
	int (*query_port)(struct vb_context *, uint8_t, struct vb_port_attr *, size_t);
	void *advise_mr, *alloc_null_mr, *read_counters, *attach_counters_point_flow, *create_counters, *destroy_counters;
	void *reg_dm_mr, *alloc_dm, *free_dm, *modify_flow_action_esp, *destroy_flow_action, *create_flow_action_esp;
	void *modify_qp_rate_limit;
	struct vb_pd *(*alloc_parent_domain)(struct vb_context *, struct parent_domain_attr *);
	int (*dealloc_td)(void *);
	void *(*alloc_td)(struct vb_context *, void *);
	void *modify_cq, *post_srq_ops, *destroy_rwq_ind_table, *create_rwq_ind_table, *destroy_wq, *modify_wq, *create_wq;
	int (*query_rt_values)(struct vb_context *, struct values_ex *);
	struct vb_verbs_context verbs;
	int events; /* the end of the pipe that the Go library writes to */
};

int load_device(void);
struct cq *create_cq(struct vb_context *, int cqe, void *cq_context, struct vb_comp_channel *, int vector, int stamps);
#ifndef INFINIBAND_VERBS_H /* the test has the real ones */
struct vb_qp *ibv_create_qp(struct vb_pd *, struct vb_qp_init_attr *);
int ibv_destroy_qp(struct vb_qp *);
struct vb_mr *ibv_reg_mr(struct vb_pd *, void *, size_t, int);
#endif
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
int unsupported(const char *what);
void *no_object(int error);
void set_calls_of_device(struct context *);
void set_calls_of_objects(struct context *);
void set_extended_calls(struct context *);
void set_missing_calls(struct context *);

/*
 * enter begins all calls into the device; load_device does it for the call that opens it. A child of fork has no
 * threads of the device: its calls are refused. A thread of the program that is new here gets room for signal handlers.
 */
int enter(void);
int pipe_of_events(int *read_end, int *write_end);
void end_events(int read_end, int write_end, void *element, uint32_t told, pthread_mutex_t *, pthread_cond_t *,
		const uint32_t *acknowledged);

static inline struct context *context_of(struct vb_context *c) {
	return (struct context *)((char *)c - offsetof(struct context, verbs.context));
}

/* object allocates a struct of the program, or sets errno. */
static inline void *object(size_t size) { return calloc(1, size); }

#endif

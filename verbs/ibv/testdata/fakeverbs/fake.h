/*
 * A libibverbs without hardware, for the tests. It answers as the specification has it, so that verbs/verbstest needs no table of
 * deviations. Both ends are in one process, unless there is an arena. Every request is carried out as it is posted, unless a cost
 * is planted.
 *
 *   FAKEVERBS_LINK=ib          InfiniBand with a LID; otherwise Ethernet with GIDs of RoCE v2
 *   FAKEVERBS_PORTS=2          two ports, whose GIDs end in 1 and 2
 *   FAKEVERBS_ODP=1            memory may be registered on demand, for all operations over RC; otherwise such calls fail
 *   FAKEVERBS_PART=4129        the device's part number: 4129 is a ConnectX-7, on which perftest posts with ibv_wr_*
 *   FAKEVERBS_CLOCK=156250     kHz of the device's clock; without it, completions have no time stamps
 *   FAKEVERBS_TICKS=156260     kHz at which it really runs, as a quartz that is a little off
 *   FAKEVERBS_WRAP=5000        its ticks from the first stamp until it begins anew at 0
 *   FAKEVERBS_STAMPLESS=1      ibv_create_cq_ex takes the flag for time stamps and overlooks it
 *   FAKEVERBS_FAULTS=verb=12   a comma list: that verb fails with that errno
 *   FAKEVERBS_HANG=verb        a comma list: that verb never returns; poll_cq: once the first request has been posted
 *   FAKEVERBS_LIES=lie         a comma list of what this library tells or makes that cannot be: see lies_about's callers
 *   FAKEVERBS_CONTEXT=56       bytes of the extended context before the ordinary one; 0: not extended (libraries before 2013)
 *   FAKEVERBS_UNTOLD=1         querying a queue pair leaves its state out, as on software iWARP
 *   FAKEVERBS_VANISH=1000      the device is torn out after so many posts: DEVICE_FATAL, and nothing ever completes
 *   FAKEVERBS_TRACE=FILE       receives a line per call that a test asks for: its name and what it was given
 *
 * Two processes, such as those of gobw --loopback, meet in a file; emptied when nobody else has it:
 *   FAKEVERBS_ARENA=FILE       their objects lie there. Completion and asynchronous events do not cross from one to the other.
 *   FAKEVERBS_MOVE=0           no data move (a WRITE's last byte neither); requests, receives and completions do
 *
 * A truth that a test plants. Each process has a device, which works on one request at a time, for REQUEST_NS + ENTRY_NS for each
 * entry + BYTE_NS for each byte. The data is at the peer, and the completion here, a latency later, which keeps nothing busy. (The
 * peer answers a READ or an atomic at once: then copying the answer does not make its completion late.)
 *   FAKEVERBS_REQUEST_NS=300 FAKEVERBS_ENTRY_NS=30 FAKEVERBS_BYTE_NS=0.01
 *   FAKEVERBS_LATENCY_NS=3000  or 2000@0.9,5000@0.1: latencies with their shares
 *   FAKEVERBS_SLOW=3000-3100:500,6000-7000:x4   messages of these sizes take 500 ns more, four times as long
 *   FAKEVERBS_DRIFT_MS=1000    until so long after the first request the device is slower, at first FAKEVERBS_DRIFT_X times
 *   FAKEVERBS_WAVE_MS=10       in each second stretch so long the device is slower, FAKEVERBS_WAVE_X times
 *   FAKEVERBS_HALT_MS=50       the first post after FAKEVERBS_HALT_AT requests keeps the CPU busy so long
 *   FAKEVERBS_POST_NS=500      a post keeps the CPU busy so long; FAKEVERBS_POLL_NS: a poll that finds something
 *   FAKEVERBS_CORRUPT=7        one byte of this process's request 7 (from 1) is wrong; its middle one
 *   FAKEVERBS_LOSE=7           the completion of request 7 never comes; FAIL: it fails with RETRY_EXC; TWICE: it comes twice;
 *                              INVENT: with it comes one that nobody asked for; TWICE_IN: the completion of receive 7 comes twice
 *   FAKEVERBS_SYSFS=DIR        the kernel's files lie under DIR/class/infiniband/fake0; see COUNTERS
 *   FAKEVERBS_COUNTERS=counters/port_xmit_discards:65530:4,hw_counters/rx:7:9   files of port 1: the value at first, and the one
 *                              from request FAKEVERBS_COUNTED (1000) on
 *   FAKEVERBS_TOTALS=FILE      gets a line at the end of each process: its requests and their bytes
 */
#ifndef FAKE_H
#define FAKE_H

#include "../../abi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SGE = 16, MAX_SGE_READ = 8, MAX_INLINE = 256, MAX_WR = 16384, MAX_CQE = 1 << 16, MAX_READS = 16, MAX_GROUPS = 64, FREE_BLOCKS = 256, KEYS = 1 << 14, QPS = 1 << 12 };
enum { RC = 2, UC = 3, UD = 4 };
enum { RESET, INIT, RTR, RTS, SQD, SQE, ERR };
enum { WRITE, WRITE_IMM, SEND, SEND_IMM, READ, COMPARE_SWAP, FETCH_ADD, LOCAL_INV, BIND_MW, SEND_INV };
enum { FENCE = 1, SIGNALED = 2, SOLICITED = 4, INLINED = 8 };
enum { LOCAL_WRITE = 1, REMOTE_WRITE = 2, REMOTE_READ = 4, REMOTE_ATOMIC = 8, MW_BIND = 16, ZERO_BASED = 32, ON_DEMAND = 64 };
enum { OK, LOC_LEN, LOC_QP_OP, LOC_EEC_OP, LOC_PROT, FLUSH, MW_BIND_ERR, BAD_RESP, LOC_ACCESS, REM_INV_REQ, REM_ACCESS, REM_OP, RETRY_EXC, RNR_EXC, WAIT = -1, DROPPED = -2 };
enum { RECV = 128, WITH_GRH = 1, WITH_IMM = 2, WITH_INV = 8, GRH = 40, MULTICAST_QPN = 0xffffff };
#define CLOCK_MASK ((1ull << 48) - 1)
enum { CQ_ERR = 0, COMM_EST = 4, SQ_DRAINED = 5, DEVICE_FATAL = 8, SRQ_LIMIT = 15, LAST_WQE = 16 };

struct qp;
struct cqe { struct vb_wc wc; struct qp *qp; uint32_t slot; int is_send; uint64_t time; };
struct cq { struct vb_cq_ex ex; struct cqe *e; uint32_t in, out; int armed, broken; _Atomic int events, unacknowledged; /* completion events: those read */ struct cqe now; };
struct receive { uint64_t id; int n; struct vb_sge sge[MAX_SGE]; };
struct rq { struct receive *r; uint32_t in, out, size; int sges; };
struct srq { struct vb_context *context; struct vb_pd *pd; struct rq rq; uint32_t limit; _Atomic int events; };
struct send { struct vb_send_wr wr; uint64_t due, number; int answered, status; /* a READ or an atomic, ahead of due */ struct vb_sge sge[MAX_SGE]; uint8_t data[MAX_INLINE]; };
struct qp {
	struct vb_qp_ex ex; /* first: what libibverbs hands out */
	struct vb_qp_attr a;
	struct vb_qp_cap cap;
	struct send *sq;
	uint32_t in, next, out; /* posted, carried out, and given back by a completion */
	int all, waits, told; /* told: COMM_EST */
	struct rq own, *rq;
	struct srq *srq;
	struct send *draft, *drafting; /* of ibv_wr_* */
	uint32_t drafts;
	int draft_error;
	_Atomic int events; /* asynchronous, not yet acknowledged */
	uint64_t last_due; /* of its planned requests */
	int pends;         /* it is in the list of those with requests to carry out */
	struct qp *pending;
};
struct block { uint8_t *at; void *from; size_t bytes; }; /* of the arena, for memory of a process */
struct key { uint32_t key; struct vb_pd *pd; uint64_t addr, length; uint8_t *shared; /* where every process sees it; NULL: only its own */ struct block block; int access, is_window, bound; struct qp *qp; uint64_t zero; /* where the first byte of a zero-based window is */ };
struct device_context { struct vb_verbs_context x; pid_t process; int events_in; long posts_left; int gone; };
struct ah { struct vb_context *context; struct vb_ah_attr a; };
struct member { struct qp *qp; uint8_t group[16]; uint16_t lid; }; /* of a multicast group */

/* arena.c */
struct shared {
	uint64_t used; /* bytes of the arena */
	uint32_t lock; /* of everything */
	uint32_t next_key, next_qp;
	struct key keys[KEYS];
	struct qp *qps[QPS];
	struct member members[MAX_GROUPS];
	struct free_block { uint8_t *at; size_t bytes; } free[FREE_BLOCKS]; /* pages of memory that is no longer registered */
};
extern struct shared *shared;
#define keys (shared->keys)
#define qps (shared->qps)
#define members (shared->members)
int has_arena(void);
pid_t this_process(void);
void *new_object(size_t bytes); /* of zeros */
void free_object(void *p);
struct block share_memory(void *addr, size_t bytes); /* moves whole pages into the arena; at NULL: it cannot */
void unshare_memory(struct block b);                 /* gives the process its own memory back */
int is_ours(struct vb_context *c); /* tells whether this process opened it */
void take_lock(void);
void drop_lock(void);

/* plan.c */
enum { MAX_PLANNED = 16 };
struct plan {
	int timed; /* requests take time */
	double request, entry, byte, drift_ns, drift_factor, wave_factor;
	struct latency { double ns, share; } latency[MAX_PLANNED];
	struct slow { uint64_t low, high; double ns, factor; } slow[MAX_PLANNED];
	int latencies, ranges;
	int still; /* no data move */
	int poll_hangs, overfills; /* asked once: asking the environment in each poll makes a completion late */
	uint64_t wave_ns;
	long post, poll, halt;
	uint64_t corrupt, lose, fail, twice, invent, twice_in, halt_at; /* numbers of requests, from 1; twice_in: of a receive */
	uint64_t requests, received;                                   /* of this process so far */
};
extern struct plan plan;
extern uint64_t planned_now; /* what is due by then is carried out */
void read_plan(void); /* from the environment, when the list of devices is asked for */
int planned(void);
uint64_t nanoseconds(void);
void spend(long ns);
void spend_post(void);
void schedule(struct qp *q, struct send *s, uint64_t now);
int is_idle(void);      /* nothing of this process is to be carried out */
void progress(void);    /* carries out what is due */
void run_waiting(void); /* lets those go on that wait for a receive */
void forget_planned(struct qp *q);

/* device.c */
long setting(const char *name, long by_default);
int infiniband(void);
int has_port(int port);
void note(const char *format, ...) __attribute__((format(printf, 1, 2))); /* a line of the trace */
int fault(const char *verb); /* sets errno and returns it when the verb is to fail; one that is to hang does */
int hangs(const char *verb);
void hang(const char *verb); /* if that verb is to */
int lies_about(const char *what);
int gone(struct vb_context *c); /* likewise when the device has been torn out */
struct device_context *context_of(struct vb_context *c);
void raise_event(struct vb_context *c, int type, void *element, _Atomic int *count);
void await_events(_Atomic int *count); /* until all are acknowledged, as destroying does */
int ibv_query_gid(struct vb_context *c, uint8_t port, int i, uint8_t *gid);

/* counters.c */
void begin_counters(void);
void count_request(const struct send *s);

/* memory.c */
struct key *find_key(uint32_t key);
int within(const struct key *k, uint64_t addr, uint64_t length);
struct vb_mw *alloc_mw(struct vb_pd *pd, int type);
int dealloc_mw(struct vb_mw *mw);

/* completion.c */
void complete(struct cq *q, struct cqe e, int solicited);
void forget(struct cq *q, const struct qp *qp);
int poll_cq(struct vb_cq *cq, int n, struct vb_wc *wc);
int req_notify_cq(struct vb_cq *cq, int solicited_only);
struct vb_cq_ex *create_cq_ex(struct vb_context *c, struct vb_cq_init_attr_ex *a);

/* transport.c */
void set_state(struct qp *q, int state);
void run(struct qp *q);    /* carries out what is posted and due, as far as it goes */

/* post.c */
int post_send(struct vb_qp *qp, struct vb_send_wr *w, struct vb_send_wr **bad);
int post_recv(struct vb_qp *qp, struct vb_recv_wr *w, struct vb_recv_wr **bad);
int post_srq_recv(struct vb_srq *srq, struct vb_recv_wr *w, struct vb_recv_wr **bad);
void offer_wr(struct vb_qp_ex *x); /* fills in the calls of ibv_wr_* */

/* queue_pair.c */
struct vb_qp *create_qp_ex(struct vb_context *c, struct vb_qp_init_attr_ex *x);

#endif

/*
 * A libibverbs without hardware, for the tests: one process, both ends in it, every request carried out as it is posted. It
 * answers as the specification has it, so that verbs/verbstest needs no table of deviations.
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
 *   FAKEVERBS_CONTEXT=56       bytes of the extended context before the ordinary one; 0: not extended (libraries before 2013)
 *   FAKEVERBS_UNTOLD=1         querying a queue pair leaves its state out, as on software iWARP
 *   FAKEVERBS_VANISH=1000      the device is torn out after so many posts: DEVICE_FATAL, and nothing ever completes
 *   FAKEVERBS_TRACE=FILE       receives a line per call that a test asks for: its name and what it was given
 */
#ifndef FAKE_H
#define FAKE_H

#include "../../abi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SGE = 16, MAX_SGE_READ = 8, MAX_INLINE = 256, MAX_WR = 16384, MAX_CQE = 1 << 16, MAX_READS = 16, MAX_GROUPS = 64, KEYS = 1 << 14, QPS = 1 << 12 };
enum { RC = 2, UC = 3, UD = 4 };
enum { RESET, INIT, RTR, RTS, SQD, SQE, ERR };
enum { WRITE, WRITE_IMM, SEND, SEND_IMM, READ, COMPARE_SWAP, FETCH_ADD, LOCAL_INV, BIND_MW, SEND_INV };
enum { FENCE = 1, SIGNALED = 2, SOLICITED = 4, INLINED = 8 };
enum { LOCAL_WRITE = 1, REMOTE_WRITE = 2, REMOTE_READ = 4, REMOTE_ATOMIC = 8, MW_BIND = 16, ON_DEMAND = 64 };
enum { OK, LOC_LEN, LOC_QP_OP, LOC_EEC_OP, LOC_PROT, FLUSH, MW_BIND_ERR, BAD_RESP, LOC_ACCESS, REM_INV_REQ, REM_ACCESS, REM_OP, RETRY_EXC, RNR_EXC, WAIT = -1, DROPPED = -2 };
enum { RECV = 128, WITH_GRH = 1, WITH_IMM = 2, WITH_INV = 8, GRH = 40, MULTICAST_QPN = 0xffffff };
#define CLOCK_MASK ((1ull << 48) - 1)
enum { CQ_ERR = 0, SQ_DRAINED = 5, DEVICE_FATAL = 8, SRQ_LIMIT = 15, LAST_WQE = 16 };

struct qp;
struct cqe { struct vb_wc wc; struct qp *qp; uint32_t slot; int is_send; uint64_t time; };
struct cq { struct vb_cq_ex ex; struct cqe *e; uint32_t in, out; int armed, broken; _Atomic int events, unacknowledged; /* completion events: those read */ struct cqe now; };
struct receive { uint64_t id; int n; struct vb_sge sge[MAX_SGE]; };
struct rq { struct receive *r; uint32_t in, out, size; int sges; };
struct srq { struct vb_context *context; struct rq rq; uint32_t limit; _Atomic int events; };
struct send { struct vb_send_wr wr; struct vb_sge sge[MAX_SGE]; uint8_t data[MAX_INLINE]; };
struct qp {
	struct vb_qp_ex ex; /* first: what libibverbs hands out */
	struct vb_qp_attr a;
	struct vb_qp_cap cap;
	struct send *sq;
	uint32_t in, next, out; /* posted, carried out, and given back by a completion */
	int all, waits;
	struct rq own, *rq;
	struct srq *srq;
	struct send *draft, *drafting; /* of ibv_wr_* */
	uint32_t drafts;
	int draft_error;
	_Atomic int events; /* asynchronous, not yet acknowledged */
};
struct key { uint32_t key; struct vb_pd *pd; uint64_t addr, length; int access, is_window, bound; struct qp *qp; };
struct device_context { struct vb_verbs_context x; int events_in; long posts_left; int gone; };
struct ah { struct vb_ah_attr a; };
struct member { struct qp *qp; uint8_t group[16]; uint16_t lid; }; /* of a multicast group */

extern pthread_mutex_t lock; /* of everything */
extern struct key keys[KEYS];
extern struct qp *qps[QPS];
extern struct member members[MAX_GROUPS];

/* device.c */
long setting(const char *name, long by_default);
int infiniband(void);
int has_port(int port);
void note(const char *format, ...) __attribute__((format(printf, 1, 2))); /* a line of the trace */
int fault(const char *verb); /* sets errno and returns it when the verb is to fail */
int gone(struct vb_context *c); /* likewise when the device has been torn out */
struct device_context *context_of(struct vb_context *c);
void raise_event(struct vb_context *c, int type, void *element, _Atomic int *count);
void await_events(_Atomic int *count); /* until all are acknowledged, as destroying does */
int ibv_query_gid(struct vb_context *c, uint8_t port, int i, uint8_t *gid);

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
void run(struct qp *q);    /* carries out what is posted, as far as it goes */
void run_waiting(void);    /* lets those go on that wait for a receive */

/* post.c */
int post_send(struct vb_qp *qp, struct vb_send_wr *w, struct vb_send_wr **bad);
int post_recv(struct vb_qp *qp, struct vb_recv_wr *w, struct vb_recv_wr **bad);
int post_srq_recv(struct vb_srq *srq, struct vb_recv_wr *w, struct vb_recv_wr **bad);
void offer_wr(struct vb_qp_ex *x); /* fills in the calls of ibv_wr_* */

/* queue_pair.c */
struct vb_qp *create_qp_ex(struct vb_context *c, struct vb_qp_init_attr_ex *x);

#endif

/* The objects of a program: domains, memory, queues. Each struct keeps the Go library's handle where verbs.h has one. */
#define _GNU_SOURCE
#include "device.h"

#include <endian.h>
#include <unistd.h>

/* made frees an object that the device refused, or is the object. */
static void *made(void *o, int error) {
	if (!error)
		return o;
	free(o);
	return no_object(error);
}

/* told leaves an error in errno, too, where some programs look. */
static int told(int error) {
	if (error)
		errno = error;
	return error;
}

#define CALL(name, ...) told(enter() ? EPERM : device.name(__VA_ARGS__))

/* ---- protection domains ---- */

EXPORT struct vb_pd *ibv_alloc_pd(struct vb_context *c) {
	struct pd *pd = object(sizeof *pd);
	if (!pd)
		return NULL;
	pd->base.context = c;
	return made(pd, CALL(AllocPD, context_of(c)->events, &pd->base.handle));
}

EXPORT int ibv_dealloc_pd(struct vb_pd *p) {
	struct pd *pd = (struct pd *)p;
	int error = pd->of ? 0 : __atomic_load_n(&pd->parents, __ATOMIC_RELAXED) ? EBUSY : CALL(Free, p->handle, NULL);
	if (error)
		return error;
	if (pd->of)
		__atomic_sub_fetch(&pd->of->parents, 1, __ATOMIC_RELAXED);
	free(pd);
	return 0;
}

/* A parent domain is another struct for the same domain: this device has one lock, so that thread domains change nothing. */
static struct vb_pd *alloc_parent_domain(struct vb_context *c, struct parent_domain_attr *attr) {
	if (!attr->pd || attr->comp_mask)
		return no_object(attr->pd ? EOPNOTSUPP : EINVAL);
	struct pd *pd = object(sizeof *pd);
	if (!pd)
		return NULL;
	pd->base = *attr->pd;
	pd->base.context = c;
	pd->of = ((struct pd *)attr->pd)->of ?: (struct pd *)attr->pd;
	__atomic_add_fetch(&pd->of->parents, 1, __ATOMIC_RELAXED);
	return &pd->base;
}

static void *alloc_td(struct vb_context *c, void *attr) {
	struct vb_context **td = object(sizeof *td);
	(void)attr;
	if (td)
		*td = c;
	return td;
}

static int dealloc_td(void *td) {
	free(td);
	return 0;
}

/* ---- memory ---- */

enum { ACCESS_ZERO_BASED = 1 << 5 };

EXPORT struct vb_mr *ibv_reg_mr_iova2(struct vb_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access) {
	struct mr *mr = object(sizeof *mr);
	if (!mr)
		return NULL;
	mr->base = (struct vb_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
	mr->iova = access & ACCESS_ZERO_BASED ? 0 : iova, mr->access = (int)access;
	int error = CALL(Register, pd->handle, addr, length, mr->iova,
			 (int)(access & ~ACCESS_ZERO_BASED), &mr->base.handle, &mr->base.lkey);
	mr->base.rkey = mr->base.lkey;
	return made(mr, error);
}

EXPORT struct vb_mr *ibv_reg_mr_iova(struct vb_pd *pd, void *addr, size_t length, uint64_t iova, int access) {
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

EXPORT struct vb_mr *ibv_reg_mr(struct vb_pd *pd, void *addr, size_t length, int access) {
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

/* What ibv_reg_mr_ex is told (libibverbs 1.15). */
struct mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask, iova;
	void *addr;
};

enum { MR_IOVA = 1 << 0, MR_ADDR = 1 << 1, MR_BUFFER = 1 << 5 };

EXPORT struct vb_mr *ibv_reg_mr_ex(struct vb_pd *pd, struct mr_init_attr *a) {
	if (!(a->comp_mask & MR_ADDR) || a->comp_mask & ~(uint64_t)(MR_IOVA | MR_ADDR | MR_BUFFER))
		return no_object(unsupported("ibv_reg_mr_ex: a dma-buf or a DMA handle"));
	uint64_t iova = a->comp_mask & MR_IOVA ? a->iova : (uintptr_t)a->addr;
	return ibv_reg_mr_iova2(pd, a->addr, a->length, iova, (unsigned)a->access);
}

EXPORT int ibv_dereg_mr(struct vb_mr *mr) {
	int error = CALL(Free, mr->handle, NULL);
	if (!error)
		free(mr);
	return error;
}

enum { REREG_TRANSLATION = 1, REREG_PD = 2, REREG_ACCESS = 4 };
enum { REREG_ERR_INPUT = -1, REREG_ERR_CMD = -4 };

/* A region that changes is another one, with another key, in the same struct. */
EXPORT int ibv_rereg_mr(struct vb_mr *mr, int flags, struct vb_pd *pd, void *addr, size_t length, int access) {
	struct mr *old = (struct mr *)mr;
	if (flags & ~(REREG_TRANSLATION | REREG_PD | REREG_ACCESS) || (flags & REREG_PD && !pd)) {
		errno = EINVAL;
		return REREG_ERR_INPUT;
	}
	uint64_t iova = (uintptr_t)addr;
	if (!(flags & REREG_TRANSLATION))
		addr = mr->addr, length = mr->length, iova = old->iova;
	struct vb_mr *now = ibv_reg_mr_iova2(flags & REREG_PD ? pd : mr->pd, addr, length, iova,
					     (unsigned)(flags & REREG_ACCESS ? access : old->access));
	if (!now)
		return REREG_ERR_CMD;
	int error = CALL(Free, mr->handle, NULL);
	if (error) {
		ibv_dereg_mr(now);
		errno = error;
		return REREG_ERR_CMD;
	}
	*old = *(struct mr *)now;
	free(now);
	return 0;
}

static struct vb_mw *alloc_mw(struct vb_pd *pd, int type) {
	if (type != 1 && type != 2)
		return no_object(EINVAL);
	struct vb_mw *mw = object(sizeof *mw);
	if (!mw)
		return NULL;
	*mw = (struct vb_mw){.context = pd->context, .pd = pd, .type = type};
	return made(mw, CALL(AllocWindow, pd->handle, type, &mw->handle, &mw->rkey));
}

static int dealloc_mw(struct vb_mw *mw) {
	int error = CALL(Free, mw->handle, NULL);
	if (!error)
		free(mw);
	return error;
}

/* ---- address handles ---- */

EXPORT struct vb_ah *ibv_create_ah(struct vb_pd *pd, struct vb_ah_attr *attr) {
	struct ah *ah = object(sizeof *ah);
	if (!ah)
		return NULL;
	ah->context = pd->context, ah->pd = pd;
	return made(ah, CALL(CreateAH, pd->handle, attr, &ah->handle));
}

EXPORT int ibv_destroy_ah(struct vb_ah *a) {
	int error = CALL(Free, ((struct ah *)a)->handle, NULL);
	if (!error)
		free(a);
	return error;
}

struct grh {
	uint32_t version_class_flow;
	uint16_t length;
	uint8_t next_header, hop_limit;
	uint8_t from[16], to[16];
};

/* The answer to a datagram goes where it came from. An IPv4 header is the second half of what lies in the buffer. */
EXPORT int ibv_init_ah_from_wc(struct vb_context *c, uint8_t port, struct vb_wc *wc, struct grh *grh,
			       struct vb_ah_attr *attr) {
	*attr = (struct vb_ah_attr){.port_num = port, .is_global = 1};
	if (!(wc->wc_flags & 1))
		return errno = EINVAL, -1;
	uint8_t to[16] = {[10] = 0xff, [11] = 0xff};
	const uint8_t *header = (uint8_t *)grh;
	if (header[0] >> 4 == 6) {
		uint32_t first = be32toh(grh->version_class_flow);
		memcpy(attr->grh.dgid, grh->from, 16);
		memcpy(to, grh->to, 16);
		attr->grh.flow_label = first & 0xfffff;
		attr->grh.traffic_class = first >> 20 & 0xff;
	} else {
		memcpy(attr->grh.dgid, to, 16);
		memcpy(attr->grh.dgid + 12, header + 20 + 12, 4);
		memcpy(to + 12, header + 20 + 16, 4);
		attr->grh.traffic_class = header[21];
	}
	attr->grh.hop_limit = 64;
	struct vb_gid_entry e;
	for (uint32_t i = 0; !CALL(GID, i, &e); i++)
		if (!memcmp(e.gid, to, 16)) {
			attr->grh.sgid_index = i;
			return 0;
		}
	(void)c;
	return errno = ENOENT, -1;
}

EXPORT struct vb_ah *ibv_create_ah_from_wc(struct vb_pd *pd, struct vb_wc *wc, struct grh *grh, uint8_t port) {
	struct vb_ah_attr attr;
	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

/* ---- completion channels and queues ---- */

EXPORT struct vb_comp_channel *ibv_create_comp_channel(struct vb_context *c) {
	struct channel *ch = object(sizeof *ch);
	if (!ch)
		return NULL;
	ch->base.context = c;
	int error = enter();
	if (!error)
		error = pipe_of_events(&ch->base.fd, &ch->events);
	if (error)
		return made(ch, error);
	if ((error = device.CreateChannel(context_of(c)->events, ch->events, &ch->handle)))
		close(ch->base.fd), close(ch->events);
	return made(ch, error);
}

EXPORT int ibv_destroy_comp_channel(struct vb_comp_channel *base) {
	struct channel *ch = (struct channel *)base;
	int error = base->refcnt ? EBUSY : CALL(Free, ch->handle, NULL);
	if (error)
		return error;
	close(base->fd);
	close(ch->events);
	free(ch);
	return 0;
}

struct cq *create_cq(struct vb_context *c, int cqe, void *cq_context, struct vb_comp_channel *channel, int vector,
			    int stamps) {
	if (vector != 0 || cqe < 1)
		return no_object(EINVAL);
	struct cq *q = object(sizeof *q);
	if (!q)
		return NULL;
	struct vb_cq *b = &q->ex.base;
	b->context = c, b->channel = channel, b->cq_context = cq_context;
	q->events = context_of(c)->events;
	pthread_mutex_init(&b->mutex, NULL);
	pthread_cond_init(&b->cond, NULL);
	pthread_mutex_init(&q->polling, NULL);
	int error = CALL(CreateCQ, channel ? ((struct channel *)channel)->handle : 0, q->events, q, cqe, stamps,
			 &b->handle, &b->cqe);
	if (!error && channel)
		__atomic_add_fetch(&channel->refcnt, 1, __ATOMIC_RELAXED);
	return made(q, error);
}

EXPORT struct vb_cq *ibv_create_cq(struct vb_context *c, int cqe, void *cq_context, struct vb_comp_channel *channel,
				   int vector) {
	return (struct vb_cq *)create_cq(c, cqe, cq_context, channel, vector, 0);
}

EXPORT int ibv_resize_cq(struct vb_cq *q, int cqe) { return CALL(ResizeCQ, q->handle, cqe, &q->cqe); }

EXPORT int ibv_destroy_cq(struct vb_cq *b) {
	struct cq *q = (struct cq *)b;
	struct channel *ch = (struct channel *)b->channel;
	uint32_t events[2] = {0};
	int error = CALL(Free, b->handle, events);
	if (error)
		return error;
	end_events(b->context->async_fd, q->events, q, events[0], &b->mutex, &b->cond, &b->async_events_completed);
	if (ch) {
		end_events(ch->base.fd, ch->events, q, events[1], &b->mutex, &b->cond, &b->comp_events_completed);
		__atomic_sub_fetch(&ch->base.refcnt, 1, __ATOMIC_RELAXED);
	}
	free(q);
	return 0;
}

static int poll_cq(struct vb_cq *b, int n, struct vb_wc *wc) {
	return enter() ? -1 : device.Poll(b->handle, n, wc, NULL);
}

static int req_notify_cq(struct vb_cq *q, int solicited_only) { return CALL(Arm, q->handle, solicited_only); }

/* ---- shared receive queues ---- */

EXPORT struct vb_srq *ibv_create_srq(struct vb_pd *pd, struct vb_srq_init_attr *attr) {
	struct srq *s = object(sizeof *s);
	if (!s)
		return NULL;
	s->context = pd->context, s->srq_context = attr->srq_context, s->pd = pd;
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->cond, NULL);
	int error = CALL(CreateSRQ, pd->handle, context_of(pd->context)->events, s, &attr->attr, &s->handle);
	s->attr = attr->attr;
	s->attr.srq_limit = 0;
	return made(s, error);
}

enum { SRQ_MAX_WR = 1, SRQ_LIMIT = 2 };

EXPORT int ibv_modify_srq(struct vb_srq *base, struct vb_srq_attr *attr, int mask) {
	struct srq *s = (struct srq *)base;
	if (mask & SRQ_MAX_WR)
		return unsupported("ibv_modify_srq: another size");
	return mask & SRQ_LIMIT ? CALL(LimitSRQ, s->handle, attr->srq_limit) : 0;
}

EXPORT int ibv_query_srq(struct vb_srq *base, struct vb_srq_attr *attr) {
	struct srq *s = (struct srq *)base;
	*attr = s->attr;
	return CALL(QuerySRQ, s->handle, &attr->srq_limit);
}

EXPORT int ibv_destroy_srq(struct vb_srq *base) {
	struct srq *s = (struct srq *)base;
	uint32_t events[2] = {0};
	int error = CALL(Free, s->handle, events);
	if (error)
		return error;
	end_events(s->context->async_fd, context_of(s->context)->events, s, events[0], &s->mutex, &s->cond, &s->events_completed);
	free(s);
	return 0;
}

static int post_srq_recv(struct vb_srq *s, struct vb_recv_wr *wr, struct vb_recv_wr **bad) {
	if (enter())
		return *bad = wr, EPERM;
	return device.PostReceive(((struct srq *)s)->handle, wr, bad);
}

/* ---- queue pairs ---- */

EXPORT struct vb_qp *ibv_create_qp(struct vb_pd *pd, struct vb_qp_init_attr *attr) {
	struct qp *q = object(sizeof *q);
	if (!q)
		return NULL;
	struct vb_qp *b = &q->ex.base;
	*b = (struct vb_qp){
		.context = pd->context, .qp_context = attr->qp_context, .pd = pd,
		.send_cq = attr->send_cq, .recv_cq = attr->recv_cq, .srq = attr->srq, .qp_type = attr->qp_type,
	};
	pthread_mutex_init(&b->mutex, NULL);
	pthread_cond_init(&b->cond, NULL);
	int error = CALL(CreateQP, pd->handle, context_of(pd->context)->events, attr,
			 attr->srq ? ((struct srq *)attr->srq)->handle : 0, q, &b->handle, &b->qp_num);
	q->cap = attr->cap, q->sq_sig_all = attr->sq_sig_all;
	return made(q, error);
}

enum { QP_STATE = 1 << 0 };

EXPORT int ibv_modify_qp(struct vb_qp *q, struct vb_qp_attr *attr, int mask) {
	int error = CALL(ModifyQP, q->handle, attr, mask);
	if (!error && mask & QP_STATE)
		q->state = attr->qp_state;
	return error;
}

EXPORT int ibv_query_qp(struct vb_qp *b, struct vb_qp_attr *attr, int mask, struct vb_qp_init_attr *init) {
	struct qp *q = (struct qp *)b;
	(void)mask; /* all are told */
	memset(attr, 0, sizeof *attr);
	int error = CALL(QueryQP, b->handle, attr);
	if (error)
		return error;
	b->state = attr->qp_state;
	attr->cap = q->cap;
	*init = (struct vb_qp_init_attr){
		.qp_context = b->qp_context, .send_cq = b->send_cq, .recv_cq = b->recv_cq, .srq = b->srq,
		.cap = q->cap, .qp_type = b->qp_type, .sq_sig_all = q->sq_sig_all,
	};
	return 0;
}

EXPORT int ibv_destroy_qp(struct vb_qp *b) {
	struct qp *q = (struct qp *)b;
	uint32_t events[2] = {0};
	int error = CALL(Free, b->handle, events);
	if (error)
		return error;
	end_events(b->context->async_fd, context_of(b->context)->events, q, events[0], &b->mutex, &b->cond, &b->events_completed);
	free(q->batch);
	free(q);
	return 0;
}

static int post_send(struct vb_qp *q, struct vb_send_wr *wr, struct vb_send_wr **bad) {
	if (enter())
		return *bad = wr, EPERM;
	return device.PostSend(q->handle, wr, bad, 0);
}

/* bind_mw is the call for windows of type 1. The program gets the next key at once, and asks with the bind for it. */
static int bind_mw(struct vb_qp *q, struct vb_mw *mw, struct mw_bind *b) {
	enum { OP_BIND = 8, TYPE_1 = 1, ZERO_BASED = 1 << 5 };
	if (mw->type != TYPE_1 || b->info.mw_access_flags & ZERO_BASED)
		return told(EINVAL);
	struct vb_send_wr *bad, wr = {.wr_id = b->wr_id, .opcode = OP_BIND, .send_flags = b->send_flags};
	wr.u.bind_mw.mw = mw, wr.u.bind_mw.rkey = mw->rkey + 1, wr.u.bind_mw.bind_info = b->info;
	return told(post_send(q, &wr, &bad));
}

static int post_recv(struct vb_qp *q, struct vb_recv_wr *wr, struct vb_recv_wr **bad) {
	if (enter())
		return *bad = wr, EPERM;
	return device.PostReceive(q->handle, wr, bad);
}

EXPORT int ibv_attach_mcast(struct vb_qp *q, const void *gid, uint16_t lid) {
	return CALL(Multicast, q->handle, (void *)gid, lid, 1);
}

EXPORT int ibv_detach_mcast(struct vb_qp *q, const void *gid, uint16_t lid) {
	return CALL(Multicast, q->handle, (void *)gid, lid, 0);
}

void set_calls_of_objects(struct context *c) {
	c->alloc_parent_domain = alloc_parent_domain;
	c->alloc_td = alloc_td;
	c->dealloc_td = dealloc_td;
	struct vb_context *v = &c->verbs.context;
	v->ops.alloc_mw = alloc_mw;
	v->ops.bind_mw = bind_mw;
	v->ops.dealloc_mw = dealloc_mw;
	v->ops.poll_cq = poll_cq;
	v->ops.req_notify_cq = req_notify_cq;
	v->ops.post_srq_recv = post_srq_recv;
	v->ops.post_send = post_send;
	v->ops.post_recv = post_recv;
}

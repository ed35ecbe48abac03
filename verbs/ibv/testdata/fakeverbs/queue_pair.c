#define _GNU_SOURCE
#include "fake.h"

static int make_rq(struct rq *rq, uint32_t wr, uint32_t sge) {
	*rq = (struct rq){.size = wr, .sges = (int)sge, .r = new_object((wr ? wr : 1) * sizeof *rq->r)};
	return rq->r ? 0 : ENOMEM;
}

static struct vb_qp *create_qp(struct vb_pd *pd, const struct vb_qp_init_attr *a, const char *verb) {
	const struct vb_qp_cap *c = &a->cap;
	if (fault(verb) || gone(pd->context))
		return NULL;
	if (c->max_send_wr > MAX_WR || c->max_recv_wr > MAX_WR || c->max_send_sge > MAX_SGE || c->max_recv_sge > MAX_SGE || c->max_inline_data > MAX_INLINE) {
		errno = EINVAL;
		return NULL;
	}
	struct qp *q = new_object(sizeof *q);
	q->cap = *c;
	q->all = a->sq_sig_all;
	q->sq = new_object((c->max_send_wr + 1) * sizeof *q->sq);
	q->draft = new_object((c->max_send_wr + 1) * sizeof *q->draft);
	q->srq = (struct srq *)a->srq;
	q->rq = q->srq ? &q->srq->rq : &q->own;
	make_rq(&q->own, c->max_recv_wr, c->max_recv_sge);
	q->ex = (struct vb_qp_ex){
		.base = {.context = pd->context, .pd = pd, .send_cq = a->send_cq, .recv_cq = a->recv_cq, .srq = a->srq, .qp_type = a->qp_type},
	};
	offer_wr(&q->ex);
	take_lock();
	uint32_t n = shared->next_qp;
	do
		n = n % (QPS - 1) + 1;
	while (qps[n]);
	qps[n] = q;
	q->ex.base.qp_num = q->ex.base.handle = shared->next_qp = n;
	drop_lock();
	if (lies_about("a queue pair without a number"))
		q->ex.base.qp_num = 0xffffffff;
	return &q->ex.base;
}

struct vb_qp *ibv_create_qp(struct vb_pd *pd, struct vb_qp_init_attr *a) { return create_qp(pd, a, "create_qp"); }

struct vb_qp *create_qp_ex(struct vb_context *c, struct vb_qp_init_attr_ex *x) {
	(void)c;
	struct vb_qp_init_attr a = {.send_cq = x->send_cq, .recv_cq = x->recv_cq, .srq = x->srq, .cap = x->cap, .qp_type = x->qp_type, .sq_sig_all = x->sq_sig_all};
	return create_qp(x->pd, &a, "create_qp_ex");
}

struct vb_qp_ex *ibv_qp_to_qp_ex(struct vb_qp *qp) { return (struct vb_qp_ex *)qp; }

int ibv_modify_qp(struct vb_qp *qp, struct vb_qp_attr *a, int mask) {
	struct qp *q = (struct qp *)qp;
	if (fault("modify_qp") || gone(qp->context))
		return errno;
	if (mask & 1 << 7 && (a->ah_attr.grh.sgid_index >= (infiniband() ? 1 : 2) || (!a->ah_attr.is_global && !infiniband())))
		return EINVAL;
	if ((mask & 1 << 5 && !has_port(a->port_num)) || (mask & 1 << 7 && !has_port(a->ah_attr.port_num)))
		return EINVAL;
	if (mask & 1 << 5)
		note("modify_qp port %d", a->port_num);
	if (mask & 1 << 7)
		note("modify_qp ah port %d", a->ah_attr.port_num);
	take_lock();
#define SET(bit, field) if (mask & 1 << (bit)) q->a.field = a->field
	SET(3, qp_access_flags); SET(4, pkey_index); SET(5, port_num); SET(6, qkey); SET(7, ah_attr); SET(8, path_mtu); SET(9, timeout);
	SET(10, retry_cnt); SET(11, rnr_retry); SET(12, rq_psn); SET(13, max_rd_atomic); SET(15, min_rnr_timer); SET(16, sq_psn);
	SET(17, max_dest_rd_atomic); SET(20, dest_qp_num);
	if (mask & 1) {
		if (a->qp_state == RESET) {
			q->in = q->next = q->out = q->own.in = q->own.out = 0;
			forget((struct cq *)qp->send_cq, q);
			forget((struct cq *)qp->recv_cq, q);
		}
		set_state(q, a->qp_state);
		if (a->qp_state == SQD && mask & 1 << 2 && a->en_sqd_async_notify)
			raise_event(qp->context, SQ_DRAINED, q, &q->events);
		run(q);
	}
	drop_lock();
	return 0;
}

int ibv_query_qp(struct vb_qp *qp, struct vb_qp_attr *a, int mask, struct vb_qp_init_attr *i) {
	(void)mask, (void)i;
	if (gone(qp->context))
		return errno;
	take_lock();
	*a = ((struct qp *)qp)->a;
	if (setting("FAKEVERBS_UNTOLD", 0))
		a->qp_state = RESET;
	drop_lock();
	return 0;
}

int ibv_destroy_qp(struct vb_qp *qp) {
	struct qp *q = (struct qp *)qp;
	hang("destroy_qp");
	for (int i = 0; i < MAX_GROUPS; i++)
		if (members[i].qp == q)
			return EBUSY;
	await_events(&q->events);
	take_lock();
	qps[qp->handle] = NULL;
	forget_planned(q);
	forget((struct cq *)qp->send_cq, q);
	forget((struct cq *)qp->recv_cq, q);
	drop_lock();
	free_object(q->sq);
	free_object(q->draft);
	free_object(q->own.r);
	free_object(q);
	return 0;
}

struct vb_srq *ibv_create_srq(struct vb_pd *pd, struct vb_srq_init_attr *a) {
	if (fault("create_srq") || gone(pd->context))
		return NULL;
	if (a->attr.max_wr > MAX_WR || a->attr.max_sge > MAX_SGE) {
		errno = EINVAL;
		return NULL;
	}
	struct srq *s = new_object(sizeof *s);
	s->context = pd->context, s->pd = pd;
	make_rq(&s->rq, a->attr.max_wr, a->attr.max_sge);
	return (struct vb_srq *)s;
}

int ibv_modify_srq(struct vb_srq *srq, struct vb_srq_attr *a, int mask) {
	struct srq *s = (struct srq *)srq;
	if (!(mask & 2) || a->srq_limit > s->rq.size)
		return EINVAL;
	take_lock();
	s->limit = a->srq_limit;
	if (s->limit && s->rq.in - s->rq.out < s->limit) {
		s->limit = 0;
		raise_event(s->context, SRQ_LIMIT, s, &s->events);
	}
	drop_lock();
	return 0;
}

int ibv_destroy_srq(struct vb_srq *srq) {
	await_events(&((struct srq *)srq)->events);
	free_object(((struct srq *)srq)->rq.r);
	free_object(srq);
	return 0;
}

struct vb_ah *ibv_create_ah(struct vb_pd *pd, struct vb_ah_attr *a) {
	if (fault("create_ah") || gone(pd->context))
		return NULL;
	if ((!a->is_global && !infiniband()) || a->grh.sgid_index >= (infiniband() ? 1 : 2)) {
		errno = EINVAL;
		return NULL;
	}
	if (!has_port(a->port_num)) {
		errno = EINVAL;
		return NULL;
	}
	note("create_ah port %d", a->port_num);
	struct ah *h = new_object(sizeof *h);
	h->context = pd->context;
	h->a = *a;
	return (struct vb_ah *)h;
}

int ibv_destroy_ah(struct vb_ah *ah) { free_object(ah); return 0; }

/* find_member is the place of a queue pair in a group, or a free one; NULL: there is none. */
static struct member *find_member(struct qp *q, const uint8_t *group, uint16_t lid) {
	for (int i = 0; i < MAX_GROUPS; i++)
		if (members[i].qp == q && (!q || (members[i].lid == lid && !memcmp(members[i].group, group, 16))))
			return &members[i];
	return NULL;
}

int ibv_attach_mcast(struct vb_qp *qp, const uint8_t *group, uint16_t lid) {
	struct qp *q = (struct qp *)qp;
	if (fault("attach_mcast") || gone(qp->context))
		return errno;
	if (qp->qp_type != UD || (group[0] != 0xff && (group[12] & 0xf0) != 0xe0))
		return EINVAL;
	take_lock();
	struct member *m = find_member(q, group, lid);
	if (!m && (m = find_member(NULL, NULL, 0))) {
		m->qp = q, m->lid = lid;
		memcpy(m->group, group, 16);
	}
	drop_lock();
	note("attach_mcast %02x%02x::%02x%02x:%d.%d.%d.%d lid %d", group[0], group[1], group[10], group[11], group[12], group[13], group[14], group[15], lid);
	return m ? 0 : ENOMEM;
}

int ibv_detach_mcast(struct vb_qp *qp, const uint8_t *group, uint16_t lid) {
	take_lock();
	struct member *m = find_member((struct qp *)qp, group, lid);
	if (m)
		m->qp = NULL;
	drop_lock();
	note("detach_mcast");
	return m ? 0 : EINVAL;
}

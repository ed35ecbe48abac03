#define _GNU_SOURCE
#include "fake.h"

/* accept checks one request and copies it, with its data if they are inline. */
static int accept_send(struct qp *q, const struct vb_send_wr *w, struct send *s) {
	struct device_context *d = context_of(q->ex.base.context);
	if (d->gone)
		return EIO;
	if (d->posts_left && --d->posts_left == 0) {
		d->gone = 1;
		raise_event(q->ex.base.context, DEVICE_FATAL, NULL, NULL);
		return 0; /* it is posted, and that was all */
	}
	if (w->num_sge < 0 || (uint32_t)w->num_sge > q->cap.max_send_sge || w->opcode > SEND_INV)
		return EINVAL;
	uint64_t length = 0;
	for (int i = 0; i < w->num_sge; i++)
		length += w->sg_list[i].length;
	if (q->ex.base.qp_type == UD && length > 4096)
		return EINVAL;
	s->wr = *w;
	memcpy(s->sge, w->sg_list, (size_t)w->num_sge * sizeof *s->sge);
	if (w->send_flags & INLINED) {
		if (length > q->cap.max_inline_data)
			return EINVAL;
		uint8_t *to = s->data;
		for (int i = 0; i < w->num_sge; to += w->sg_list[i++].length)
			memcpy(to, (void *)w->sg_list[i].addr, w->sg_list[i].length);
		s->wr.num_sge = 1;
		s->sge[0] = (struct vb_sge){(uint64_t)s->data, (uint32_t)length, 0};
	}
	return 0;
}

int post_send(struct vb_qp *qp, struct vb_send_wr *w, struct vb_send_wr **bad) {
	struct qp *q = (struct qp *)qp;
	int rc = 0;
	spend_post();
	take_lock();
	for (uint64_t now = planned() ? nanoseconds() : 0; w; w = w->next) {
		rc = q->in - q->out == q->cap.max_send_wr ? ENOMEM : accept_send(q, w, &q->sq[q->in % q->cap.max_send_wr]);
		if (rc) {
			*bad = w;
			break;
		}
		if (context_of(qp->context)->gone)
			break;
		schedule(q, &q->sq[q->in++ % q->cap.max_send_wr], now);
		run(q);
	}
	drop_lock();
	return rc;
}

static int put_receives(struct rq *rq, struct vb_recv_wr *w, struct vb_recv_wr **bad) {
	for (; w; w = w->next) {
		int full = rq->in - rq->out == rq->size;
		if (full || w->num_sge > rq->sges) {
			*bad = w;
			return full ? ENOMEM : EINVAL;
		}
		struct receive *r = &rq->r[rq->in++ % rq->size];
		r->id = w->wr_id, r->n = w->num_sge;
		memcpy(r->sge, w->sg_list, (size_t)w->num_sge * sizeof *r->sge);
	}
	return 0;
}

static int length(const struct vb_recv_wr *w) {
	int n = 0;
	for (; w; w = w->next)
		n++;
	return n;
}

int post_recv(struct vb_qp *qp, struct vb_recv_wr *w, struct vb_recv_wr **bad) {
	struct qp *q = (struct qp *)qp;
	note("post_recv %d", length(w));
	take_lock();
	int rc = put_receives(&q->own, w, bad);
	if (qp->state == ERR)
		set_state(q, ERR);
	run_waiting();
	drop_lock();
	return rc;
}

int post_srq_recv(struct vb_srq *srq, struct vb_recv_wr *w, struct vb_recv_wr **bad) {
	note("post_srq_recv %d", length(w));
	take_lock();
	int rc = put_receives(&((struct srq *)srq)->rq, w, bad);
	run_waiting();
	drop_lock();
	return rc;
}

/* ---- ibv_wr_*: requests are drafted one after the other, and posted all or none ---- */

static void wr_start(struct vb_qp_ex *x) {
	struct qp *q = (struct qp *)x;
	spend_post();
	take_lock();
	q->drafts = 0;
	q->draft_error = 0;
}

static struct vb_send_wr *draft(struct vb_qp_ex *x, uint32_t opcode) {
	struct qp *q = (struct qp *)x;
	struct send *s = q->drafting = &q->draft[q->drafts];
	if (q->in - q->out + q->drafts == q->cap.max_send_wr)
		q->draft_error = ENOMEM; /* what is set goes nowhere: there is room for one too many */
	else
		q->drafts++;
	s->wr = (struct vb_send_wr){.wr_id = x->wr_id, .opcode = opcode, .send_flags = x->wr_flags & ~(uint32_t)INLINED, .sg_list = s->sge};
	return &s->wr;
}

static void wr_rdma(struct vb_qp_ex *x, uint32_t opcode, uint32_t rkey, uint64_t addr, uint32_t imm) {
	struct vb_send_wr *w = draft(x, opcode);
	w->wr.rdma.rkey = rkey, w->wr.rdma.remote_addr = addr, w->imm_or_rkey = imm;
}

static void wr_atomic(struct vb_qp_ex *x, uint32_t opcode, uint32_t rkey, uint64_t addr, uint64_t compare_add, uint64_t swap) {
	struct vb_send_wr *w = draft(x, opcode);
	w->wr.atomic.rkey = rkey, w->wr.atomic.remote_addr = addr, w->wr.atomic.compare_add = compare_add, w->wr.atomic.swap = swap;
}

static void wr_write(struct vb_qp_ex *x, uint32_t rkey, uint64_t addr) { wr_rdma(x, WRITE, rkey, addr, 0); }
static void wr_write_imm(struct vb_qp_ex *x, uint32_t rkey, uint64_t addr, uint32_t imm) { wr_rdma(x, WRITE_IMM, rkey, addr, imm); }
static void wr_read(struct vb_qp_ex *x, uint32_t rkey, uint64_t addr) { wr_rdma(x, READ, rkey, addr, 0); }
static void wr_send(struct vb_qp_ex *x) { draft(x, SEND); }
static void wr_send_imm(struct vb_qp_ex *x, uint32_t imm) { draft(x, SEND_IMM)->imm_or_rkey = imm; }
static void wr_send_inv(struct vb_qp_ex *x, uint32_t rkey) { draft(x, SEND_INV)->imm_or_rkey = rkey; }
static void wr_local_inv(struct vb_qp_ex *x, uint32_t rkey) { draft(x, LOCAL_INV)->imm_or_rkey = rkey; }
static void wr_cmp_swp(struct vb_qp_ex *x, uint32_t k, uint64_t a, uint64_t c, uint64_t s) { wr_atomic(x, COMPARE_SWAP, k, a, c, s); }
static void wr_fetch_add(struct vb_qp_ex *x, uint32_t k, uint64_t a, uint64_t v) { wr_atomic(x, FETCH_ADD, k, a, v, 0); }

static void wr_bind_mw(struct vb_qp_ex *x, struct vb_mw *mw, uint32_t rkey, const struct vb_mw_bind_info *b) {
	struct vb_send_wr *w = draft(x, BIND_MW);
	w->u.bind_mw.mw = mw, w->u.bind_mw.rkey = rkey, w->u.bind_mw.bind_info = *b;
}

static struct send *drafted(struct vb_qp_ex *x) { return ((struct qp *)x)->drafting; }

static void wr_set_ud_addr(struct vb_qp_ex *x, struct vb_ah *ah, uint32_t qpn, uint32_t qkey) {
	struct vb_send_wr *w = &drafted(x)->wr;
	w->wr.ud.ah = ah, w->wr.ud.remote_qpn = qpn, w->wr.ud.remote_qkey = qkey;
}

static void wr_set_sge_list(struct vb_qp_ex *x, size_t n, const struct vb_sge *sge) {
	if (n > ((struct qp *)x)->cap.max_send_sge) {
		((struct qp *)x)->draft_error = EINVAL;
		return;
	}
	drafted(x)->wr.num_sge = (int)n;
	memcpy(drafted(x)->sge, sge, n * sizeof *sge);
}

static void wr_set_sge(struct vb_qp_ex *x, uint32_t lkey, uint64_t addr, uint32_t length) { wr_set_sge_list(x, 1, &(struct vb_sge){addr, length, lkey}); }

static void wr_set_inline_data_list(struct vb_qp_ex *x, size_t n, const struct vb_data_buf *b) {
	struct vb_sge sge[MAX_SGE];
	for (size_t i = 0; i < n && i < MAX_SGE; i++)
		sge[i] = (struct vb_sge){(uint64_t)b[i].addr, (uint32_t)b[i].length, 0};
	wr_set_sge_list(x, n, sge);
	drafted(x)->wr.send_flags |= INLINED;
}

static void wr_set_inline_data(struct vb_qp_ex *x, void *addr, size_t n) { wr_set_inline_data_list(x, 1, &(struct vb_data_buf){addr, n}); }

static int wr_complete(struct vb_qp_ex *x) {
	struct qp *q = (struct qp *)x;
	int rc = q->draft_error;
	for (uint32_t i = 0; i < q->drafts && !rc; i++)
		rc = accept_send(q, &q->draft[i].wr, &q->sq[(q->in + i) % q->cap.max_send_wr]);
	if (!rc && !context_of(x->base.context)->gone) {
		for (uint64_t now = planned() ? nanoseconds() : 0; q->drafts; q->drafts--)
			schedule(q, &q->sq[q->in++ % q->cap.max_send_wr], now);
		run(q);
	}
	drop_lock();
	return rc;
}

static void wr_abort(struct vb_qp_ex *x) { (void)x, drop_lock(); }

void offer_wr(struct vb_qp_ex *x) {
	x->wr_atomic_cmp_swp = wr_cmp_swp;
	x->wr_atomic_fetch_add = wr_fetch_add;
	x->wr_bind_mw = wr_bind_mw;
	x->wr_local_inv = wr_local_inv;
	x->wr_rdma_read = wr_read;
	x->wr_rdma_write = wr_write;
	x->wr_rdma_write_imm = wr_write_imm;
	x->wr_send = wr_send;
	x->wr_send_imm = wr_send_imm;
	x->wr_send_inv = wr_send_inv;
	x->wr_set_ud_addr = wr_set_ud_addr;
	x->wr_set_inline_data = wr_set_inline_data;
	x->wr_set_inline_data_list = wr_set_inline_data_list;
	x->wr_set_sge = wr_set_sge;
	x->wr_set_sge_list = wr_set_sge_list;
	x->wr_start = wr_start;
	x->wr_complete = wr_complete;
	x->wr_abort = wr_abort;
}

#define _GNU_SOURCE
#include "fake.h"

#include <sys/uio.h>

static void receive_done(struct qp *q, const struct receive *r, struct vb_wc wc, int solicited) {
	wc.wr_id = r->id;
	wc.qp_num = q->ex.base.qp_num;
	if (wc.status)
		wc.opcode = RECV;
	for (int times = ++plan.received == plan.twice_in ? 2 : 1; times; times--)
		complete((struct cq *)q->ex.base.recv_cq, (struct cqe){.wc = wc, .qp = q}, solicited);
}

static int take_receive(struct qp *q, struct receive *r) {
	struct rq *rq = q->rq;
	if (rq->in == rq->out)
		return 0;
	*r = rq->r[rq->out++ % rq->size];
	if (q->srq && q->srq->limit && rq->in - rq->out < q->srq->limit) {
		q->srq->limit = 0;
		raise_event(q->ex.base.context, SRQ_LIMIT, q->srq, &q->srq->events);
	}
	return 1;
}

static void send_done(struct qp *q, struct send *s, int status) {
	static const uint32_t opcode[] = {1, 1, 0, 0, 2, 3, 4, 6, 5, 0};
	uint32_t slot = q->next++;
	if ((!status && !(s->wr.send_flags & SIGNALED) && !q->all) || s->number == plan.lose)
		return;
	struct vb_wc wc = {.wr_id = s->wr.wr_id, .status = (uint32_t)status, .opcode = opcode[s->wr.opcode], .qp_num = q->ex.base.qp_num};
	for (int times = s->number == plan.twice ? 2 : 1; times; times--)
		complete((struct cq *)q->ex.base.send_cq, (struct cqe){.wc = wc, .qp = q, .slot = slot, .is_send = 1}, 1);
	if (s->number == plan.invent) {
		wc.wr_id ^= 1 << 15;
		complete((struct cq *)q->ex.base.send_cq, (struct cqe){.wc = wc}, 1);
	}
}

void set_state(struct qp *q, int state) {
	q->ex.base.state = q->a.qp_state = q->a.cur_qp_state = state;
	q->waits = 0;
	if (state == ERR || state == SQE)
		while (q->next != q->in)
			send_done(q, &q->sq[q->next % q->cap.max_send_wr], FLUSH);
	if (state != ERR)
		return;
	struct receive r;
	if (q->srq)
		raise_event(q->ex.base.context, LAST_WQE, q, &q->events);
	else
		while (take_receive(q, &r))
			receive_done(q, &r, (struct vb_wc){.status = FLUSH}, 1);
}

/* local checks a request's own list: its length, or -1. */
static int64_t local(struct vb_pd *pd, const struct vb_sge *sge, int n, int access) {
	int64_t length = 0;
	for (int i = 0; i < n; length += sge[i++].length) {
		const struct key *k = find_key(sge[i].lkey);
		if (sge[i].length && (!k || k->is_window || k->pd != pd || (k->access & access) != access || !within(k, sge[i].addr, sge[i].length)))
			return -1;
	}
	return length;
}

/* seen_here is where this process sees registered memory of a queue pair's process; NULL: nowhere. */
static uint8_t *seen_here(const struct qp *p, uint32_t key, uint64_t addr, size_t n) {
	if (is_ours(p->ex.base.context))
		return (uint8_t *)addr;
	const struct key *k = find_key(key);
	const uint64_t whole_pages = k ? k->length & ~4095ull : 0;
	return k && k->shared && addr - k->addr + n <= whole_pages ? k->shared + (addr - k->addr) : NULL;
}

/* put copies into the memory of a queue pair's process, the last byte last. */
static void put(const struct qp *p, uint32_t key, uint64_t addr, const uint8_t *from, size_t n) {
	if (!n || plan.still)
		return;
	uint8_t *to = seen_here(p, key, addr, n);
	if (to) {
		memmove(to, from, n - 1);
		__atomic_store_n(to + n - 1, from[n - 1], __ATOMIC_RELEASE);
		return;
	}
	to = (uint8_t *)addr;
	struct iovec local = {(void *)from, n}, far[2] = {{to, n - 1}, {to + n - 1, 1}};
	if (process_vm_writev(context_of(p->ex.base.context)->process, &local, 1, far, 2, 0) != (ssize_t)n)
		perror("fakeverbs: process_vm_writev");
}

/* get copies from the memory of a queue pair's process. */
static void get(const struct qp *p, uint32_t key, uint8_t *to, uint64_t from, size_t n) {
	if (!n || plan.still)
		return;
	const uint8_t *at = seen_here(p, key, from, n);
	if (at) {
		memmove(to, at, n);
		return;
	}
	struct iovec local = {to, n}, far = {(void *)from, n};
	if (process_vm_readv(context_of(p->ex.base.context)->process, &local, 1, &far, 1, 0) != (ssize_t)n)
		perror("fakeverbs: process_vm_readv");
}

/* scatter spreads bytes over a list of a queue pair's process, from an offset in it on. */
static void scatter(const struct qp *p, const struct vb_sge *sge, int n, uint64_t offset, const uint8_t *from, uint64_t length) {
	for (int i = 0; i < n && length; i++) {
		if (offset >= sge[i].length) {
			offset -= sge[i].length;
			continue;
		}
		uint64_t part = sge[i].length - offset < length ? sge[i].length - offset : length;
		put(p, sge[i].lkey, sge[i].addr + offset, from, part);
		from += part, length -= part, offset = 0;
	}
}

/* remote finds what a request names at the peer, and its address there: OK, or the status of the requester. */
static int remote(const struct qp *p, uint32_t rkey, uint64_t *addr, uint64_t length, int access) {
	if (!(p->a.qp_access_flags & (uint32_t)access))
		return REM_INV_REQ;
	if (!length)
		return OK;
	const struct key *k = find_key(rkey);
	if (!k || k->pd != p->ex.base.pd || (k->is_window && (!k->bound || k->qp != p)) || !(k->access & access) || !within(k, *addr, length))
		return REM_ACCESS;
	*addr += k->zero;
	return OK;
}

static void put_grh(uint8_t *h, const struct vb_ah_attr *to, uint64_t length) {
	uint8_t from[16];
	memset(h, 0, GRH);
	ibv_query_gid(NULL, to->port_num, to->grh.sgid_index, from);
	if (infiniband() || from[0]) {
		h[0] = 0x60, h[4] = (uint8_t)(length >> 8), h[5] = (uint8_t)length, h[6] = infiniband() ? 0x1b : 17, h[7] = to->grh.hop_limit;
		h[0] |= to->grh.traffic_class >> 4, h[1] = (uint8_t)(to->grh.traffic_class << 4);
		memcpy(h + 8, from, 16);
		memcpy(h + 24, to->grh.dgid, 16);
		return;
	}
	h += 20;
	h[0] = 0x45, h[1] = to->grh.traffic_class, h[2] = (uint8_t)((length + 28) >> 8), h[3] = (uint8_t)(length + 28), h[8] = to->grh.hop_limit, h[9] = 17;
	memcpy(h + 12, from + 12, 4);
	memcpy(h + 16, to->grh.dgid + 12, 4);
	uint32_t sum = 0;
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)h[i] << 8 | h[i + 1];
	sum = (sum >> 16) + (sum & 0xffff);
	h[10] = (uint8_t)(~sum >> 8), h[11] = (uint8_t)~sum;
}


/* deliver carries a message into the peer's next receive: OK, or the status of the requester. */
static int deliver(struct qp *q, struct qp *p, struct send *s, const uint8_t *data, uint64_t length) {
	const struct vb_send_wr *w = &s->wr;
	const int type = q->ex.base.qp_type, grh = type == UD ? GRH : 0;
	struct key *invalid = w->opcode == SEND_INV ? find_key(w->imm_or_rkey) : NULL;
	if (w->opcode == SEND_INV && p->rq->in != p->rq->out && (!invalid || !invalid->is_window || !invalid->bound || invalid->qp != p))
		return REM_ACCESS;
	struct receive r;
	if (!take_receive(p, &r))
		return type != RC ? DROPPED : q->a.rnr_retry == 7 ? WAIT : RNR_EXC;
	struct vb_wc wc = {.opcode = RECV, .byte_len = (uint32_t)(length + (uint64_t)grh), .src_qp = q->ex.base.qp_num};
	if (w->opcode == WRITE_IMM) {
		wc.opcode = RECV + 1;
		put(p, w->wr.rdma.rkey, w->wr.rdma.remote_addr, data, length);
	} else {
		int64_t room = local(p->srq ? p->srq->pd : p->ex.base.pd, r.sge, r.n, LOCAL_WRITE);
		int status = room < 0 ? LOC_PROT : (uint64_t)room < length + (uint64_t)grh ? LOC_LEN : OK;
		if (status == LOC_LEN && grh) /* the receive is left for the next message */
			return p->rq->out--, DROPPED;
		if (status) {
			receive_done(p, &r, (struct vb_wc){.status = (uint32_t)status}, 1);
			set_state(p, ERR);
			return type != RC ? DROPPED : status == LOC_PROT ? REM_OP : REM_INV_REQ;
		}
		if (grh) {
			uint8_t header[GRH];
			put_grh(header, &((struct ah *)w->wr.ud.ah)->a, length);
			scatter(p, r.sge, r.n, 0, header, GRH);
			wc.wc_flags |= WITH_GRH;
		}
		scatter(p, r.sge, r.n, (uint64_t)grh, data, length);
	}
	if (w->opcode == WRITE_IMM || w->opcode == SEND_IMM)
		wc.wc_flags |= WITH_IMM, wc.imm_or_rkey = w->imm_or_rkey;
	if (invalid)
		invalid->bound = 0, wc.wc_flags |= WITH_INV, wc.imm_or_rkey = w->imm_or_rkey;
	receive_done(p, &r, wc, w->send_flags & SOLICITED);
	return OK;
}

static int bind(struct qp *q, const struct vb_send_wr *w) {
	const struct vb_mw_bind_info *b = &w->u.bind_mw.bind_info;
	struct key *k = find_key(w->u.bind_mw.mw->rkey);
	const struct key *region = find_key(b->mr->lkey);
	if (!k) /* bound since under another key */
		k = &keys[w->u.bind_mw.mw->rkey >> 8 & (KEYS - 1)];
	if (k->bound || !b->length || !region || !(region->access & MW_BIND) || region->pd != q->ex.base.pd || !within(region, b->addr, b->length))
		return MW_BIND_ERR;
	k->key = (w->u.bind_mw.mw->rkey & ~0xffu) | (w->u.bind_mw.rkey & 0xff);
	k->addr = b->addr, k->zero = 0, k->length = b->length, k->access = (int)b->mw_access_flags, k->qp = q, k->bound = 1;
	if (k->access & ZERO_BASED)
		k->zero = k->addr, k->addr = 0;
	return OK;
}

static struct qp *find_qp(uint32_t qpn) { return qpn < QPS ? qps[qpn] : NULL; }

/* respond carries a request out at the peer. */
static int respond(struct qp *q, struct qp *p, struct send *s, uint8_t *data, uint64_t length) {
	struct vb_send_wr *w = &s->wr;
	uint64_t addr = w->wr.rdma.remote_addr;
	int status = OK;
	switch (w->opcode) {
	case WRITE:
	case WRITE_IMM:
		if ((status = remote(p, w->wr.rdma.rkey, &addr, length, REMOTE_WRITE))) {
			struct receive r;
			if (w->opcode == WRITE_IMM && status == REM_ACCESS && take_receive(p, &r))
				receive_done(p, &r, (struct vb_wc){.status = LOC_ACCESS}, 1);
			return status;
		}
		if (w->opcode == WRITE)
			return put(p, w->wr.rdma.rkey, addr, data, length), OK;
		return deliver(q, p, s, data, length);
	case READ:
		if (!p->a.max_dest_rd_atomic)
			return REM_INV_REQ;
		if ((status = remote(p, w->wr.rdma.rkey, &addr, length, REMOTE_READ)))
			return status;
		if (local(q->ex.base.pd, s->sge, w->num_sge, LOCAL_WRITE) < 0)
			return LOC_PROT;
		if (seen_here(p, w->wr.rdma.rkey, addr, length)) {
			scatter(q, s->sge, w->num_sge, 0, seen_here(p, w->wr.rdma.rkey, addr, length), length);
		} else if (!plan.still) {
			uint8_t *fetched = malloc(length + 1);
			get(p, w->wr.rdma.rkey, fetched, addr, length);
			scatter(q, s->sge, w->num_sge, 0, fetched, length);
			free(fetched);
		}
		return OK;
	case COMPARE_SWAP:
	case FETCH_ADD: {
		if (!p->a.max_dest_rd_atomic || addr % 8)
			return REM_INV_REQ;
		if ((status = remote(p, w->wr.atomic.rkey, &addr, 8, REMOTE_ATOMIC)))
			return status;
		uint64_t old = 0, value;
		get(p, w->wr.atomic.rkey, (uint8_t *)&old, addr, 8);
		value = old;
		if (w->opcode == FETCH_ADD)
			value += w->wr.atomic.compare_add;
		else if (old == w->wr.atomic.compare_add)
			value = w->wr.atomic.swap;
		put(p, w->wr.atomic.rkey, addr, (uint8_t *)&value, 8);
		if (local(q->ex.base.pd, s->sge, w->num_sge, LOCAL_WRITE) < 0)
			return LOC_PROT;
		scatter(q, s->sge, w->num_sge, 0, (uint8_t *)&old, 8);
		return OK;
	}
	default:
		return deliver(q, p, s, data, length);
	}
}

/* takes_datagram tells whether a queue pair lets a datagram in. */
static int takes_datagram(const struct qp *p, const struct send *s) {
	return p && p->ex.base.qp_type == UD && p->ex.base.state >= RTR && p->ex.base.state != ERR && p->a.qkey == s->wr.wr.ud.remote_qkey;
}

/* deliver_to_group gives each member a copy. */
static int deliver_to_group(struct qp *q, struct send *s, const uint8_t *data, uint64_t length) {
	const uint8_t *group = ((struct ah *)s->wr.wr.ud.ah)->a.grh.dgid;
	for (int i = 0; i < MAX_GROUPS; i++)
		if (members[i].qp && !memcmp(members[i].group, group, 16) && takes_datagram(members[i].qp, s))
			deliver(q, members[i].qp, s, data, length);
	return OK;
}

static int takes_answer(const struct vb_send_wr *w) { return w->opcode == READ || w->opcode == COMPARE_SWAP || w->opcode == FETCH_ADD; }

/* carry_out does one request: a completion status, WAIT for a receive, or DROPPED on the way. */
static int carry_out(struct qp *q, struct send *s) {
	struct vb_send_wr *w = &s->wr;
	const int type = q->ex.base.qp_type;
	struct key *k;
	switch (w->opcode) {
	case LOCAL_INV:
		k = find_key(w->imm_or_rkey);
		if (!k || !k->is_window || !k->bound || k->qp != q)
			return MW_BIND_ERR;
		return k->bound = 0, OK;
	case BIND_MW:
		return bind(q, w);
	}
	const int takes = takes_answer(w);
	int64_t length = 0;
	if (w->send_flags & INLINED)
		length = s->sge[0].length;
	else if (takes) /* where the answer goes is looked at when it comes */
		for (int i = 0; i < w->num_sge; i++)
			length += s->sge[i].length;
	else if ((length = local(q->ex.base.pd, s->sge, w->num_sge, 0)) < 0)
		return LOC_PROT;
	if (takes && w->opcode != READ && length != 8)
		return LOC_LEN;
	uint8_t *data = NULL, *joined = NULL;
	const int corrupts = s->number == plan.corrupt && length;
	if (plan.still) {
		data = NULL;
	} else if (w->num_sge == 1 && (takes || !corrupts)) {
		data = (uint8_t *)s->sge[0].addr;
	} else if (!takes && length) {
		data = joined = malloc((size_t)length);
		for (int i = 0; i < w->num_sge; data += s->sge[i++].length)
			memcpy(data, (void *)s->sge[i].addr, s->sge[i].length);
		data = joined;
		if (corrupts)
			data[length / 2] ^= 0x40;
	}
	if (type == UD && w->wr.ud.remote_qpn == MULTICAST_QPN) {
		deliver_to_group(q, s, data, (uint64_t)length);
		free(joined);
		return OK;
	}
	struct qp *p = find_qp(type == UD ? w->wr.ud.remote_qpn : q->a.dest_qp_num);
	int status;
	if (type == UD ? !takes_datagram(p, s) : !p || p->ex.base.qp_type != type || p->ex.base.state < RTR || p->ex.base.state == ERR || p->a.dest_qp_num != q->ex.base.qp_num)
		status = RETRY_EXC;
	else {
		if (p->ex.base.state == RTR && is_ours(p->ex.base.context) && !p->told++) /* another process has its own descriptors */
			raise_event(p->ex.base.context, COMM_EST, p, &p->events);
		status = s->number == plan.fail ? RETRY_EXC : respond(q, p, s, data, (uint64_t)length);
	}
	if (takes && corrupts)
		*(uint8_t *)(s->sge[0].addr + s->sge[0].length / 2) ^= 0x40;
	free(joined);
	if (type != RC && status > 0)
		return DROPPED;
	if (p && (status == REM_INV_REQ || status == REM_ACCESS || status == REM_OP))
		set_state(p, ERR);
	return status;
}

/* run carries out what is posted, as far as it goes. */
void run(struct qp *q) {
	q->waits = 0;
	if (q->ex.base.state == ERR || q->ex.base.state == SQE) {
		set_state(q, q->ex.base.state == ERR && q->srq ? SQE : q->ex.base.state); /* LAST_WQE comes once */
		return;
	}
	while (q->ex.base.state == RTS && q->next != q->in) {
		struct send *s = &q->sq[q->next % q->cap.max_send_wr];
		const int due = s->due <= planned_now;
		if (!s->answered && (due || takes_answer(&s->wr)))
			s->status = carry_out(q, s), s->answered = 1;
		if (!due)
			return;
		const int status = s->status;
		if (status == WAIT) {
			s->answered = 0, q->waits = 1;
			return;
		}
		send_done(q, s, status == DROPPED ? OK : status);
		if (status > 0)
			set_state(q, q->ex.base.qp_type == RC ? ERR : SQE);
	}
}

/* The extended interface: ibv_wr_*, which gathers requests and posts them as a list, and completion queues with readers. */
#define _GNU_SOURCE
#include "device.h"

/* ---- queue pairs ---- */

/* batch is what stands between ibv_wr_start and ibv_wr_complete. */
struct batch {
	pthread_mutex_t mutex;
	uint32_t n, most;
	int error;
	struct vb_send_wr *wr;
	struct vb_sge *sge; /* max_send_sge of each request */
	uint8_t *inlined;   /* max_inline_data of each */
};

EXPORT struct vb_qp_ex *ibv_qp_to_qp_ex(struct vb_qp *q) { return ((struct qp *)q)->is_extended ? (struct vb_qp_ex *)q : NULL; }

static struct batch *batch_of(struct vb_qp_ex *q) { return ((struct qp *)q)->batch; }

static struct batch *new_batch(const struct vb_qp_cap *cap) {
	size_t n = cap->max_send_wr, sges = n * cap->max_send_sge, bytes = n * cap->max_inline_data;
	struct batch *b = calloc(1, sizeof *b + n * sizeof *b->wr + sges * sizeof *b->sge + bytes);
	if (!b)
		return NULL;
	pthread_mutex_init(&b->mutex, NULL);
	b->most = n;
	b->wr = (struct vb_send_wr *)(b + 1);
	b->sge = (struct vb_sge *)(b->wr + n);
	b->inlined = (uint8_t *)(b->sge + sges);
	return b;
}

/* add starts a request; those that do not fit, or follow a wrong one, change nothing, and ibv_wr_complete says why. */
static struct vb_send_wr *add(struct vb_qp_ex *q, uint32_t opcode) {
	static __thread struct vb_send_wr none;
	struct batch *b = batch_of(q);
	if (b->n == b->most && !b->error)
		b->error = ENOMEM;
	if (b->error)
		return &none;
	struct vb_sge *sge = b->sge + (size_t)b->n * ((struct qp *)q)->cap.max_send_sge;
	struct vb_send_wr *w = &b->wr[b->n++];
	*w = (struct vb_send_wr){.wr_id = q->wr_id, .opcode = opcode, .send_flags = q->wr_flags, .sg_list = sge};
	return w;
}

static struct vb_send_wr *last(struct vb_qp_ex *q) {
	struct batch *b = batch_of(q);
	return b->n && !b->error ? &b->wr[b->n - 1] : NULL;
}

static void wr_remote(struct vb_qp_ex *q, uint32_t opcode, uint32_t rkey, uint64_t addr, uint32_t imm) {
	struct vb_send_wr *w = add(q, opcode);
	w->wr.rdma.remote_addr = addr, w->wr.rdma.rkey = rkey, w->imm_or_rkey = imm;
}

static void wr_rdma_write(struct vb_qp_ex *q, uint32_t rkey, uint64_t addr) { wr_remote(q, 0, rkey, addr, 0); }
static void wr_rdma_write_imm(struct vb_qp_ex *q, uint32_t rkey, uint64_t addr, uint32_t imm) {
	wr_remote(q, 1, rkey, addr, imm);
}
static void wr_rdma_read(struct vb_qp_ex *q, uint32_t rkey, uint64_t addr) { wr_remote(q, 4, rkey, addr, 0); }
static void wr_send(struct vb_qp_ex *q) { add(q, 2); }
static void wr_send_imm(struct vb_qp_ex *q, uint32_t imm) { add(q, 3)->imm_or_rkey = imm; }
static void wr_send_inv(struct vb_qp_ex *q, uint32_t rkey) { add(q, 9)->imm_or_rkey = rkey; }
static void wr_local_inv(struct vb_qp_ex *q, uint32_t rkey) { add(q, 7)->imm_or_rkey = rkey; }

static void wr_atomic(struct vb_qp_ex *q, uint32_t opcode, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap) {
	struct vb_send_wr *w = add(q, opcode);
	w->wr.atomic.remote_addr = addr, w->wr.atomic.rkey = rkey;
	w->wr.atomic.compare_add = compare, w->wr.atomic.swap = swap;
}

static void wr_compare_swap(struct vb_qp_ex *q, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap) {
	wr_atomic(q, 5, rkey, addr, compare, swap);
}
static void wr_fetch_add(struct vb_qp_ex *q, uint32_t rkey, uint64_t addr, uint64_t n) { wr_atomic(q, 6, rkey, addr, n, 0); }

static void wr_bind_mw(struct vb_qp_ex *q, struct vb_mw *mw, uint32_t rkey, const struct vb_mw_bind_info *info) {
	struct vb_send_wr *w = add(q, 8);
	w->u.bind_mw.mw = mw, w->u.bind_mw.rkey = rkey, w->u.bind_mw.bind_info = *info;
}

static void wr_set_ud_addr(struct vb_qp_ex *q, struct vb_ah *ah, uint32_t qpn, uint32_t qkey) {
	struct vb_send_wr *w = last(q);
	if (w)
		w->wr.ud.ah = ah, w->wr.ud.remote_qpn = qpn, w->wr.ud.remote_qkey = qkey;
}

static void wr_set_sge_list(struct vb_qp_ex *q, size_t n, const struct vb_sge *list) {
	struct batch *b = batch_of(q);
	struct vb_send_wr *w = last(q);
	if (!w)
		return;
	if (n > ((struct qp *)q)->cap.max_send_sge) {
		b->error = EINVAL;
		return;
	}
	memcpy(w->sg_list, list, n * sizeof *list);
	w->num_sge = (int)n;
}

static void wr_set_sge(struct vb_qp_ex *q, uint32_t lkey, uint64_t addr, uint32_t length) {
	struct vb_sge s = {addr, length, lkey};
	wr_set_sge_list(q, 1, &s);
}

/* Inline data is copied here: the program may change it before ibv_wr_complete. */
static void wr_set_inline_data_list(struct vb_qp_ex *q, size_t n, const struct vb_data_buf *list) {
	struct batch *b = batch_of(q);
	struct vb_send_wr *w = last(q);
	const size_t most = ((struct qp *)q)->cap.max_inline_data;
	size_t total = 0;
	for (size_t i = 0; i < n; i++)
		total += list[i].length;
	if (!w)
		return;
	if (total > most) {
		b->error = EINVAL;
		return;
	}
	uint8_t *to = b->inlined + (b->n - 1) * most;
	w->send_flags |= 1 << 3;
	w->sg_list[0] = (struct vb_sge){(uintptr_t)to, (uint32_t)total, 0};
	w->num_sge = total > 0;
	for (size_t i = 0; i < n; to += list[i++].length)
		memcpy(to, list[i].addr, list[i].length);
}

static void wr_set_inline_data(struct vb_qp_ex *q, void *addr, size_t length) {
	struct vb_data_buf d = {addr, length};
	wr_set_inline_data_list(q, 1, &d);
}

static void wr_start(struct vb_qp_ex *q) {
	struct batch *b = batch_of(q);
	pthread_mutex_lock(&b->mutex);
	b->n = 0, b->error = 0;
}

static void wr_abort(struct vb_qp_ex *q) { pthread_mutex_unlock(&batch_of(q)->mutex); }

/* wr_complete posts all requests, or none. */
static int wr_complete(struct vb_qp_ex *q) {
	struct batch *b = batch_of(q);
	int error = b->error;
	if (!error && b->n) {
		struct vb_send_wr *bad;
		for (uint32_t i = 0; i + 1 < b->n; i++)
			b->wr[i].next = &b->wr[i + 1];
		error = enter() ? EPERM : device.PostSend(q->base.handle, b->wr, &bad, (int)b->n);
	}
	pthread_mutex_unlock(&b->mutex);
	return error;
}

static struct vb_qp *create_qp_ex(struct vb_context *c, struct vb_qp_init_attr_ex *attr) {
	if (!(attr->comp_mask & VB_QP_INIT_PD) || !attr->pd)
		return no_object(EINVAL);
	if (attr->comp_mask & ~(VB_QP_INIT_PD | VB_QP_INIT_SEND_OPS) || attr->send_ops_flags >> 10) {
		unsupported("ibv_create_qp_ex: attributes other than the domain and the operations of ibv_wr_*");
		return NULL;
	}
	(void)c;
	struct qp *q = (struct qp *)ibv_create_qp(attr->pd, (struct vb_qp_init_attr *)attr);
	if (!q || !(attr->comp_mask & VB_QP_INIT_SEND_OPS))
		return (struct vb_qp *)q;
	if (!(q->batch = new_batch(&q->cap))) {
		ibv_destroy_qp(&q->ex.base);
		return no_object(ENOMEM);
	}
	q->is_extended = 1;
	struct vb_qp_ex *x = &q->ex;
	x->wr_atomic_cmp_swp = wr_compare_swap, x->wr_atomic_fetch_add = wr_fetch_add;
	x->wr_bind_mw = wr_bind_mw, x->wr_local_inv = wr_local_inv;
	x->wr_rdma_read = wr_rdma_read, x->wr_rdma_write = wr_rdma_write, x->wr_rdma_write_imm = wr_rdma_write_imm;
	x->wr_send = wr_send, x->wr_send_imm = wr_send_imm, x->wr_send_inv = wr_send_inv;
	x->wr_set_ud_addr = wr_set_ud_addr, x->wr_set_sge = wr_set_sge, x->wr_set_sge_list = wr_set_sge_list;
	x->wr_set_inline_data = wr_set_inline_data, x->wr_set_inline_data_list = wr_set_inline_data_list;
	x->wr_start = wr_start, x->wr_complete = wr_complete, x->wr_abort = wr_abort;
	return &x->base;
}

/* ---- completion queues ---- */

/* step shows the next completion. Those behind it stay in the queue: they go with their queue pair. */
static int step(struct vb_cq_ex *x) {
	struct cq *q = (struct cq *)x;
	int n = enter() ? -1 : device.Poll(x->base.handle, 1, &q->wc, &q->stamp);
	if (n <= 0)
		return n ? EIO : ENOENT;
	x->wr_id = q->wc.wr_id;
	x->status = q->wc.status;
	return 0;
}

static void end_poll(struct vb_cq_ex *x) { pthread_mutex_unlock(&((struct cq *)x)->polling); }

static int start_poll(struct vb_cq_ex *x, struct vb_poll_cq_attr *attr) {
	if (attr->comp_mask)
		return EINVAL;
	pthread_mutex_lock(&((struct cq *)x)->polling);
	int error = step(x);
	if (error)
		end_poll(x);
	return error;
}

#define READER(type, name, field)                                                                                      \
	static type name(struct vb_cq_ex *x) { return ((struct cq *)x)->wc.field; }
READER(uint32_t, read_opcode, opcode)
READER(uint32_t, read_vendor_err, vendor_err)
READER(uint32_t, read_byte_len, byte_len)
READER(uint32_t, read_imm_data, imm_or_rkey)
READER(uint32_t, read_qp_num, qp_num)
READER(uint32_t, read_src_qp, src_qp)
READER(unsigned, read_wc_flags, wc_flags)
READER(uint32_t, read_slid, slid)
READER(uint8_t, read_sl, sl)
READER(uint8_t, read_dlid_path_bits, dlid_path_bits)
static uint64_t read_completion_ts(struct vb_cq_ex *x) { return ((struct cq *)x)->stamp; }

enum { CQ_FLAGS = 1, CQ_PD = 2, CQ_SINGLE_THREADED = 1, CQ_IGNORE_OVERRUN = 2 };

static struct vb_cq_ex *create_cq_ex(struct vb_context *c, struct vb_cq_init_attr_ex *attr) {
	uint32_t flags = attr->comp_mask & CQ_FLAGS ? attr->flags : 0;
	if (attr->wc_flags & ~(uint64_t)(VB_WC_EX_STANDARD | VB_WC_EX_TIMESTAMP) || attr->comp_mask & ~(CQ_FLAGS | CQ_PD) ||
	    flags & ~(CQ_SINGLE_THREADED | CQ_IGNORE_OVERRUN)) {
		unsupported("ibv_create_cq_ex: fields other than the standard ones and the completion time stamp");
		return NULL;
	}
	struct cq *q = create_cq(c, (int)attr->cqe, attr->cq_context, attr->channel, (int)attr->comp_vector,
				 !!(attr->wc_flags & VB_WC_EX_TIMESTAMP));
	if (!q)
		return NULL;
	struct vb_cq_ex *x = &q->ex;
	x->start_poll = start_poll, x->next_poll = step, x->end_poll = end_poll;
	x->read_opcode = read_opcode, x->read_vendor_err = read_vendor_err, x->read_byte_len = read_byte_len;
	x->read_imm_data = read_imm_data, x->read_qp_num = read_qp_num, x->read_src_qp = read_src_qp;
	x->read_wc_flags = read_wc_flags, x->read_slid = read_slid, x->read_sl = read_sl;
	x->read_dlid_path_bits = read_dlid_path_bits, x->read_completion_ts = read_completion_ts;
	return x;
}

void set_extended_calls(struct context *c) {
	c->verbs.create_qp_ex = create_qp_ex;
	c->verbs.create_cq_ex = create_cq_ex;
}

#define _GNU_SOURCE
#include "fake.h"

struct vb_comp_channel *ibv_create_comp_channel(struct vb_context *c) {
	int ends[2];
	if (fault("create_comp_channel") || gone(c) || pipe2(ends, O_CLOEXEC))
		return NULL;
	struct vb_comp_channel *ch = new_object(sizeof *ch);
	*ch = (struct vb_comp_channel){.context = c, .fd = ends[0], .refcnt = ends[1]}; /* nobody reads refcnt */
	return ch;
}

int ibv_destroy_comp_channel(struct vb_comp_channel *ch) { close(ch->fd); close(ch->refcnt); free_object(ch); return 0; }

int ibv_get_cq_event(struct vb_comp_channel *ch, struct vb_cq **cq, void **context) {
	take_lock();
	int got = read(ch->fd, cq, sizeof *cq) == sizeof *cq;
	if (got) {
		*context = (*cq)->cq_context;
		((struct cq *)*cq)->unacknowledged++;
	}
	drop_lock();
	return got ? 0 : -1;
}

void ibv_ack_cq_events(struct vb_cq *cq, unsigned n) { ((struct cq *)cq)->unacknowledged -= (int)n; }

/* drop_events does what the kernel does when a queue goes: its events that nobody has read are gone with it. */
static void drop_events(struct cq *q) {
	struct vb_comp_channel *ch = q->ex.base.channel;
	struct cq *of, *kept[4096];
	int n = 0;
	take_lock();
	while (ch && n < 4096 && read(ch->fd, &of, sizeof of) == sizeof of)
		if (of != q)
			kept[n++] = of;
	for (int i = 0; i < n; i++)
		if (write(ch->refcnt, &kept[i], sizeof kept[i]) != sizeof kept[i])
			abort();
	drop_lock();
}

int req_notify_cq(struct vb_cq *cq, int solicited_only) {
	take_lock();
	((struct cq *)cq)->armed = solicited_only ? 2 : 1;
	drop_lock();
	return 0;
}

/* device_time is called under the lock. */
static uint64_t device_time(void) {
	static uint64_t first;
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	uint64_t now = (uint64_t)(((__int128)t.tv_sec * 1000000000 + t.tv_nsec) * setting("FAKEVERBS_TICKS", setting("FAKEVERBS_CLOCK", 0)) / 1000000);
	if (!first)
		first = now;
	return (now - first - (uint64_t)setting("FAKEVERBS_WRAP", 0)) & CLOCK_MASK;
}

void complete(struct cq *q, struct cqe e, int solicited) {
	if (q->broken)
		return;
	if (q->in - q->out == (uint32_t)q->ex.base.cqe) {
		q->broken = 1;
		raise_event(q->ex.base.context, CQ_ERR, q, &q->events);
		return;
	}
	if (q->ex.read_completion_ts)
		e.time = device_time();
	q->e[q->in++ % (uint32_t)q->ex.base.cqe] = e;
	if (is_ours(q->ex.base.context) && q->ex.base.channel && (q->armed == 1 || (q->armed && (solicited || e.wc.status)))) {
		q->armed = 0;
		void *p = q;
		if (write(q->ex.base.channel->refcnt, &p, sizeof p) != sizeof p)
			abort();
	}
}

static int take(struct cq *q, struct cqe *e) {
	if (q->in == q->out || context_of(q->ex.base.context)->gone)
		return 0;
	*e = q->e[q->out++ % (uint32_t)q->ex.base.cqe];
	if (e->qp && e->is_send)
		e->qp->out = e->slot + 1;
	return 1;
}

int poll_cq(struct vb_cq *cq, int n, struct vb_wc *wc) {
	struct cqe e;
	int got = 0;
	if (plan.requests && plan.poll_hangs)
		hang("poll_cq");
	if (plan.requests && plan.overfills)
		return n + 1;
	/* An end that waits for the other one leaves the lock to it: else the two make each other late by more than 1 us. */
	const struct cq *q = (const struct cq *)cq;
	if (is_idle() && __atomic_load_n(&q->in, __ATOMIC_ACQUIRE) == q->out)
		return 0;
	take_lock();
	progress();
	for (; got < n && take((struct cq *)cq, &e); got++)
		wc[got] = e.wc;
	drop_lock();
	if (got)
		spend(plan.poll);
	return got;
}

static int next_poll(struct vb_cq_ex *x) {
	struct cq *q = (struct cq *)x;
	if (!take(q, &q->now))
		return ENOENT;
	x->wr_id = q->now.wc.wr_id;
	x->status = q->now.wc.status;
	return 0;
}

static int start_poll(struct vb_cq_ex *x, struct vb_poll_cq_attr *attr) {
	if (attr->comp_mask)
		return EINVAL;
	take_lock();
	progress();
	int rc = next_poll(x);
	if (rc)
		drop_lock();
	return rc;
}

static void end_poll(struct vb_cq_ex *x) { (void)x, drop_lock(); }

#define READER(type, name, value) static type read_##name(struct vb_cq_ex *x) { return (type)((struct cq *)x)->now.value; }
READER(uint32_t, opcode, wc.opcode)
READER(uint32_t, vendor_err, wc.vendor_err)
READER(uint32_t, byte_len, wc.byte_len)
READER(uint32_t, imm_data, wc.imm_or_rkey)
READER(uint32_t, qp_num, wc.qp_num)
READER(uint32_t, src_qp, wc.src_qp)
READER(unsigned, wc_flags, wc.wc_flags)
READER(uint64_t, completion_ts, time)

static struct vb_cq_ex *make_cq(struct vb_context *c, struct vb_cq_init_attr_ex *a) {
	if (fault("create_cq") || gone(c))
		return NULL;
	if (a->cqe < 1 || a->cqe > MAX_CQE || a->wc_flags & ~(uint64_t)(VB_WC_EX_STANDARD | VB_WC_EX_TIMESTAMP)) {
		errno = EINVAL;
		return NULL;
	}
	if (a->wc_flags & VB_WC_EX_TIMESTAMP && !setting("FAKEVERBS_CLOCK", 0)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct cq *q = new_object(sizeof *q);
	q->ex = (struct vb_cq_ex){
		.base = {.context = c, .channel = a->channel, .cq_context = a->cq_context, .cqe = (int)a->cqe},
		.start_poll = start_poll, .next_poll = next_poll, .end_poll = end_poll, .read_opcode = read_opcode, .read_vendor_err = read_vendor_err,
		.read_byte_len = read_byte_len, .read_imm_data = read_imm_data, .read_qp_num = read_qp_num, .read_src_qp = read_src_qp,
		.read_wc_flags = read_wc_flags, .read_completion_ts = a->wc_flags & VB_WC_EX_TIMESTAMP && !setting("FAKEVERBS_STAMPLESS", 0) ? read_completion_ts : NULL,
	};
	q->e = new_object(a->cqe * sizeof *q->e);
	if (lies_about("a queue of no entries"))
		q->ex.base.cqe = 0;
	return &q->ex;
}

struct vb_cq_ex *create_cq_ex(struct vb_context *c, struct vb_cq_init_attr_ex *a) {
	note("create_cq_ex %#llx", (unsigned long long)a->wc_flags);
	return fault("create_cq_ex") ? NULL : make_cq(c, a);
}

struct vb_cq *ibv_create_cq(struct vb_context *c, int cqe, void *context, struct vb_comp_channel *ch, int vector) {
	note("create_cq");
	struct vb_cq_init_attr_ex a = {.cqe = (uint32_t)cqe, .cq_context = context, .channel = ch, .comp_vector = (uint32_t)vector};
	struct vb_cq_ex *x = make_cq(c, &a);
	return x ? &x->base : NULL;
}

int ibv_resize_cq(struct vb_cq *cq, int cqe) {
	struct cq *q = (struct cq *)cq;
	take_lock();
	uint32_t held = q->in - q->out;
	int rc = cqe < 1 || cqe > MAX_CQE || held > (uint32_t)cqe ? EINVAL : 0;
	if (!rc) {
		struct cqe *e = new_object((size_t)cqe * sizeof *e);
		for (uint32_t i = 0; i < held; i++)
			e[i] = q->e[(q->out + i) % (uint32_t)cq->cqe];
		free_object(q->e);
		q->e = e, q->out = 0, q->in = held, cq->cqe = cqe;
	}
	drop_lock();
	return rc;
}

int ibv_destroy_cq(struct vb_cq *cq) {
	struct cq *q = (struct cq *)cq;
	drop_events(q);
	await_events(&q->events);
	await_events(&q->unacknowledged);
	free_object(q->e);
	free_object(q);
	return 0;
}

/* forget takes out the completions of a queue pair that goes or is reset, as mlx5 does. */
void forget(struct cq *q, const struct qp *qp) {
	uint32_t end = q->out, size = (uint32_t)q->ex.base.cqe;
	for (uint32_t i = q->out; i != q->in; i++)
		if (q->e[i % size].wc.qp_num != qp->ex.base.qp_num)
			q->e[end++ % size] = q->e[i % size];
	q->in = end;
}

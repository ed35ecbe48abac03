//go:build linux && cgo

#define _GNU_SOURCE
#include "runner.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#define INLINE static inline __attribute__((always_inline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum {
	SIGNALED = 1 << 1,
	GRH_BYTES = 40,
	LOOK = 16,          /* polls between looks at the clock and the stop word */
	SPIN = 64,          /* looks at a byte between polls */
	EVENT_WAIT_NS = 10000000,
	SERVE_WAIT_NS = 1000000,
};

/* The counter of job.Now. */
INLINE int64_t now(void) {
#if defined(__x86_64__)
	return (int64_t)__builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	int64_t t;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
#error "no cycle counter for this architecture: build with CGO_ENABLED=0"
#endif
}

int64_t vb_now(void) { return now(); }

INLINE void relax(void) {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

/* ---- recording ---- */

enum { SUB_BITS = 11, HALF_BITS = SUB_BITS - 1, MAX_BITS = 44 };

INLINE int histogram_index(uint64_t v) {
	int bucket = 64 - __builtin_clzll(v | ((1ull << SUB_BITS) - 1)) - SUB_BITS;
	int sub = (int)(v >> bucket);
	return ((bucket + 1) << HALF_BITS) + sub - (1 << HALF_BITS);
}

int vb_histogram_index(uint64_t v) { return histogram_index(v); }

/* record_add is job.Recorder.Add. */
INLINE void record_add(struct vb_job *j, int64_t t) {
	struct vb_record *r = &j->record;
	if (r->n == 0)
		r->min = r->max = r->shift = t;
	else if (t < r->min)
		r->min = t;
	else if (t > r->max)
		r->max = t;
	if (r->raw_len < r->raw_cap)
		j->raw[r->raw_len++] = t;
	r->n++;
	double d = (double)(t - r->shift);
	r->sum += (double)t;
	r->sum_sq += d * d;
	if (t < 0)
		t = 0;
	if (t > (int64_t)((1ull << MAX_BITS) - 1)) {
		t = (int64_t)((1ull << MAX_BITS) - 1);
		r->clipped++;
	}
	j->counts[histogram_index((uint64_t)t)]++;
}

static void fold(struct vb_job *j) {
	for (uint32_t i = 0; i < j->pending_len; i++)
		record_add(j, j->pending[i]);
	j->pending_len = 0;
}

INLINE void trace(struct vb_job *j, uint32_t kind, const struct vb_lane *l, uint64_t n) {
	if (unlikely(j->trace != NULL))
		j->trace[j->trace_len++] = (struct vb_trace){kind, (uint32_t)(l - j->lanes), n};
}

/* ---- job.PeakSearch, whose comments hold here too ---- */

INLINE void peak_post(struct vb_peak *p, double bytes, int64_t at) {
	if (unlikely(!p->origin))
		p->origin = at;
	if (unlikely(p->count == p->slots)) {
		p->head = p->head + 1 == p->slots ? 0 : p->head + 1;
		p->count--;
	}
	uint32_t i = p->head + p->count++;
	p->flying[i >= p->slots ? i - p->slots : i] = (struct vb_start){p->posted, (double)(at - p->origin)};
	p->posted += bytes;
}

INLINE void peak_forward(struct vb_peak *p) {
	while (p->touch + 1 < p->points) {
		const struct vb_start *a = &p->hull[p->touch], *b = a + 1;
		if (b->at - a->at < (b->bytes - a->bytes) * p->slope)
			return;
		p->touch++;
	}
}

INLINE void peak_start(struct vb_peak *p, struct vb_start s) {
	uint32_t n = p->points;
	for (; n >= 2; n--) {
		const struct vb_start *a = &p->hull[n - 2], *b = a + 1;
		if ((b->at - a->at) * (s.bytes - a->bytes) > (s.at - a->at) * (b->bytes - a->bytes))
			break;
	}
	if (unlikely(n == VB_HULL)) {
		uint32_t drop = p->touch > 1 ? p->touch : 1;
		memmove(p->hull, p->hull + drop, (n - drop) * sizeof *p->hull);
		n -= drop;
		p->touch = p->touch > drop ? p->touch - drop : 0;
	}
	p->hull[n] = s;
	p->points = n + 1;
	if (p->touch > n)
		p->touch = n;
	peak_forward(p);
}

INLINE void peak_complete(struct vb_job *j, double bytes, int64_t time) {
	struct vb_peak *p = &j->peak;
	const double end = p->completed += bytes, at = (double)(time - p->origin);
	while (p->count && p->flying[p->head].bytes < end) {
		peak_start(p, p->flying[p->head]);
		p->head = p->head + 1 == p->slots ? 0 : p->head + 1;
		p->count--;
	}
	for (uint32_t last = ~0u; p->touch != last && p->points;) {
		last = p->touch;
		const struct vb_start *s = &p->hull[last];
		double span = end - s->bytes, ticks = at - s->at;
		if (ticks <= 0 || ticks >= span * p->slope)
			return;
		p->slope = ticks / span;
		j->record.peak_bytes = (uint64_t)span;
		j->record.peak_ticks = (int64_t)ticks;
		peak_forward(p);
	}
}

/* stamp_post keeps when a batch was posted, as each of its messages' own time. */
INLINE void stamp_post(struct vb_job *j, struct vb_lane *l, uint64_t messages, uint64_t bytes, int64_t at) {
	if (j->record.peak)
		peak_post(&j->peak, (double)(int64_t)bytes, at);
	if (j->record.samples)
		for (; messages; messages--) {
			l->sample_at[l->sample_in] = at;
			if (++l->sample_in == l->sample_slots)
				l->sample_in = 0;
		}
}

/* stamp_completion counts the time since the last of the lane's next messages was posted. */
INLINE void stamp_completion(struct vb_job *j, struct vb_lane *l, uint64_t messages, uint64_t bytes, int64_t at) {
	if (j->record.samples) {
		uint64_t out = l->sample_out + messages;
		if (out >= l->sample_slots)
			out -= l->sample_slots;
		l->sample_out = (uint32_t)out;
		record_add(j, at - l->sample_at[(out ? out : l->sample_slots) - 1]);
	}
	if (j->record.peak)
		peak_complete(j, (double)(int64_t)bytes, at);
}

/* ---- the general way: whatever a job may hold, in the order of the reference ---- */

INLINE int signals(const struct vb_lane *l, uint64_t k) { return (k + 1) % l->signal == 0 || k + 1 == l->count; }

static int bad_post(struct vb_job *j, const struct vb_lane *l, int rc) {
	j->bad_lane = (uint32_t)(l - j->lanes);
	j->error = rc > 0 ? rc : rc == -1 && errno ? errno : rc < -1 ? -rc : EIO;
	return VB_BAD_POST;
}

/* bytes_of is the payload of n messages from the lane's message k on. */
static uint64_t bytes_of(const struct vb_lane *l, uint64_t k, uint64_t n) {
	if (likely(l->bytes_each != VB_ENDLESS))
		return n * l->bytes_each;
	const uint64_t *before = l->bytes_before;
	return (k + n) / l->ring * before[l->ring] + before[(k + n) % l->ring] - k / l->ring * before[l->ring] - before[k % l->ring];
}

/* post sends the lane's next n messages as one list. */
static int post(struct vb_job *j, struct vb_lane *l, uint64_t n) {
	int64_t start = j->stamped || !j->first_post ? now() : 0;
	if (!j->first_post)
		j->first_post = start;
	if (j->stamped)
		stamp_post(j, l, n, bytes_of(l, l->posted, n), start);
	struct vb_send_wr *head = NULL, *tail = NULL;
	uint32_t slot = (uint32_t)(l->posted % l->slots);
	for (; n; n--) {
		const struct vb_message *m = &l->messages[slot];
		if (head)
			tail->next = m->head;
		else
			head = m->head;
		tail = m->tail;
		tail->send_flags = m->flags;
		if (signals(l, l->posted))
			tail->send_flags |= SIGNALED;
		trace(j, VB_TRACE_POST, l, l->posted);
		l->posted++;
		j->posted++;
		if (++slot == l->slots)
			slot = 0;
	}
	struct vb_send_wr *bad;
	tail->next = NULL;
	int rc = l->post_send(l->qp, head, &bad);
	return unlikely(rc) ? bad_post(j, l, rc) : VB_RUNNING;
}

/* retire accounts for the completion of the lane's next signaled message and all before it. */
static void retire(struct vb_job *j, struct vb_lane *l, int64_t at) {
	uint64_t to = (l->retired / l->signal + 1) * l->signal;
	if (to > l->count)
		to = l->count;
	uint64_t n = to - l->retired;
	j->completed += n;
	l->retired = to;
	trace(j, VB_TRACE_COMPLETE, l, to - 1);
	if (j->stamped)
		stamp_completion(j, l, n, bytes_of(l, to - n, n), at);
}

INLINE struct vb_lane *lane_of(const struct vb_job *j, uint32_t qpn) {
	for (uint32_t i = qpn & j->by_qpn_mask;; i = (i + 1) & j->by_qpn_mask) {
		if (likely(j->by_qpn[i].qpn == qpn && j->by_qpn[i].lane != ~0u))
			return &j->lanes[j->by_qpn[i].lane];
		if (j->by_qpn[i].lane == ~0u)
			return NULL;
	}
}

/* post_receives posts the n next receives of a lane's ring as one list. */
static int post_receives(struct vb_job *j, struct vb_lane *l, uint32_t n) {
	struct vb_recv_wr *head = &l->receives[l->receive_at], *bad;
	uint32_t last = l->receive_at + n - 1;
	l->receive_at += n;
	if (last >= l->receive_slots)
		last -= l->receive_slots;
	if (l->receive_at >= l->receive_slots)
		l->receive_at -= l->receive_slots;
	struct vb_recv_wr *tail = &l->receives[last], *next = tail->next;
	tail->next = NULL;
	int rc = l->srq ? j->post_srq_recv(l->srq, head, &bad) : j->post_recv(l->qp, head, &bad);
	tail->next = next;
	if (unlikely(rc)) {
		bad_post(j, l, rc);
		return VB_BAD_RECEIVE;
	}
	for (; n; n--)
		trace(j, VB_TRACE_REPOST, l, l->receives_posted++);
	return VB_RUNNING;
}

/* repost posts the receives that are due: as they come, or in lists of receive_list, of which the last may be shorter. */
static int repost(struct vb_job *j, struct vb_lane *l) {
	for (;;) {
		uint64_t left = VB_ENDLESS;
		if (l->expect != VB_ENDLESS)
			left = l->receives_posted < l->expect ? l->expect - l->receives_posted : 0;
		if (l->due > left)
			l->due = (uint32_t)left;
		uint32_t n = l->due;
		if (l->receive_list) {
			if (n < l->receive_list && n < left)
				return VB_RUNNING;
			if (n > l->receive_list)
				n = l->receive_list;
		}
		if (n == 0)
			return VB_RUNNING;
		l->due -= n;
		int end = post_receives(j, l, n);
		if (unlikely(end))
			return end;
	}
}

static int bad_completion(struct vb_job *j, const struct vb_wc *w, const struct vb_lane *l) {
	j->bad = *w;
	j->bad_lane = l ? (uint32_t)(l - j->lanes) : ~0u;
	return VB_BAD_COMPLETION;
}

/* foreign is not 0 for the ID of a send that this job did not post; left_behind tells whether another job did. */
INLINE uint64_t foreign(const struct vb_job *j, uint64_t id) { return (id ^ j->tag) >> VB_TAG_SHIFT; }
INLINE int left_behind(const struct vb_job *j, const struct vb_wc *w) { return foreign(j, w->wr_id) && w->wr_id >> 63 && !(w->opcode & VB_WC_RECV); }

static int account(struct vb_job *j, const struct vb_wc *w, int64_t at) {
	struct vb_lane *l = lane_of(j, w->qp_num);
	if (unlikely(w->status))
		return bad_completion(j, w, l);
	if (unlikely(left_behind(j, w)))
		return VB_RUNNING;
	if (unlikely(!l || (!(w->opcode & VB_WC_RECV) && foreign(j, w->wr_id)))) {
		j->bad = *w;
		j->bad_lane = l ? (uint32_t)(l - j->lanes) : ~0u;
		return VB_STRANGE_COMPLETION;
	}
	if (!(w->opcode & VB_WC_RECV)) {
		retire(j, l, at);
		return VB_RUNNING;
	}
	uint64_t k = l->received++;
	j->received++;
	j->bytes_in += w->byte_len - (l->ud && w->byte_len >= GRH_BYTES ? GRH_BYTES : 0);
	trace(j, VB_TRACE_RECEIVE, l, k);
	if (!l->receive_slots)
		return VB_RUNNING;
	l->due++;
	return repost(j, l);
}

static int bad_poll(struct vb_job *j, int n) {
	j->error = n == -1 && errno ? errno : -n;
	return VB_BAD_POLL;
}

/* poll_all takes up to 16 completions from each queue and accounts for them. */
static int poll_all(struct vb_job *j, int *moved) {
	for (uint32_t c = 0; c < j->cq_count; c++) {
		int n = j->poll_cq(j->cqs[c], VB_POLL_BATCH, j->wc);
		if (n <= 0) {
			if (unlikely(n < 0))
				return bad_poll(j, n);
			continue;
		}
		*moved = 1;
		int64_t at = now();
		j->last_done = at;
		for (int i = 0; i < n; i++) {
			int end = account(j, &j->wc[i], at);
			if (unlikely(end))
				return end;
		}
	}
	return VB_RUNNING;
}

/* due is the length of the lane's next batch: 0 when it has sent everything. */
INLINE uint64_t due(const struct vb_lane *l, int ended) {
	uint64_t n = l->count - l->posted;
	if (n > l->batch)
		n = l->batch;
	if (ended && n) {
		uint64_t past = l->posted % l->signal;
		if (!past)
			return 0;
		if (n > l->signal - past)
			n = l->signal - past;
	}
	return n;
}

static int finished(const struct vb_job *j) {
	for (uint32_t i = 0; i < j->lane_count; i++) {
		const struct vb_lane *l = &j->lanes[i];
		if (l->retired != l->posted || due(l, (int)j->ended))
			return 0;
		if (l->receive_slots && !j->ended && l->received < l->expect)
			return 0;
	}
	return 1;
}

/* acknowledge returns the events taken so far; a queue with unacknowledged ones cannot be destroyed. */
static void acknowledge(struct vb_job *j) {
	for (uint32_t c = 0; j->channel && c < j->cq_count; c++)
		if (j->unacknowledged[c]) {
			j->verbs->ack_cq_events(j->cqs[c], j->unacknowledged[c]);
			j->unacknowledged[c] = 0;
		}
}

/* idle waits for an event where the job sleeps: the first call arms, so that the caller polls once more in between. */
static int idle(struct vb_job *j) {
	if (!j->channel) {
		relax();
		return VB_RUNNING;
	}
	if (!j->armed) {
		for (uint32_t c = 0; c < j->cq_count; c++) {
			int rc = vb_req_notify_cq(j->cqs[c], 0);
			if (rc) {
				j->error = rc;
				return VB_BAD_EVENT;
			}
		}
		j->armed = 1;
		return VB_RUNNING;
	}
	struct pollfd p = {.fd = j->channel->fd, .events = POLLIN};
	struct timespec t = {.tv_nsec = EVENT_WAIT_NS};
	if (ppoll(&p, 1, &t, NULL) <= 0)
		return VB_RUNNING;
	struct vb_cq *cq;
	while (vb_get_cq_event(j->verbs, j->channel, &cq) == 0) {
		uint32_t c = 0;
		while (c < j->cq_count && j->cqs[c] != cq)
			c++;
		if (c < j->cq_count)
			j->unacknowledged[c]++;
		else
			j->verbs->ack_cq_events(cq, 1);
		j->armed = 0;
	}
	return VB_RUNNING;
}

/* over tells whether the job has been stopped or its time has passed. */
INLINE int over(const struct vb_job *j, int64_t at) {
	return (j->stop && __atomic_load_n(j->stop, __ATOMIC_RELAXED)) || (j->deadline && at >= j->deadline);
}

INLINE int trace_full(const struct vb_job *j) {
	if (likely(!j->trace))
		return 0;
	uint64_t most = 2ull * VB_POLL_BATCH * j->cq_count;
	for (uint32_t i = 0; i < j->lane_count; i++)
		most += j->lanes[i].batch + j->lanes[i].receive_list;
	return j->trace_len + most > j->trace_cap;
}

/* stream_slowly runs any stream. */
static int stream_slowly(struct vb_job *j, int64_t until) {
	uint32_t look = 1, every = 1;
	int64_t at = now(), quarter = (until - at) / 4;
	if (finished(j)) /* in a quick loop */
		return VB_DONE;
	for (;;) {
		if (--look == 0) {
			int64_t before = at;
			at = now();
			/* On a device so slow that the last polls took much of a slice, each poll is followed by a look. */
			every = j->trace || j->channel || at - before > quarter ? 1 : every < LOOK ? 2 * every : LOOK;
			look = every;
			/* The end of the job goes before the end of the slice: a quick loop that used the slice up must not hide it. */
			if (!j->ended && over(j, at)) {
				j->ended = 1;
				if (j->abandon)
					return VB_DONE;
			}
			if (at >= until)
				return VB_RUNNING;
		}
		if (trace_full(j))
			return VB_TRACE_FULL;
		int moved = 0;
		for (uint32_t i = 0; i < j->lane_count; i++) {
			struct vb_lane *l = &j->lanes[i];
			do {
				uint64_t n = due(l, (int)j->ended);
				if (n == 0 || l->posted - l->retired + n > l->window)
					break;
				int end = post(j, l, n);
				if (unlikely(end))
					return end;
				moved = 1;
			} while (!j->trace);
		}
		int end = poll_all(j, &moved);
		if (unlikely(end))
			return end;
		if (!moved) {
			if (unlikely((end = idle(j))))
				return end;
			if (j->channel)
				look = 1;
		} else if (finished(j)) {
			return VB_DONE;
		}
		if (j->ended && finished(j))
			return VB_DONE;
	}
}

/* ---- the quick way: prepared batches, nothing stamped, nothing asked per message that was known before ---- */

/* fill posts prepared batches while n messages' room lasts, and returns what is left of n or stops at an error. */
INLINE uint64_t fill(struct vb_job *j, struct vb_lane *l, uint64_t n, int stamped, int *end) {
	vb_post_send_fn *send = l->post_send;
	struct vb_qp *qp = l->qp;
	struct vb_send_wr **at = l->fast_at, **stop = l->fast_end, *bad;
	const uint64_t batch = l->batch;
	uint32_t until_signal = l->until_signal;
	while (n >= batch) {
		struct vb_send_wr *wr = at[0];
		if (!--until_signal) {
			wr = at[1];
			until_signal = l->every;
		}
		if (stamped)
			stamp_post(j, l, batch, batch * l->bytes_each, now());
		int rc = send(qp, wr, &bad);
		if (unlikely(rc)) {
			*end = bad_post(j, l, rc);
			break;
		}
		if ((at += 2) == stop)
			at = l->fast;
		n -= batch;
	}
	l->fast_at = at;
	l->until_signal = until_signal;
	return n;
}

/* with tells whether a special loop may be taken. */
INLINE int with(const struct vb_job *j, uint32_t loop) { return !(j->without & loop); }

/* unsent is how many messages are still to go out as prepared batches. */
INLINE uint64_t unsent(const struct vb_lane *l) { return l->posted < l->fast_limit ? l->fast_limit - l->posted : 0; }

INLINE uint64_t room(const struct vb_lane *l) {
	uint64_t n = l->window - (l->posted - l->retired), left = unsent(l);
	return n < left ? n : left;
}

/* recover accounts for polled completions one by one, up to the first bad one: something about them is not as expected. */
static __attribute__((noinline, cold)) int recover(struct vb_job *j, int n) {
	j->last_done = now();
	for (int i = 0; i < n; i++) {
		int end = account(j, &j->wc[i], j->last_done);
		if (end)
			return end;
	}
	return VB_RUNNING;
}

/* doubtful tells whether any of the polled completions is not as expected. */
INLINE int doubtful(const struct vb_job *j, int n, const uint32_t sends, const uint32_t receives) {
	uint64_t bad = 0, kinds = VB_WC_RECV;
	if (!sends) {
		for (int i = 0; i < n; i++) {
			bad |= j->wc[i].status;
			kinds &= j->wc[i].opcode;
		}
		return bad || !kinds;
	}
	for (int i = 0; i < n; i++) {
		bad |= j->wc[i].status;
		if (!receives || !(j->wc[i].opcode & VB_WC_RECV))
			bad |= foreign(j, j->wc[i].wr_id);
	}
	return bad != 0;
}

/* advance brings a lane to where a quick loop has come. */
INLINE void advance(struct vb_job *j, struct vb_lane *l, uint64_t posted, uint64_t retired) {
	j->posted += posted - l->posted;
	j->completed += retired - l->retired;
	l->posted = posted;
	l->retired = retired;
}

/* count takes up to n completions that the quick loop has found into the histogram and the peak. */
static __attribute__((noinline)) void count(struct vb_job *j, uint32_t n) {
	struct vb_lane *l = j->lanes;
	const uint64_t signal = l->signal, bytes = signal * l->bytes_each;
	if (n > j->found)
		n = j->found;
	j->found -= n;
	for (; n; n--) {
		stamp_completion(j, l, signal, bytes, j->found_at[j->found_out]);
		if (++j->found_out == j->found_slots)
			j->found_out = 0;
	}
}

/* found keeps when completions were found, until they are counted. */
INLINE void found(struct vb_job *j, uint32_t n) {
	int64_t at = j->last_done = now();
	uint32_t in = j->found_out + j->found;
	j->found += n;
	for (; n; n--, in++)
		j->found_at[in >= j->found_slots ? in - j->found_slots : in] = at;
}

/* stream_one is a stream of one lane that only sends, into one queue: everything is in registers. Stamped: with a stamp for each
   batch and each poll that found something. The stamps wait in rings and are counted after the job, outside of what is measured;
   a job that fills the rings counts as it goes, a few at a time. */
INLINE int stream_one(struct vb_job *j, int64_t until, const int stamped) {
	struct vb_lane *l = j->lanes;
	struct vb_cq *cq = j->cqs[0];
	struct vb_wc *wc = j->wc;
	vb_poll_cq_fn *poll = j->poll_cq;
	const uint64_t signal = l->signal, window = l->window, limit = l->fast_limit;
	const uint32_t full = j->found_slots - VB_POLL_BATCH;
	uint64_t posted = l->posted, retired = l->retired;
	uint32_t look = LOOK, dirty = j->dirty;
	int end = VB_RUNNING;
	while (posted < limit) {
		uint64_t n = window - (posted - retired), left = limit - posted;
		n = n < left ? n : left;
		posted += n - fill(j, l, n, stamped, &end);
		if (unlikely(end))
			break;
		if (stamped && unlikely(j->found > full))
			count(j, 2 * VB_POLL_BATCH);
		int got = poll(cq, VB_POLL_BATCH, wc);
		if (got > 0) {
			if (unlikely(doubtful(j, got, 1, 0))) {
				advance(j, l, posted, retired);
				if (stamped)
					count(j, j->found);
				if ((end = recover(j, got)))
					return end;
				retired = l->retired;
				continue;
			}
			retired += (uint64_t)got * signal;
			if (stamped)
				found(j, (uint32_t)got);
			else
				dirty = 1;
		} else if (unlikely(got < 0)) {
			end = bad_poll(j, got);
			break;
		} else if (!stamped && dirty) {
			j->last_done = now();
			dirty = 0;
		}
		if (unlikely(--look == 0)) {
			look = LOOK;
			int64_t at = now();
			if (at >= until || over(j, at))
				break;
		}
	}
	j->dirty = dirty;
	advance(j, l, posted, retired);
	return end;
}

static __attribute__((noinline)) int stream_alone(struct vb_job *j, int64_t until) { return stream_one(j, until, 0); }
static __attribute__((noinline)) int stream_stamped(struct vb_job *j, int64_t until) { return stream_one(j, until, 1); }

/* refill posts as many prepared batches as a lane has room for, and returns their messages. */
INLINE uint64_t refill(struct vb_job *j, struct vb_lane *l, int *end) {
	uint64_t n = room(l), posted = n - fill(j, l, n, 0, end);
	l->posted += posted;
	j->posted += posted;
	return posted;
}

/* take_send accounts for a send's completion that is as expected, and returns its lane. */
INLINE struct vb_lane *take_send(struct vb_job *j, const struct vb_wc *w) {
	struct vb_lane *l = &j->lanes[w->wr_id & ((1 << VB_SLOT_SHIFT) - 1)];
	l->retired += l->signal;
	j->completed += l->signal;
	return l;
}

/* take_receives accounts for receives of one queue pair, as many as follow each other, and returns its lane; NULL: it is on none. */
INLINE struct vb_lane *take_receives(struct vb_job *j, const struct vb_wc *w, int got, int *taken) {
	const uint32_t qpn = w->qp_num;
	struct vb_lane *l = lane_of(j, qpn);
	if (unlikely(!l)) {
		j->bad = *w;
		j->bad_lane = ~0u;
		return NULL;
	}
	uint64_t bytes = 0;
	int n = 0;
	do {
		bytes += w[n].byte_len;
		if (unlikely(l->ud) && w[n].byte_len >= GRH_BYTES)
			bytes -= GRH_BYTES;
		n++;
	} while (n < got && w[n].qp_num == qpn && w[n].opcode & VB_WC_RECV);
	l->received += (uint64_t)n;
	l->due += (uint32_t)n;
	j->received += (uint64_t)n;
	j->bytes_in += bytes;
	*taken = n;
	return l;
}

/* begin fills every lane, and returns what is left to post or, where nothing is sent, to receive. */
static uint64_t begin(struct vb_job *j, int *end) {
	uint64_t left = 0;
	for (uint32_t i = 0; i < j->lane_count; i++) {
		struct vb_lane *l = &j->lanes[i];
		if (j->sends && l->ring) {
			refill(j, l, end);
			left += unsent(l);
		} else if (!j->sends && l->received < l->expect) {
			left += l->expect - l->received;
		}
	}
	return left;
}

/* stream_quickly is any number of lanes in both directions. */
static __attribute__((noinline)) int stream_quickly(struct vb_job *j, int64_t until) {
	const uint32_t sends = j->sends, receives = j->receives;
	struct vb_lane *list[VB_POLL_BATCH];
	struct vb_wc *wc = j->wc;
	uint32_t look = LOOK;
	int end = VB_RUNNING;
	uint64_t left = begin(j, &end);
	while (left && !end) {
		for (uint32_t c = 0; c < j->cq_count; c++) {
			int got = j->poll_cq(j->cqs[c], VB_POLL_BATCH, wc);
			if (got <= 0) {
				if (unlikely(got < 0))
					return bad_poll(j, got);
				if (j->dirty) {
					j->last_done = now();
					j->dirty = 0;
				}
				continue;
			}
			j->dirty = 1;
			if (unlikely(doubtful(j, got, sends, receives))) {
				if ((end = recover(j, got)))
					return end;
				if (now() >= until)
					return VB_RUNNING;
				left = begin(j, &end);
				break;
			}
			uint32_t touched = 0;
			for (int i = 0, n = 1; i < got; i += n) {
				struct vb_lane *l;
				if (!receives || (sends && !(wc[i].opcode & VB_WC_RECV))) {
					l = take_send(j, &wc[i]);
					n = 1;
				} else if (unlikely(!(l = take_receives(j, &wc[i], got - i, &n)))) {
					return VB_STRANGE_COMPLETION;
				}
				if (!l->listed) {
					l->listed = 1;
					list[touched++] = l;
				}
			}
			if (!sends)
				left -= (uint64_t)got;
			for (uint32_t i = 0; i < touched; i++) {
				struct vb_lane *l = list[i];
				l->listed = 0;
				if (receives && l->due && unlikely((end = repost(j, l))))
					return end;
				if (sends && l->ring)
					left -= refill(j, l, &end);
				if (unlikely(end))
					return end;
			}
		}
		if (unlikely(--look == 0)) {
			look = LOOK;
			int64_t at = now();
			if (at >= until || over(j, at))
				break;
		}
	}
	return end;
}

typedef int loop(struct vb_job *, int64_t);

/* quick_loop is the loop for a stream of prepared batches. */
static loop *quick_loop(const struct vb_job *j) {
	if (j->stamped)
		return with(j, VB_STAMPED) ? stream_stamped : NULL;
	if (with(j, VB_ALONE) && !j->receives && j->lane_count == 1 && j->cq_count == 1)
		return stream_alone;
	return with(j, VB_QUICKLY) ? stream_quickly : NULL;
}

static int stream(struct vb_job *j, int64_t until) {
	int64_t at = now();
	loop *quick = j->fast ? quick_loop(j) : NULL;
	if (!quick || j->ended || over(j, at))
		return stream_slowly(j, until);
	if (j->sends && !j->first_post)
		j->first_post = at;
	int end = quick(j, until);
	at = now();
	if (j->dirty && !end) {
		j->last_done = at;
		j->dirty = 0;
	}
	if (!end && at >= until && !over(j, at))
		return VB_RUNNING;
	if (j->found)
		count(j, j->found);
	if (end)
		return end;
	/* Stopped, or all prepared batches are out: the rest goes the general way. Sends and receives that a
	   quick loop could still take up again are taken up by the next run. */
	return stream_slowly(j, until);
}

/* ---- ping-pong ---- */

INLINE uint8_t load_byte(const uint8_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }

/* move posts the next message: a prepared batch of one, or the general way. */
INLINE int move(struct vb_job *j, struct vb_lane *l, uint32_t await) {
	if (await == VB_AWAIT_LAST_BYTE)
		__atomic_store_n(l->flag_out, (uint8_t)(l->posted + 1), __ATOMIC_RELEASE);
	if (unlikely(!j->fast || l->posted >= l->fast_limit))
		return post(j, l, 1);
	struct vb_send_wr *wr = l->fast_at[0], *bad;
	if (!--l->until_signal) {
		wr = l->fast_at[1];
		l->until_signal = l->every;
	}
	int rc = l->post_send(l->qp, wr, &bad);
	if (unlikely(rc))
		return bad_post(j, l, rc);
	if ((l->fast_at += 2) == l->fast_end)
		l->fast_at = l->fast;
	l->posted++;
	j->posted++;
	return VB_RUNNING;
}

/* bout is a number of steps that bounce makes in a row. */
struct bout {
	struct vb_qp *qp;
	struct vb_cq *cq;
	vb_post_send_fn *send;
	vb_poll_cq_fn *poll;
	struct vb_wc *wc;
	const uint32_t *stop;
	int64_t over_at;
	uint64_t tag;
	size_t stride; /* from batch to batch, in bytes; a ring of one stays where it is */

	struct vb_send_wr **at;
	int64_t *sample, *end; /* a sample for each step */
	int64_t start;         /* of the next step */
	int rc;                /* what a post or poll that failed returned */
};

/* How a bout ended. */
enum { BOUT_OVER, BOUT_WAITS, BOUT_FOREIGN, BOUT_BAD_POST, BOUT_BAD_POLL, BOUT_BAD_COMPLETION };

/* run_bout makes the steps, up to over_at; waiting: the first one's message is out already. What changes from step to step
   is little enough to stay in registers over both calls: the rest is read where it lies. */
static __attribute__((noinline)) int run_bout(struct bout *b, int waiting) {
	struct vb_send_wr **at = b->at, *bad;
	int64_t *sample = b->sample, *const end = b->end, start = b->start;
	const int64_t over_at = b->over_at;
	int how = BOUT_OVER;
	if (waiting)
		goto wait;
	do {
		int rc = b->send(b->qp, at[1], &bad);
		if (unlikely(rc)) {
			b->rc = rc;
			how = BOUT_BAD_POST;
			break;
		}
		at = (struct vb_send_wr **)((char *)at + b->stride);
	wait:;
		int got = b->poll(b->cq, 1, b->wc);
		if (unlikely(got <= 0)) {
			uint32_t spins = SPIN;
			while (got == 0) {
				if (unlikely(--spins == 0)) {
					spins = SPIN;
					if (now() >= over_at || __atomic_load_n(b->stop, __ATOMIC_RELAXED)) {
						how = BOUT_WAITS;
						goto out;
					}
				}
				got = b->poll(b->cq, 1, b->wc);
			}
			if (unlikely(got < 0)) {
				b->rc = got;
				how = BOUT_BAD_POLL;
				break;
			}
		}
		if (unlikely(b->wc->status | (b->wc->wr_id ^ b->tag) >> VB_TAG_SHIFT)) {
			how = b->wc->status ? BOUT_BAD_COMPLETION : BOUT_FOREIGN;
			break;
		}
		int64_t t = now();
		*sample++ = t - start;
		start = t;
	} while (sample != end && start < over_at);
out:
	b->at = at;
	b->sample = sample;
	b->start = start;
	return how;
}

/* bounce alternates where each step ends with the own completion: READ, atomics. The samples of up to 1024 steps wait
   in a buffer and are counted between two steps, outside of both. */
static int bounce(struct vb_job *j, int64_t until) {
	static const uint32_t never = 0;
	struct vb_lane *l = j->lanes;
	int64_t *const first = j->pending, *const last = j->pending + VB_PENDING, at = now();
	struct bout b = {
		l->qp, j->cqs[0], l->post_send, j->poll_cq, j->wc, j->stop ? j->stop : &never,
		j->deadline && j->deadline < until ? j->deadline : until, j->tag, l->fast + 2 == l->fast_end ? 0 : 2 * sizeof *l->fast,
		l->fast_at, first + j->pending_len, NULL, j->sent ? j->step_start : at, 0,
	};
	int how = BOUT_OVER, bad = VB_RUNNING;
	if (!j->first_post)
		j->first_post = at;
	while (how == BOUT_OVER || how == BOUT_FOREIGN) {
		uint64_t left = unsent(l), steps = (uint64_t)(last - b.sample), to_wrap = (uint64_t)(l->fast_end - b.at) / 2;
		uint32_t waiting = j->sent;
		if (steps > left + waiting)
			steps = left + waiting;
		if (b.stride && steps > to_wrap)
			steps = to_wrap;
		if (!steps)
			break;
		int64_t *begin = b.sample;
		b.end = begin + steps;
		how = run_bout(&b, (int)waiting);
		uint64_t done = (uint64_t)(b.sample - begin), out = how == BOUT_OVER || how == BOUT_BAD_POST ? 0 : 1;
		uint64_t posted = done + out - waiting;
		j->sent = how == BOUT_WAITS || how == BOUT_FOREIGN;
		j->posted += posted;
		j->completed += done;
		j->step += done;
		l->posted += posted;
		l->retired += done;
		if (b.at == l->fast_end)
			b.at = l->fast;
		if (done)
			j->last_done = b.start;
		if (how == BOUT_FOREIGN && (bad = account(j, b.wc, b.start)))
			break;
		if (b.start >= b.over_at)
			break;
		if (b.sample == last) {
			j->pending_len = j->record.samples ? VB_PENDING : 0;
			fold(j);
			b.sample = first;
			b.start = now();
		}
		if (__atomic_load_n(b.stop, __ATOMIC_RELAXED))
			break;
	}
	l->fast_at = b.at;
	j->pending_len = j->record.samples ? (uint32_t)(b.sample - first) : 0;
	j->step_start = b.start;
	switch (how) {
	case BOUT_BAD_POST:
		return bad_post(j, l, b.rc);
	case BOUT_BAD_POLL:
		return bad_poll(j, b.rc);
	case BOUT_BAD_COMPLETION:
		return bad_completion(j, b.wc, l);
	}
	return bad;
}

INLINE int arrived(const struct vb_lane *l, uint64_t step, uint32_t await) {
	switch (await) {
	case VB_AWAIT_COMPLETION:
		return l->retired > step;
	case VB_AWAIT_RECEIVE:
		return l->received > step;
	default:
		return load_byte(l->flag_in) == (uint8_t)(step + 1);
	}
}

/* sample_by_device takes the time between the completions that ended this step and the one before. */
static __attribute__((noinline)) void sample_by_device(struct vb_job *j, int64_t at) {
	const uint64_t stamp = j->polled.latest[j->await == VB_AWAIT_RECEIVE];
	if (j->step > 0) {
		j->pending[j->pending_len++] = (int64_t)((stamp - j->step_stamp) & j->record.clock_mask);
		j->record.elapsed += at - j->step_start;
	}
	j->step_stamp = stamp;
}

/* comes tells whether what ends the step is there. A byte is looked at several times: nothing but memory has to move for it. */
INLINE int comes(const struct vb_lane *l, uint64_t step, uint32_t await) {
	if (arrived(l, step, await))
		return 1;
	for (uint32_t left = await == VB_AWAIT_LAST_BYTE ? SPIN : 0; left; left--)
		if (arrived(l, step, await))
			return 1;
	return 0;
}

/* wind_up waits for the completions that are due after the last step. */
static int wind_up(struct vb_job *j, const struct vb_lane *l) {
	uint64_t last = j->step == l->count ? l->posted : l->posted - l->posted % l->signal;
	if (l->retired >= last)
		return VB_DONE;
	int moved = 0, end = poll_all(j, &moved);
	return end || moved ? end : idle(j);
}

/* take_turn posts this end's message as soon as the window has room for it. The last sample is counted
   when it is on its way. */
INLINE int take_turn(struct vb_job *j, struct vb_lane *l, uint32_t await, int sends_first) {
	int moved = 0, end;
	if (l->posted - l->retired >= l->window) {
		end = poll_all(j, &moved);
		return end || moved ? end : idle(j);
	}
	if (sends_first && j->step == 0)
		j->step_start = now();
	if (!j->first_post)
		j->first_post = now();
	if (unlikely((end = move(j, l, await))))
		return end;
	if (j->pending_len)
		fold(j);
	if (j->sent == 2) {
		j->sent = 0;
		j->step++;
	} else {
		j->sent = 1;
	}
	return poll_all(j, &moved);
}

/* finish_step takes the sample of a step whose end has come. */
INLINE void finish_step(struct vb_job *j, uint32_t await, int sends_first) {
	int64_t at = now();
	if (likely(j->record.samples == VB_SAMPLES_HOST)) {
		if (sends_first || j->step > 0)
			j->pending[j->pending_len++] = at - j->step_start;
	} else if (j->record.samples == VB_SAMPLES_DEVICE) {
		sample_by_device(j, at);
	}
	j->step_start = at;
	if (await == VB_AWAIT_LAST_BYTE)
		j->last_done = at;
	if (sends_first) {
		j->sent = 0;
		j->step++;
	} else {
		j->sent = 2;
	}
}

/* alternate is any ping-pong. */
static int alternate(struct vb_job *j, int64_t until) {
	struct vb_lane *l = j->lanes;
	const uint32_t await = j->await;
	const int sends_first = j->first || await == VB_AWAIT_COMPLETION;
	uint32_t look = 1;
	for (;;) {
		int moved = 0, end;
		if (--look == 0) {
			look = SPIN;
			int64_t at = now();
			/* The end of the job goes before the end of the slice: a quick loop that used the slice up must not hide it. */
			if (!j->ended && over(j, at)) {
				j->ended = 1;
				if (j->abandon)
					return VB_DONE;
			}
			if (at >= until)
				return VB_RUNNING;
		}
		if (trace_full(j))
			return VB_TRACE_FULL;
		if (j->step == l->count || j->ended) {
			if ((end = wind_up(j, l)))
				return end;
			continue;
		}
		/* sent: 0 this end's message is not yet out, 1 it is, 2 the answer to the peer's is due. */
		if ((!j->sent && sends_first) || j->sent == 2) {
			if (unlikely((end = take_turn(j, l, await, sends_first))))
				return end;
			continue;
		}
		if (!comes(l, j->step, await)) {
			if (unlikely((end = poll_all(j, &moved))))
				return end;
			if (!arrived(l, j->step, await)) {
				if (!moved && await != VB_AWAIT_LAST_BYTE && j->channel) {
					if (unlikely((end = idle(j))))
						return end;
					look = 1;
				}
				continue;
			}
		}
		finish_step(j, await, sends_first);
	}
}

static int ping_pong(struct vb_job *j, int64_t until) {
	if (with(j, VB_BOUNCE) && j->await == VB_AWAIT_COMPLETION && j->fast && !j->receives && j->cq_count == 1 && !j->channel && !j->ended) {
		int end = bounce(j, until);
		if (end)
			return end;
	}
	return alternate(j, until);
}

/* serve sleeps: a device of libibverbs serves its peer by itself. Completions are reaped all the same. */
static int serve(struct vb_job *j, int64_t until) {
	for (;;) {
		int64_t at = now();
		if (over(j, at))
			return VB_DONE;
		if (at >= until)
			return VB_RUNNING;
		if (trace_full(j))
			return VB_TRACE_FULL;
		int moved = 0, end = poll_all(j, &moved);
		if (end)
			return end;
		if (!moved) {
			struct timespec t = {.tv_nsec = SERVE_WAIT_NS};
			nanosleep(&t, NULL);
		}
	}
}

uint64_t vb_bytes_out(const struct vb_job *j) {
	uint64_t bytes = 0;
	for (uint32_t i = 0; i < j->lane_count; i++) {
		const struct vb_lane *l = &j->lanes[i];
		if (l->ring)
			bytes += l->retired / l->ring * l->bytes_before[l->ring] + l->bytes_before[l->retired % l->ring];
	}
	return bytes;
}

int vb_run(struct vb_job *j, int64_t until, int64_t *counts, int64_t *raw, const uint32_t *stop) {
	j->counts = counts;
	j->raw = raw;
	j->stop = stop;
	int end;
	switch (j->shape) {
	case VB_STREAM:
		end = stream(j, until);
		break;
	case VB_PING_PONG:
		end = ping_pong(j, until);
		break;
	default:
		end = serve(j, until);
	}
	fold(j);
	acknowledge(j);
	j->counts = j->raw = NULL;
	j->stop = NULL;
	return end;
}

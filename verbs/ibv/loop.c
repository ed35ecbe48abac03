//go:build linux && cgo

#include "loop.h"

#define INLINE static inline __attribute__((always_inline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

enum {
	GRH_BYTES = 40,
	LOOK = 16, /* polls between looks at the clock and the stop word */
	SPIN = 64, /* looks at a byte between polls, and polls of a ping-pong between looks at the clock */
};

INLINE void log_event(struct cl_job *j, const struct cl_lane *l, uint32_t kind, uint64_t n, int64_t at) {
	j->log[j->log_in] = (struct cl_event){at, (uint32_t)(l - j->lanes), kind << 28 | (uint32_t)n};
	if (++j->log_in == j->log_slots)
		j->log_in = 0;
	j->logged++;
}

/* What a stream logs: nothing; each list that is posted and each completion; or the lists of a refill as one, and the messages of a
   lane that one poll found complete. The latter costs little for a message, and is what a long test can afford. */
enum { NOTHING, EACH, GROUPS };

INLINE int stopped(const struct cl_job *j) { return __atomic_load_n(j->stop, __ATOMIC_RELAXED) != 0; }

static int bad_call(struct cl_job *j, const struct cl_lane *l, int end, int rc) {
	j->bad_lane = l ? (uint32_t)(l - j->lanes) : ~0u;
	j->error = rc > 0 ? rc : rc == -1 && errno ? errno : rc < -1 ? -rc : EIO;
	return end;
}

static int bad_poll(struct cl_job *j, int got) {
	int end = bad_call(j, NULL, CL_BAD_POLL, got);
	if (got > 0)
		j->error = -got; /* more than were asked for */
	return end;
}

static int bad_completion(struct cl_job *j, const struct vb_wc *w, const struct cl_lane *l, int end) {
	j->bad = *w;
	j->bad_lane = l ? (uint32_t)(l - j->lanes) : ~0u;
	return end;
}

INLINE struct cl_lane *lane_of(const struct cl_job *j, uint32_t qpn) {
	for (uint32_t i = qpn & j->by_qpn_mask;; i = (i + 1) & j->by_qpn_mask) {
		if (likely(j->by_qpn[i].qpn == qpn && j->by_qpn[i].lane != ~0u))
			return &j->lanes[j->by_qpn[i].lane];
		if (j->by_qpn[i].lane == ~0u)
			return NULL;
	}
}

/* ---- sends ---- */

INLINE int post(struct cl_job *j, struct cl_lane *l, struct vb_send_wr *wr, uint64_t n, const int logs) {
	if (logs == EACH)
		log_event(j, l, CL_POSTED, n, mt_now());
	struct vb_send_wr *bad;
	int rc = l->post_send(l->qp, wr, &bad);
	return unlikely(rc) ? bad_call(j, l, CL_BAD_POST, rc) : CL_RUNNING;
}

/* refill posts the prepared batches that a lane's window has room for. */
INLINE int refill(struct cl_job *j, struct cl_lane *l, const int logs) {
	const uint64_t batch = l->batch, room = l->window - (l->posted - l->retired), left = l->limit - l->posted;
	uint64_t posted = 0;
	int64_t at = 0;
	int end = CL_RUNNING;
	if (logs == GROUPS)
		at = mt_now();
	if (l->posted < l->limit) {
		struct vb_send_wr **at = l->at;
		uint32_t until_signal = l->until_signal;
		for (uint64_t n = room < left ? room : left; n >= batch; n -= batch) {
			struct vb_send_wr *wr = at[0];
			if (!--until_signal) {
				wr = at[1];
				until_signal = l->every;
			}
			if (unlikely((end = post(j, l, wr, batch, logs))))
				break;
			if ((at += 2) == l->end)
				at = l->heads;
			posted += batch;
		}
		l->at = at;
		l->until_signal = until_signal;
	}
	if (unlikely(l->last && posted == left && room - posted >= l->last_messages && !end) && !(end = post(j, l, l->last, l->last_messages, logs))) {
		l->last = NULL;
		posted += l->last_messages;
	}
	l->posted += posted;
	if (logs == GROUPS && posted)
		log_event(j, l, CL_POSTED, posted, at);
	return end;
}

/* is_foreign tells that a send of this ID is a job's, and not this one's. */
static int is_foreign(const struct cl_job *j, uint64_t id) { return id >> 63 && (id ^ j->tag) >> CL_TAG_SHIFT; }

/* out_of_order tells whether a completion may overtake another one: EFA's datagrams are known to. */
static int out_of_order(const struct cl_job *j, const struct cl_lane *l, uint64_t id) {
	return l->ud && !((id ^ j->tag) >> CL_TAG_SHIFT) && l->posted - l->retired >= l->signal;
}

/* next_signaled makes the ID of a lane's next signaled message that of the one after it. */
INLINE uint64_t next_signaled(const struct cl_lane *l, uint64_t id) {
	id += l->id_step;
	return id >= l->id_end ? id - l->id_span : id;
}

/* retire accounts for the completion of a lane's next signaled message and all before it. */
INLINE void retire(struct cl_job *j, struct cl_lane *l, int64_t at, const int logs) {
	uint64_t n = l->signal, left = l->count - l->retired;
	if (unlikely(n > left))
		n = left;
	l->retired += n;
	l->next_id = next_signaled(l, l->next_id);
	if (unlikely(left - n < n)) { /* the next is the last, and signaled early */
		l->next_id -= ((n - (left - n)) << CL_SLOT_SHIFT) % l->id_span;
		if (l->next_id < l->id_end - l->id_span)
			l->next_id += l->id_span;
	}
	j->left -= n;
	if (logs == EACH)
		log_event(j, l, CL_COMPLETED, n, at);
	else if (logs == GROUPS)
		l->completed += n;
}

/* ---- receives ---- */

/* repost posts the receives that are due: as they come, or in lists of receive_list, of which the last may be shorter. */
static int repost(struct cl_job *j, struct cl_lane *l) {
	for (;;) {
		uint64_t left = CL_ENDLESS;
		if (l->expect != CL_ENDLESS)
			left = l->receives_posted < l->expect ? l->expect - l->receives_posted : 0;
		if (l->due > left)
			l->due = (uint32_t)left;
		uint32_t n = l->due;
		if (l->receive_list) {
			if (n < l->receive_list && n < left)
				return CL_RUNNING;
			if (n > l->receive_list)
				n = l->receive_list;
		}
		if (n == 0)
			return CL_RUNNING;
		l->due -= n;
		struct vb_recv_wr *head = &l->receives[l->receive_at], *bad;
		uint32_t last = l->receive_at + n - 1;
		l->receive_at += n;
		if (last >= l->receive_slots)
			last -= l->receive_slots;
		if (l->receive_at >= l->receive_slots)
			l->receive_at -= l->receive_slots;
		struct vb_recv_wr *tail = &l->receives[last], *next = tail->next;
		tail->next = NULL;
		int rc = l->post_recv(l->receives_on, head, &bad);
		tail->next = next;
		if (unlikely(rc))
			return bad_call(j, l, CL_BAD_RECEIVE, rc);
		l->receives_posted += n;
		if (unlikely(j->log && !j->grouped))
			log_event(j, l, CL_REPOSTED, n, 0);
	}
}

/* receive accounts for receives of one queue pair, as many as follow each other, and returns how many; 0: the job fails. */
INLINE int receive(struct cl_job *j, struct cl_lane *l, const struct vb_wc *w, int got, const int logs) {
	uint64_t bytes = 0;
	int n = 0;
	do {
		bytes += w[n].byte_len;
		if (unlikely(l->ud) && w[n].byte_len >= GRH_BYTES)
			bytes -= GRH_BYTES;
		n++;
	} while (n < got && w[n].qp_num == w->qp_num && w[n].opcode & VB_WC_RECV && !w[n].status);
	if (unlikely(l->owns_receives && l->received + (uint64_t)n > l->receives_posted)) {
		j->end = bad_completion(j, w, l, CL_UNASKED_COMPLETION);
		return 0;
	}
	if (likely(l->received < l->expect && !j->ended)) {
		uint64_t lacks = l->expect - l->received;
		j->left -= lacks < (uint64_t)n ? lacks : (uint64_t)n;
	}
	l->received += (uint64_t)n;
	l->due += (uint32_t)n;
	j->bytes_in += bytes;
	if (logs == EACH)
		log_event(j, l, CL_RECEIVED, (uint64_t)n, 0);
	return n;
}

/* ---- both loops ---- */

/* take accounts for the next completions, and returns how many; 0: the job fails. *lane is NULL for one that another job left behind. */
INLINE int take(struct cl_job *j, const struct vb_wc *w, int got, struct cl_lane **lane, int64_t at, const int logs) {
	if (unlikely(w->status)) {
		j->end = bad_completion(j, w, lane_of(j, w->qp_num), CL_BAD_COMPLETION);
		return 0;
	}
	if (w->opcode & VB_WC_RECV) {
		if (likely((*lane = lane_of(j, w->qp_num)) != NULL))
			return receive(j, *lane, w, got, logs);
	} else {
		const uint32_t at_lane = w->wr_id & ((1 << CL_SLOT_SHIFT) - 1);
		struct cl_lane *l = at_lane < j->lane_count ? &j->lanes[at_lane] : j->lanes;
		if (likely(w->wr_id == l->next_id) || out_of_order(j, l, w->wr_id)) {
			*lane = l;
			retire(j, l, at, logs);
			return 1;
		}
		*lane = NULL;
		if (is_foreign(j, w->wr_id))
			return 1;
		if (w->wr_id >> 63) {
			j->end = bad_completion(j, w, l, CL_UNASKED_COMPLETION);
			return 0;
		}
	}
	j->end = bad_completion(j, w, lane_of(j, w->qp_num), CL_UNKNOWN_COMPLETION);
	return 0;
}

/* poll_all takes what each queue has, up to a batch, posts receives again and, in a stream, what there is room for then. It returns
   how many completions it took; less than 0: the job ends as j->end says. */
INLINE int poll_all(struct cl_job *j, const int streams, const int logs) {
	struct cl_lane *list[VB_POLL_BATCH], *l;
	struct vb_wc *wc = j->polled.wc;
	int all = 0;
	for (uint32_t c = 0; c < j->cq_count; c++) {
		int got = j->poll_cq(j->cqs[c], VB_POLL_BATCH, wc);
		if ((uint32_t)(got - 1) >= VB_POLL_BATCH) {
			if (likely(!got))
				continue;
			j->end = bad_poll(j, got);
			return -1;
		}
		all += got;
		int64_t at = logs ? mt_now() : 0;
		uint32_t touched = 0;
		for (int i = 0, n; i < got; i += n) {
			if (unlikely(!(n = take(j, &wc[i], got - i, &l, at, logs))))
				return -1;
			if (l && !l->listed) {
				l->listed = 1;
				list[touched++] = l;
			}
		}
		for (uint32_t i = 0; logs == GROUPS && i < touched; i++)
			if (list[i]->completed) {
				log_event(j, list[i], CL_COMPLETED, list[i]->completed, at);
				list[i]->completed = 0;
			}
		for (uint32_t i = 0; i < touched; i++) {
			l = list[i];
			l->listed = 0;
			if (l->due && unlikely((j->end = repost(j, l))))
				return -1;
			if (streams && unlikely((j->end = refill(j, l, logs))))
				return -1;
		}
	}
	if (all) {
		j->dirty = 1;
	} else if (j->dirty) {
		j->last_done = mt_now();
		j->dirty = 0;
	}
	return all;
}

/* drain has each lane post no further than its next signaled message; receives are no longer awaited. */
static void drain(struct cl_job *j) {
	j->ended = 1;
	j->left = 0;
	for (uint32_t i = 0; i < j->lane_count; i++) {
		struct cl_lane *l = &j->lanes[i];
		const uint64_t unit = l->signal > l->batch ? l->signal : l->batch, to = (l->posted + unit - 1) / unit * unit;
		if (to <= l->limit) { /* else the next signaled message is the last of all */
			l->count = l->limit = to;
			l->last = NULL;
		}
		j->left += l->count - l->retired;
	}
}

/* ends tells whether the job has been stopped, and then drains it. */
INLINE int ends(struct cl_job *j) {
	if (j->ended || likely(!stopped(j)))
		return 0;
	drain(j);
	return 1;
}

INLINE int stream(struct cl_job *j, int64_t until, const int logs) {
	uint32_t look = LOOK;
	int64_t at = mt_now();
	if (!ends(j) && at >= until) /* a device that fills the log before the first look would never come to one */
		return CL_RUNNING;
	if (!j->ended && j->sends && !j->first_post)
		j->first_post = at;
	for (uint32_t i = 0; i < j->lane_count; i++)
		if ((j->end = refill(j, &j->lanes[i], logs)))
			return j->end;
	while (j->left && !(j->ended && j->abandon)) {
		if (unlikely(--look == 0)) {
			look = LOOK;
			at = mt_now();
			if (ends(j))
				continue;
			if (at >= until)
				return CL_RUNNING;
		}
		if (logs && unlikely(j->logged > j->log_full))
			return CL_FULL;
		if (unlikely(poll_all(j, 1, logs) < 0))
			return j->end;
	}
	return CL_DONE;
}

static __attribute__((noinline)) int stream_plainly(struct cl_job *j, int64_t until) { return stream(j, until, NOTHING); }
static __attribute__((noinline)) int stream_each(struct cl_job *j, int64_t until) { return stream(j, until, EACH); }
static __attribute__((noinline)) int stream_groups(struct cl_job *j, int64_t until) { return stream(j, until, GROUPS); }

/* ---- ping-pong ---- */

INLINE int arrived(const struct cl_lane *l, uint64_t awaited, const uint32_t await) {
	if (await == CL_AWAIT_RECEIVE)
		return l->received > awaited;
	return __atomic_load_n(l->flag_in, __ATOMIC_ACQUIRE) == (uint8_t)(awaited + 1);
}

/* await_own alternates where each step ends with the own completion: READs and atomics. What it counts meanwhile lies in registers. */
INLINE int await_own(struct cl_job *j, int64_t until, const int logs, const int by_device) {
	struct cl_lane *l = j->lanes;
	struct vb_wc *w = j->polled.wc;
	struct vb_send_wr **at = l->at;
	uint64_t awaited = j->awaited, id = l->next_id;
	uint32_t steps = j->steps, spins = 1;
	const uint32_t most = j->step_batch;
	int out = l->posted != awaited, end = CL_RUNNING;
	if (!l->posted)
		j->begun = j->first_post = mt_now();
	for (;;) {
		if (!out) {
			if (logs && unlikely(j->logged > j->log_full)) {
				end = CL_FULL;
				break;
			}
			if (unlikely((end = post(j, l, at[1], 1, logs))))
				break;
			if ((at += 2) == l->end)
				at = l->heads;
			out = 1;
			if (by_device && unlikely(steps >= most)) {
				end = CL_FULL;
				break;
			}
		}
		int got = j->poll_cq(j->cqs[0], 1, w);
		int64_t t;
		if (likely(got == 1 && !(w->status | (uint32_t)(w->opcode & VB_WC_RECV)) && w->wr_id == id)) {
			t = mt_now();
			id = next_signaled(l, id);
			if (logs)
				log_event(j, l, CL_COMPLETED, 1, 0);
			if (by_device)
				j->step_stamp[steps] = j->polled.latest[0];
			j->step_end[steps++] = t;
			awaited++;
			out = 0;
			if (unlikely(awaited == l->count))
				break;
			if (unlikely(steps == CL_STEPS)) {
				end = CL_FULL;
				break;
			}
			if (likely(t < until && !stopped(j)))
				continue;
			spins = 1;
		} else if (unlikely((uint32_t)got > 1)) {
			end = bad_poll(j, got);
			break;
		} else if (got) {
			l->next_id = id;
			if (!take(j, w, 1, &(struct cl_lane *){l}, 0, logs)) {
				end = j->end;
				break;
			}
		}
		if (unlikely(--spins == 0)) {
			spins = SPIN;
			t = mt_now();
			if ((j->ended = (uint32_t)stopped(j)) || t >= until)
				break;
		}
	}
	if (awaited != j->awaited)
		j->last_done = j->step_end[steps - 1];
	l->retired += awaited - j->awaited;
	l->posted = awaited + (uint64_t)out;
	l->at = at;
	l->next_id = id;
	j->awaited = awaited;
	j->steps = steps;
	return end;
}

/* alternate posts a message and waits for what ends the step, in turns; who does not move first begins with waiting. It returns
   CL_RUNNING at until, and when there is no further step. */
INLINE int alternate(struct cl_job *j, int64_t until, const uint32_t await, const int logs) {
	struct cl_lane *l = j->lanes;
	const uint64_t lead = j->first; /* how many more messages are out than steps ended, while a step is awaited */
	uint32_t spins = 1;
	for (;;) {
		if (l->posted < j->awaited + lead) {
			if (logs && unlikely(j->logged > j->log_full))
				return CL_FULL;
			if (unlikely(l->posted - l->retired >= l->window)) {
				if (unlikely(poll_all(j, 0, logs) < 0))
					return j->end;
				goto look;
			}
			if (unlikely(!l->posted))
				j->begun = j->first_post = mt_now();
			if (await == CL_AWAIT_LAST_BYTE)
				__atomic_store_n(l->flag_out, (uint8_t)(l->posted + 1), __ATOMIC_RELEASE);
			struct vb_send_wr *wr = l->at[1];
			if (likely(--l->until_signal && l->posted + 1 != l->count))
				wr = l->at[0];
			else
				l->until_signal = l->every;
			if (unlikely((j->end = post(j, l, wr, 1, logs))))
				return j->end;
			if ((l->at += 2) == l->end)
				l->at = l->heads;
			l->posted++;
			if (!lead && unlikely(l->posted == l->count))
				return CL_RUNNING;
			if (unlikely(j->steps >= j->step_batch))
				return CL_FULL;
		}
		if (!arrived(l, j->awaited, await)) {
			/* A byte is looked at several times: nothing but memory has to move for it. */
			uint32_t looks = await == CL_AWAIT_LAST_BYTE ? SPIN : 0;
			while (looks && !arrived(l, j->awaited, await))
				looks--;
			if (!looks) {
				if (unlikely(poll_all(j, 0, logs) < 0))
					return j->end;
				if (!arrived(l, j->awaited, await))
					goto look;
			}
		}
		int64_t at = mt_now();
		if (unlikely(j->by_device))
			j->step_stamp[j->steps] = j->polled.latest[1];
		j->step_end[j->steps] = j->last_done = at;
		j->steps++;
		j->awaited++;
		if (lead && unlikely(j->awaited == l->count))
			return CL_RUNNING;
		if (likely(at < until && !stopped(j)))
			continue;
		spins = 1;
	look:
		if (unlikely(--spins == 0)) {
			spins = SPIN;
			at = mt_now();
			if ((j->ended = (uint32_t)stopped(j)) || at >= until)
				return CL_RUNNING;
		}
	}
}

static int ping_pong(struct cl_job *j, int64_t until, int logs) {
	struct cl_lane *l = j->lanes;
	if (!j->ended && (l->posted < l->count || j->awaited < l->count)) {
		int end;
		if (j->await == CL_AWAIT_COMPLETION)
			end = j->by_device ? await_own(j, until, logs, 1) : logs ? await_own(j, until, 1, 0) : await_own(j, until, 0, 0);
		else if (j->await == CL_AWAIT_RECEIVE)
			end = logs ? alternate(j, until, CL_AWAIT_RECEIVE, 1) : alternate(j, until, CL_AWAIT_RECEIVE, 0);
		else
			end = logs ? alternate(j, until, CL_AWAIT_LAST_BYTE, 1) : alternate(j, until, CL_AWAIT_LAST_BYTE, 0);
		if (end)
			return end;
		if (!j->ended && (l->posted < l->count || j->awaited < l->count))
			return CL_RUNNING;
	}
	/* What is left are the completions of signaled messages. */
	const uint64_t last = l->posted == l->count ? l->posted : l->posted - l->posted % l->signal;
	while (l->retired < last && !(j->ended && j->abandon)) {
		int got = poll_all(j, 0, logs);
		if (got < 0)
			return j->end;
		if (!got && mt_now() >= until)
			return CL_RUNNING;
	}
	return CL_DONE;
}

/* finish ends what is measured. Receives are posted again as they come from now on. */
static int finish(struct cl_job *j) {
	int end = CL_DONE;
	j->over = 1;
	for (uint32_t i = 0; i < j->lane_count && end == CL_DONE; i++) {
		j->lanes[i].receive_list = 0;
		if (j->lanes[i].due)
			end = repost(j, &j->lanes[i]) ?: CL_DONE;
	}
	return end;
}

/* serve takes what still comes to a job that is done. */
static int serve(struct cl_job *j, int64_t until) {
	const int64_t last = j->last_done;
	j->log = NULL;
	while (mt_now() < until)
		if (poll_all(j, 0, 0) < 0)
			return j->end;
	j->last_done = last;
	j->dirty = 0;
	return CL_DONE;
}

int cl_run(struct cl_job *j, int64_t until, const uint32_t *stop) {
	static const uint32_t never = 0;
	int end;
	if (j->over)
		return serve(j, until);
	j->stop = stop ? stop : &never;
	if (j->ping_pong)
		end = ping_pong(j, until, j->log != NULL);
	else
		end = !j->log ? stream_plainly(j, until) : j->grouped ? stream_groups(j, until) : stream_each(j, until);
	if (j->dirty && (!j->ping_pong || !j->last_done)) { /* a ping-pong's is the end of a step, if one has ended */
		j->last_done = mt_now();
		j->dirty = 0;
	}
	j->stop = NULL;
	return end == CL_DONE ? finish(j) : end;
}

/*
 * The measuring loops: a job (job.Job), compiled into C memory, run without coming back to Go for every message. What
 * they do is what the loop of verbs/job does; how far they have come lives in the job, so that a run resumes without a seam.
 */
#ifndef GOBW_IBV_RUNNER_H
#define GOBW_IBV_RUNNER_H

#include "abi.h"
#include "shim.h"

enum { VB_STREAM, VB_PING_PONG, VB_SERVE };
enum { VB_AWAIT_COMPLETION, VB_AWAIT_RECEIVE, VB_AWAIT_LAST_BYTE };
enum { VB_TRACE_POST, VB_TRACE_COMPLETE, VB_TRACE_RECEIVE, VB_TRACE_REPOST };

/* How vb_run ended. */
enum {
	VB_RUNNING,    /* at until */
	VB_DONE,
	VB_TRACE_FULL, /* empty the trace and call again */
	VB_BAD_COMPLETION,
	VB_STRANGE_COMPLETION, /* of a queue pair on no lane */
	VB_BAD_POST,
	VB_BAD_RECEIVE,
	VB_BAD_POLL,
	VB_BAD_EVENT,
};

enum { VB_PENDING = 1024, VB_HULL = 256 };

/* The loops for some jobs only. What they do, the general ones do as well, and TestQuickLoops tells them to. */
enum { VB_ALONE = 1, VB_STAMPED = 2, VB_QUICKLY = 4, VB_BOUNCE = 8 };

/* IDs of sends: the lane, its message's place, and from the tag on the job's generation under a bit that is always set. */
enum { VB_SLOT_SHIFT = 16, VB_TAG_SHIFT = 47 };

/* As many messages as nobody ever sends: "no limit" that can be added up. */
#define VB_ENDLESS (1ull << 48)

/* A message's list, linked; its tail's next and flags are the loop's. */
struct vb_message {
	struct vb_send_wr *head, *tail;
	uint32_t flags; /* the tail's, without SIGNALED */
};

struct vb_lane {
	struct vb_qp *qp;
	struct vb_srq *srq;
	vb_post_send_fn *post_send;
	uint64_t posted, retired, received, receives_posted;
	uint64_t count;  /* to send; VB_ENDLESS: no count; 0: sends nothing */
	uint64_t expect; /* to receive; VB_ENDLESS; 0 */
	uint32_t window, signal, batch, ud;

	/* Prepared batches: slot 2i is batch i without a completion, 2i+1 with one of its last message. */
	struct vb_send_wr **fast, **fast_end, **fast_at;
	uint64_t fast_limit; /* messages that go out as prepared batches */
	uint32_t every, until_signal; /* batches from one completion to the next */
	uint32_t listed; /* in this poll */
	uint32_t due, receive_list; /* receives to repost; how many at a time, 0: all of a poll */

	/* The general way: messages linked when posted. slots is a multiple of ring, and at least a batch. */
	struct vb_message *messages; /* for every slot */
	uint32_t ring, slots;
	uint64_t *bytes_before; /* payload of ring messages before i; ring + 1 of them */
	uint64_t bytes_each;  /* payload of every message, or VB_ENDLESS where they differ */
	int64_t *sample_at;   /* when messages were posted: sample_slots of them */
	uint32_t sample_slots, sample_in, sample_out;

	struct vb_recv_wr *receives; /* linked in a circle of receive_slots */
	uint32_t receive_slots, receive_at;

	uint8_t *flag_in, *flag_out;
} __attribute__((aligned(64)));

struct vb_trace {
	uint32_t kind, lane;
	uint64_t n;
};

/* A post: the bytes posted before it, and when it was, in ticks since the first. */
struct vb_start { double bytes, at; };

/* job.PeakSearch. */
struct vb_peak {
	int64_t origin;
	double slope, posted, completed; /* bytes, both */
	struct vb_start *flying; /* a ring of slots */
	uint32_t slots, head, count;
	uint32_t points, touch; /* of the hull */
	struct vb_start hull[VB_HULL];
};

/* Whose clock samples are of; the device's in a ping-pong alone. */
enum { VB_SAMPLES_NONE, VB_SAMPLES_HOST, VB_SAMPLES_DEVICE };

/* What job.Recorder holds besides its slices. */
struct vb_record {
	uint32_t samples; /* VB_SAMPLES_ */
	uint32_t peak;
	uint64_t clock_mask; /* of the device's clock */
	int64_t elapsed;
	uint64_t raw_cap, raw_len, n, clipped;
	int64_t min, max, shift;
	double sum, sum_sq;
	uint64_t peak_bytes;
	int64_t peak_ticks;
};

struct vb_job {
	const struct vb_verbs *verbs;
	struct vb_lane *lanes;
	struct vb_cq **cqs;
	uint32_t lane_count, cq_count;
	uint32_t shape, first, await, abandon;
	int64_t deadline; /* 0: none */
	uint32_t sends, receives; /* any lane does */
	uint32_t fast;            /* every sending lane has prepared batches */
	uint64_t tag;             /* of this job's IDs */
	uint32_t stamped;         /* a stream whose posts and completions are stamped */
	uint32_t without;         /* special loops not to be taken */
	vb_post_recv_fn *post_recv;
	vb_post_srq_recv_fn *post_srq_recv;
	vb_poll_cq_fn *poll_cq;

	uint32_t by_qpn_mask;
	struct { uint32_t qpn, lane; } *by_qpn; /* open addressing; lane ~0: empty */

	struct vb_comp_channel *channel; /* NULL: spin */
	uint32_t armed;
	uint32_t *unacknowledged; /* events, per queue */

	/* How far it has come. */
	uint64_t posted, completed, received, bytes_in;
	int64_t first_post, last_done;
	uint32_t dirty; /* completions seen since last_done */
	uint64_t step;
	int64_t step_start;
	uint64_t step_stamp;
	uint32_t sent, ended;

	struct vb_record record;
	int64_t *counts, *raw; /* Go's, lent for the call */
	const uint32_t *stop;  /* Go's, lent for the call; NULL: none */
	int64_t pending[VB_PENDING + 1]; /* samples not yet in the histogram */
	uint32_t pending_len;
	struct vb_peak peak;
	int64_t *found_at; /* when completions of a quick loop were found, until they are counted; a ring of found_slots */
	uint32_t found_slots, found_out, found;

	struct vb_trace *trace; /* NULL: none */
	uint32_t trace_len, trace_cap;

	union {
		struct vb_wc wc[VB_POLL_BATCH];
		struct vb_polled polled; /* where poll_cq is vb_poll_stamped */
	};

	/* What went wrong. */
	struct vb_wc bad;
	uint32_t bad_lane;
	int error;
};

int vb_run(struct vb_job *j, int64_t until, int64_t *counts, int64_t *raw, const uint32_t *stop);
/* vb_bytes_out is the payload of completed messages. */
uint64_t vb_bytes_out(const struct vb_job *j);
/* vb_histogram_index is job.HistogramIndex. */
int vb_histogram_index(uint64_t v);
int64_t vb_now(void);

#endif

/*
 * The two quick loops: a job (job.Job) whose lists were linked ahead of time, run without coming back to Go for every message: a
 * stream of prepared lists, and a ping-pong. A call from Go for each list would cost as much as the message.
 * What they do is what the loop of verbs/job does. How far they have come lies in the job, so that a run resumes without a seam.
 */
#ifndef GOBW_IBV_LOOP_H
#define GOBW_IBV_LOOP_H

#include "meter.h"

enum { CL_AWAIT_COMPLETION, CL_AWAIT_RECEIVE, CL_AWAIT_LAST_BYTE };

/* How a run ended. */
enum {
	CL_RUNNING, /* at until */
	CL_DONE,
	CL_FULL,    /* Go must record what was logged or stamped, and call again */
	CL_BAD_COMPLETION,
	CL_UNKNOWN_COMPLETION, /* of a queue pair on no lane, or of a request that no job posted */
	CL_UNASKED_COMPLETION, /* of another message than the next, or of a receive that is not posted */
	CL_BAD_POST,
	CL_BAD_RECEIVE,
	CL_BAD_POLL,
};

/* IDs of sends: the lane, its message's place, and from the tag on the job's generation under a bit that is always set. */
enum { CL_SLOT_SHIFT = 16, CL_TAG_SHIFT = 47 };

/* As many messages as nobody ever sends: "no limit" that can be added up. */
#define CL_ENDLESS (1ull << 47)

struct cl_lane {
	struct vb_qp *qp;
	vb_post_send_fn *post_send;
	uint64_t posted, retired, received, receives_posted;
	uint64_t count;  /* to send; CL_ENDLESS: no count; 0: sends nothing */
	uint64_t expect; /* to receive, likewise */
	uint64_t limit;  /* of count, what goes out as whole batches, each every-th signaled */
	uint32_t window, signal, batch, ud;

	/* Prepared batches: 2i is batch i without a completion, 2i+1 with one of its last message. */
	struct vb_send_wr **heads, **end, **at;
	uint32_t every, until_signal; /* batches from one completion to the next */
	uint32_t last_messages;
	struct vb_send_wr *last; /* goes out after the limit; NULL: nothing does */

	/* The ID of the next signaled message. A queue pair's sends complete in order, and two signaled messages that follow each other
	   have different IDs. */
	uint64_t next_id, id_step, id_span, id_end;

	uint32_t listed;         /* in this poll */
	uint64_t completed;      /* by this poll, and not yet logged */

	uint32_t due, receive_list; /* receives to post again; how many at a time, 0: all of a poll */
	void *receives_on;
	int (*post_recv)(void *queue, struct vb_recv_wr *, struct vb_recv_wr **);
	struct vb_recv_wr *receives; /* linked in a circle of receive_slots */
	uint32_t receive_slots, receive_at;
	uint32_t qpn, owns_receives; /* nobody else posts or takes them */

	uint8_t *flag_in, *flag_out;
} __attribute__((aligned(64)));

/* What happened, in order: n messages of a lane. The kinds are those of job.TraceKind. */
enum { CL_POSTED, CL_COMPLETED, CL_RECEIVED, CL_REPOSTED };
struct cl_event {
	int64_t at;
	uint32_t lane;
	uint32_t what; /* kind << 28 | n */
};

enum { CL_STEPS = 1024 };

struct cl_job {
	struct cl_lane *lanes;
	struct vb_cq **cqs;
	vb_poll_cq_fn *poll_cq;
	uint32_t lane_count, cq_count;
	uint32_t ping_pong, first, await, abandon;
	uint32_t sends;     /* some lane does */
	uint32_t by_device; /* steps are stamped by the device's clock, too */
	uint64_t tag;       /* of this job's IDs */
	const uint32_t *stop; /* Go's, lent for the call */

	uint32_t by_qpn_mask;
	struct cl_qpn { uint32_t qpn, lane; } *by_qpn; /* open addressing; lane ~0: empty */

	/* How far it has come. */
	uint64_t left; /* messages to complete and to receive; a stream's */
	uint64_t bytes_in;
	int64_t first_post, last_done;
	uint32_t dirty; /* completions seen since last_done */
	uint32_t ended, over; /* posts no more, and is done */

	struct cl_event *log; /* a ring; NULL: nothing is logged */
	uint32_t log_slots, log_full, log_in, logged;
	uint32_t grouped; /* what is logged: groups of messages */

	uint64_t awaited; /* steps of a ping-pong that have ended */
	int64_t begun;    /* when the next step that Go records began; 0: when the one before ended */
	uint32_t steps;   /* stamped, and not yet recorded by Go */
	uint32_t step_batch; /* after so many steps Go records them, while a message is on its way */
	int64_t step_end[CL_STEPS];
	uint64_t step_stamp[CL_STEPS];

	struct vb_polled polled;
	struct mt_meter meter; /* used where poll_cq and the lanes' post_send are its */

	/* What went wrong. */
	struct vb_wc bad;
	uint32_t bad_lane;
	int error, end; /* error: an errno; less than 0: of a poll that found more than was asked for, how many */
};

int cl_run(struct cl_job *j, int64_t until, const uint32_t *stop);

#endif

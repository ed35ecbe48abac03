/* What the loop of verbs/job asks of the device, in one call from Go: a call costs as much as a message. */
#ifndef GOBW_IBV_TURN_H
#define GOBW_IBV_TURN_H

#include "meter.h"

/* How a turn failed. */
enum { TN_BAD_POST = -1, TN_BAD_POLL = -2 };

/* A list that waits to be posted. */
struct tn_list {
	struct vb_qp *qp;
	vb_post_send_fn *post;
	struct vb_send_wr *head;
};

struct tn_turn {
	struct vb_cq **cqs;
	vb_poll_cq_fn *poll_cq;
	uint32_t cq_count, next; /* the queue that is polled first */
	struct tn_list *lists;
	uint32_t waiting; /* of the lists */
	uint32_t done;    /* of them, posted by the latest turn */
	int error;        /* errno; less than 0: of a poll that found more than was asked for, how many */
	struct vb_polled polled;
	struct mt_meter meter; /* used where poll_cq and the lists' post are its */
};

/* tn_post posts the lists that wait: 0, or TN_BAD_POST. */
int tn_post(struct tn_turn *t);
/* tn_take posts them and polls up to so many times, until a queue has something. It returns how many completions it took from that
   queue, or a failure. */
int tn_take(struct tn_turn *t, uint32_t polls);

#endif

//go:build linux && cgo

#include "turn.h"

int tn_post(struct tn_turn *t) {
	const uint32_t waiting = t->waiting;
	t->waiting = 0;
	for (t->done = 0; t->done < waiting; t->done++) {
		const struct tn_list *l = &t->lists[t->done];
		struct vb_send_wr *bad;
		if ((t->error = vb_post_send(l->post, l->qp, l->head, &bad)))
			return TN_BAD_POST;
	}
	return 0;
}

int tn_take(struct tn_turn *t, uint32_t polls) {
	if (t->waiting && tn_post(t))
		return TN_BAD_POST;
	for (; polls; polls--)
		for (uint32_t i = 0; i < t->cq_count; i++) {
			struct vb_cq *cq = t->cqs[t->next];
			if (++t->next == t->cq_count)
				t->next = 0;
			int got = t->poll_cq(cq, VB_POLL_BATCH, t->polled.wc);
			if (got > 0 && got <= VB_POLL_BATCH)
				return got;
			if (got) {
				t->error = got == -1 && errno ? errno : -got;
				return TN_BAD_POLL;
			}
		}
	return 0;
}

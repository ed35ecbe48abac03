//go:build linux && cgo

#include "meter.h"

int mt_post_send(struct vb_qp *qp, struct vb_send_wr *wr, struct vb_send_wr **bad) {
	struct mt_meter *meter = qp->qp_context;
	const int64_t begun = mt_now();
	const int rc = meter->post_send(qp, wr, bad);
	meter->posting += mt_now() - begun;
	return rc;
}

int mt_poll_cq(struct vb_cq *cq, int n, struct vb_wc *wc) {
	struct mt_meter *meter = cq->cq_context;
	const int64_t begun = mt_now();
	const int got = meter->poll_cq(cq, n, wc);
	if (got > 0)
		meter->polling += mt_now() - begun;
	return got;
}

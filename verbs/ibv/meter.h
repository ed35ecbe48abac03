/* The cycle counter, and an account of the time that a device's posts and polls take. */
#ifndef GOBW_IBV_METER_H
#define GOBW_IBV_METER_H

#include "shim.h"

/* mt_now is job.Now. */
static inline __attribute__((always_inline)) int64_t mt_now(void) {
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

/* What a job calls in place of the device's functions where time is accounted for: they call those, and add up. They find the meter
   by the context of the queue or queue pair, which nobody else uses. */
struct mt_meter {
	vb_post_send_fn *post_send;
	vb_poll_cq_fn *poll_cq;
	int64_t posting, polling; /* ticks; of polls only those that found something */
};
int mt_post_send(struct vb_qp *qp, struct vb_send_wr *wr, struct vb_send_wr **bad);
int mt_poll_cq(struct vb_cq *cq, int n, struct vb_wc *wc);

#endif

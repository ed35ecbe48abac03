/* Posting send requests, by either of libibverbs' interfaces. */
#ifndef GOBW_IBV_POST_H
#define GOBW_IBV_POST_H

#include "abi.h"

/* vb_poster returns the function that posts a list of requests like this one to a queue pair made for ibv_wr_*. It is called
   as ibv_post_send is; in a list that it refuses, no request is posted. alike: every list it will be given has this list's
   opcodes and flags, and one entry for each request. */
vb_post_send_fn *vb_poster(const struct vb_qp *qp, const struct vb_send_wr *list, int alike);

#endif

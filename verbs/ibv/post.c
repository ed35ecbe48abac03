//go:build linux && cgo

#include "shim.h"

enum { WRITE, WRITE_IMM, SEND, SEND_IMM, READ, COMPARE_SWAP, FETCH_ADD, LOCAL_INV, BIND_MW, SEND_INV, ANY };
enum { UD = 4 };           /* of qp_type */
enum { INLINE_DATA = 1 << 3 }; /* of send_flags */
enum { ONE_ENTRY, INLINE_ENTRY, ANY_DATA };

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ && sizeof(struct vb_sge) == sizeof(struct vb_data_buf), "inline entries");

/* set_any_data says where a request's data lie. A device that copies them while posting is told by calls of their own. */
static inline void set_any_data(struct vb_qp_ex *qp, const struct vb_send_wr *wr) {
	const struct vb_sge *sge = wr->sg_list;
	if (!(wr->send_flags & INLINE_DATA)) {
		if (wr->num_sge == 1)
			qp->wr_set_sge(qp, sge->lkey, sge->addr, sge->length);
		else
			qp->wr_set_sge_list(qp, (size_t)wr->num_sge, sge);
		return;
	}
	/* fillSend gives inline entries the key 0, with which an entry reads as an address and a length of 64 bits. */
	const struct vb_data_buf *pieces = (const struct vb_data_buf *)sge;
	if (wr->num_sge == 1)
		qp->wr_set_inline_data(qp, pieces->addr, pieces->length);
	else
		qp->wr_set_inline_data_list(qp, (size_t)wr->num_sge, pieces);
}

/* post_wr posts a list. The operation, the transport and the kind of data are constants where a list has one kind of requests. */
static inline __attribute__((always_inline)) int post_wr(struct vb_qp *base, struct vb_send_wr *wr, struct vb_send_wr **bad,
                                                         uint32_t op, int ud, int data) {
	struct vb_qp_ex *qp = (struct vb_qp_ex *)base;
	struct vb_send_wr *const head = wr;
	qp->wr_start(qp);
	do {
		qp->wr_id = wr->wr_id;
		qp->wr_flags = wr->send_flags;
		switch (op == ANY ? wr->opcode : op) {
		case WRITE:
			qp->wr_rdma_write(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
			break;
		case WRITE_IMM:
			qp->wr_rdma_write_imm(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, wr->imm_or_rkey);
			break;
		case SEND:
			qp->wr_send(qp);
			break;
		case SEND_IMM:
			qp->wr_send_imm(qp, wr->imm_or_rkey);
			break;
		case SEND_INV:
			qp->wr_send_inv(qp, wr->imm_or_rkey);
			break;
		case READ:
			qp->wr_rdma_read(qp, wr->wr.rdma.rkey, wr->wr.rdma.remote_addr);
			break;
		case COMPARE_SWAP:
			qp->wr_atomic_cmp_swp(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add, wr->wr.atomic.swap);
			break;
		case FETCH_ADD:
			qp->wr_atomic_fetch_add(qp, wr->wr.atomic.rkey, wr->wr.atomic.remote_addr, wr->wr.atomic.compare_add);
			break;
		case LOCAL_INV:
			qp->wr_local_inv(qp, wr->imm_or_rkey);
			continue;
		case BIND_MW:
			qp->wr_bind_mw(qp, wr->u.bind_mw.mw, wr->u.bind_mw.rkey, &wr->u.bind_mw.bind_info);
			continue;
		}
		if (ud)
			qp->wr_set_ud_addr(qp, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
		const struct vb_sge *sge = wr->sg_list;
		if (data == ONE_ENTRY)
			qp->wr_set_sge(qp, sge->lkey, sge->addr, sge->length);
		else if (data == INLINE_ENTRY)
			qp->wr_set_inline_data(qp, (void *)sge->addr, sge->length);
		else
			set_any_data(qp, wr);
	} while ((wr = wr->next));
	int rc = qp->wr_complete(qp);
	if (__builtin_expect(rc, 0))
		*bad = head; /* none of the list was posted */
	return rc;
}

#define POSTER(name, op, ud, data)                                                          \
	static int name(struct vb_qp *qp, struct vb_send_wr *wr, struct vb_send_wr **bad) { \
		return post_wr(qp, wr, bad, op, ud, data);                                  \
	}

POSTER(post_any, ANY, 0, ANY_DATA)
POSTER(post_datagrams, ANY, 1, ANY_DATA)
POSTER(post_writes, WRITE, 0, ONE_ENTRY)
POSTER(post_inline_writes, WRITE, 0, INLINE_ENTRY)
POSTER(post_reads, READ, 0, ONE_ENTRY)
POSTER(post_sends, SEND, 0, ONE_ENTRY)
POSTER(post_inline_sends, SEND, 0, INLINE_ENTRY)

vb_post_send_fn *vb_poster(const struct vb_qp *qp, const struct vb_send_wr *list, int alike) {
	if (qp->qp_type == UD)
		return post_datagrams;
	if (!alike || list->num_sge != 1)
		return post_any;
	switch (list->opcode) {
	case WRITE:
		return list->send_flags & INLINE_DATA ? post_inline_writes : post_writes;
	case SEND:
		return list->send_flags & INLINE_DATA ? post_inline_sends : post_sends;
	case READ:
		return post_reads;
	default:
		return post_any;
	}
}

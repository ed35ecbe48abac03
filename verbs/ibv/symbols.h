/*
 * The symbols of libibverbs that we call, a row each: VERB(how, type, name, version, (parameters), (arguments), without). The rows
 * make the struct of pointers, the wrapper vb_NAME of each (shim.h), and the loader's table (shim.c).
 *
 * how: PTR returns NULL with errno set, INT 0 or an errno, VALUE what the library returns; OWN has a wrapper of its own.
 * without: what is off where the library lacks the symbol; "": it is required.
 */
#define VERB(how, type, name, ...) SYMBOL("ibv_" #name, how, type, name, __VA_ARGS__)
VERB(PTR, struct vb_device **, get_device_list, "IBVERBS_1.1", (int *n), (n), "")
VERB(VALUE, void, free_device_list, "IBVERBS_1.1", (struct vb_device **list), (list), "")
VERB(VALUE, uint64_t, get_device_guid, "IBVERBS_1.1", (struct vb_device *d), (d), "") /* big-endian */
VERB(PTR, struct vb_context *, open_device, "IBVERBS_1.1", (struct vb_device *d), (d), "")
VERB(INT, int, close_device, "IBVERBS_1.1", (struct vb_context *c), (c), "")
VERB(INT, int, query_device, "IBVERBS_1.1", (struct vb_context *c, struct vb_device_attr *a), (c, a), "")
VERB(INT, int, query_port, "IBVERBS_1.1", (struct vb_context *c, uint8_t port, struct vb_port_attr *a), (c, port, a), "")
SYMBOL("_ibv_query_gid_table", OWN, ssize_t, query_gid_table, "IBVERBS_1.11", (struct vb_context *c, struct vb_gid_entry *e, size_t max, uint32_t flags, size_t size),
	, "the GID table with its types (read from sysfs instead)")
VERB(INT, int, query_pkey, "IBVERBS_1.1", (struct vb_context *c, uint8_t port, int index, uint16_t *big_endian), (c, port, index, big_endian), "")
VERB(INT, int, get_async_event, "IBVERBS_1.1", (struct vb_context *c, struct vb_async_event *e), (c, e), "")
VERB(VALUE, void, ack_async_event, "IBVERBS_1.1", (struct vb_async_event *e), (e), "")
VERB(PTR, struct vb_pd *, alloc_pd, "IBVERBS_1.1", (struct vb_context *c), (c), "")
VERB(INT, int, dealloc_pd, "IBVERBS_1.1", (struct vb_pd *pd), (pd), "")
VERB(PTR, struct vb_mr *, reg_mr, "IBVERBS_1.1", (struct vb_pd *pd, uint64_t addr, size_t length, int access), (pd, addr, length, access), "")
VERB(PTR, struct vb_mr *, reg_mr_iova2, "IBVERBS_1.8", (struct vb_pd *pd, uint64_t addr, size_t length, uint64_t iova, unsigned access), (pd, addr, length, iova, access),
     "relaxed ordering of memory regions")
VERB(PTR, struct vb_mr *, reg_dmabuf_mr, "IBVERBS_1.12", (struct vb_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access),
     (pd, offset, length, iova, fd, access), "registering dma-bufs")
VERB(INT, int, dereg_mr, "IBVERBS_1.1", (struct vb_mr *mr), (mr), "")
VERB(PTR, struct vb_comp_channel *, create_comp_channel, "IBVERBS_1.0", (struct vb_context *c), (c), "")
VERB(INT, int, destroy_comp_channel, "IBVERBS_1.0", (struct vb_comp_channel *ch), (ch), "")
VERB(INT, int, get_cq_event, "IBVERBS_1.1", (struct vb_comp_channel *ch, struct vb_cq **cq, void **context), (ch, cq, context), "")
VERB(VALUE, void, ack_cq_events, "IBVERBS_1.1", (struct vb_cq *cq, unsigned n), (cq, n), "")
VERB(OWN, struct vb_cq *, create_cq, "IBVERBS_1.1", (struct vb_context *c, int depth, void *context, struct vb_comp_channel *ch, int vector), , "")
VERB(INT, int, resize_cq, "IBVERBS_1.1", (struct vb_cq *cq, int depth), (cq, depth), "resizing completion queues")
VERB(INT, int, destroy_cq, "IBVERBS_1.1", (struct vb_cq *cq), (cq), "")
VERB(PTR, struct vb_qp *, create_qp, "IBVERBS_1.1", (struct vb_pd *pd, struct vb_qp_init_attr *a), (pd, a), "")
VERB(OWN, struct vb_qp_ex *, qp_to_qp_ex, "IBVERBS_1.6", (struct vb_qp *qp), ,
     "posting with ibv_wr_*, as stock perftest does on some devices (ibv_post_send instead)")
VERB(INT, int, modify_qp, "IBVERBS_1.1", (struct vb_qp *qp, struct vb_qp_attr *a, int mask), (qp, a, mask), "")
VERB(INT, int, query_qp, "IBVERBS_1.1", (struct vb_qp *qp, struct vb_qp_attr *a, int mask, struct vb_qp_init_attr *i), (qp, a, mask, i), "")
VERB(INT, int, destroy_qp, "IBVERBS_1.1", (struct vb_qp *qp), (qp), "")
VERB(PTR, struct vb_srq *, create_srq, "IBVERBS_1.1", (struct vb_pd *pd, struct vb_srq_init_attr *a), (pd, a), "")
VERB(INT, int, modify_srq, "IBVERBS_1.1", (struct vb_srq *srq, struct vb_srq_attr *a, int mask), (srq, a, mask), "")
VERB(INT, int, destroy_srq, "IBVERBS_1.1", (struct vb_srq *srq), (srq), "")
VERB(PTR, struct vb_ah *, create_ah, "IBVERBS_1.1", (struct vb_pd *pd, struct vb_ah_attr *a), (pd, a), "")
VERB(INT, int, destroy_ah, "IBVERBS_1.1", (struct vb_ah *ah), (ah), "")
VERB(INT, int, attach_mcast, "IBVERBS_1.1", (struct vb_qp *qp, const void *gid, uint16_t lid), (qp, gid, lid), "")
VERB(INT, int, detach_mcast, "IBVERBS_1.1", (struct vb_qp *qp, const void *gid, uint16_t lid), (qp, gid, lid), "")
#undef VERB
#undef SYMBOL

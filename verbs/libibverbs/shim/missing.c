/*
 * What the device does not have. Each call says its name, and answers EOPNOTSUPP. What only drivers call is here so that a
 * program which names a driver's library, as stock perftest names libmlx5, starts.
 */
#define _GNU_SOURCE
#include "device.h"

#include <stdbool.h>
#include <sys/mman.h>

#define MISSING(name)                                                                                                  \
	EXPORT int name(void) { return unsupported(#name); }
#define MISSING_OBJECT(name)                                                                                           \
	EXPORT void *name(void) { return no_object(unsupported(#name)); }

MISSING(_ibv_query_comp_cntr_caps) MISSING_OBJECT(ibv_alloc_dmah) MISSING(ibv_copy_ah_attr_from_kern)
MISSING(ibv_copy_path_rec_from_kern) MISSING(ibv_copy_path_rec_to_kern) MISSING(ibv_copy_qp_attr_from_kern)
MISSING_OBJECT(ibv_create_comp_cntr) MISSING(ibv_dealloc_dmah) MISSING(ibv_destroy_comp_cntr)
MISSING(ibv_dm_export_dmabuf_fd) MISSING(ibv_export_buf_dmabuf_fd) MISSING_OBJECT(ibv_import_device)
MISSING_OBJECT(ibv_import_dm) MISSING_OBJECT(ibv_import_mr) MISSING_OBJECT(ibv_import_pd)
MISSING(ibv_inc_comp_cntr) MISSING(ibv_inc_err_comp_cntr) MISSING(ibv_qp_attach_comp_cntr)
MISSING(ibv_read_comp_cntr) MISSING(ibv_read_err_comp_cntr) MISSING_OBJECT(ibv_reg_dmabuf_mr)
MISSING(ibv_set_comp_cntr) MISSING(ibv_set_err_comp_cntr) MISSING(ibv_unimport_dm) MISSING(ibv_unimport_mr)
MISSING(ibv_unimport_pd)

MISSING(__ioctl_final_num_attrs) MISSING(_verbs_init_and_alloc_context) MISSING(execute_ioctl)
MISSING(ibv_cmd_advise_mr) MISSING(ibv_cmd_alloc_dm) MISSING(ibv_cmd_alloc_dmah) MISSING(ibv_cmd_alloc_mw)
MISSING(ibv_cmd_alloc_pd) MISSING(ibv_cmd_attach_mcast) MISSING(ibv_cmd_close_xrcd) MISSING(ibv_cmd_create_ah)
MISSING(ibv_cmd_create_comp_cntr) MISSING(ibv_cmd_create_counters) MISSING(ibv_cmd_create_cq)
MISSING(ibv_cmd_create_cq_ex) MISSING(ibv_cmd_create_cq_ex2) MISSING(ibv_cmd_create_flow)
MISSING(ibv_cmd_create_flow_action_esp) MISSING(ibv_cmd_create_qp) MISSING(ibv_cmd_create_qp_ex)
MISSING(ibv_cmd_create_qp_ex2) MISSING(ibv_cmd_create_rwq_ind_table) MISSING(ibv_cmd_create_srq)
MISSING(ibv_cmd_create_srq_ex) MISSING(ibv_cmd_create_wq) MISSING(ibv_cmd_dealloc_mw)
MISSING(ibv_cmd_dealloc_pd) MISSING(ibv_cmd_dereg_mr) MISSING(ibv_cmd_destroy_ah)
MISSING(ibv_cmd_destroy_comp_cntr) MISSING(ibv_cmd_destroy_counters) MISSING(ibv_cmd_destroy_cq)
MISSING(ibv_cmd_destroy_flow) MISSING(ibv_cmd_destroy_flow_action) MISSING(ibv_cmd_destroy_qp)
MISSING(ibv_cmd_destroy_rwq_ind_table) MISSING(ibv_cmd_destroy_srq) MISSING(ibv_cmd_destroy_wq)
MISSING(ibv_cmd_detach_mcast) MISSING(ibv_cmd_export_dmabuf_fd) MISSING(ibv_cmd_free_dm)
MISSING(ibv_cmd_free_dmah) MISSING(ibv_cmd_get_context) MISSING(ibv_cmd_inc_comp_cntr)
MISSING(ibv_cmd_inc_err_comp_cntr) MISSING(ibv_cmd_modify_cq) MISSING(ibv_cmd_modify_flow_action_esp)
MISSING(ibv_cmd_modify_qp) MISSING(ibv_cmd_modify_qp_ex) MISSING(ibv_cmd_modify_srq) MISSING(ibv_cmd_modify_wq)
MISSING(ibv_cmd_open_qp) MISSING(ibv_cmd_open_xrcd) MISSING(ibv_cmd_poll_cq) MISSING(ibv_cmd_post_recv)
MISSING(ibv_cmd_post_send) MISSING(ibv_cmd_post_srq_recv) MISSING(ibv_cmd_qp_attach_comp_cntr)
MISSING(ibv_cmd_query_comp_cntr_caps) MISSING(ibv_cmd_query_context) MISSING(ibv_cmd_query_device_any)
MISSING(ibv_cmd_query_mr) MISSING(ibv_cmd_query_port) MISSING(ibv_cmd_query_port_speed)
MISSING(ibv_cmd_query_qp) MISSING(ibv_cmd_query_srq) MISSING(ibv_cmd_read_comp_cntr)
MISSING(ibv_cmd_read_counters) MISSING(ibv_cmd_read_err_comp_cntr) MISSING(ibv_cmd_reg_dm_mr)
MISSING(ibv_cmd_reg_dmabuf_mr) MISSING(ibv_cmd_reg_mr) MISSING(ibv_cmd_reg_mr_ex) MISSING(ibv_cmd_req_notify_cq)
MISSING(ibv_cmd_rereg_mr) MISSING(ibv_cmd_resize_cq) MISSING(ibv_cmd_set_comp_cntr)
MISSING(ibv_cmd_set_err_comp_cntr) MISSING(ibv_dmabuf_heap_alloc) MISSING(ibv_dmabuf_heap_cc_shared_init)
MISSING(ibv_dmabuf_heap_destroy) MISSING(ibv_dmabuf_heap_free) MISSING(verbs_init_cq) MISSING(verbs_open_device)
MISSING(verbs_set_ops) MISSING(verbs_uninit_context)

EXPORT bool verbs_allow_disassociate_destroy;
EXPORT void __verbs_log(void) {}

/* Drivers register themselves when their library is loaded: there is no hardware for them here. */
#define REGISTER(version)                                                                                              \
	EXPORT void verbs_register_driver_##version(const void *driver) { (void)driver; }
REGISTER(13) REGISTER(14) REGISTER(15) REGISTER(16) REGISTER(17) REGISTER(18) REGISTER(19) REGISTER(20)
REGISTER(21) REGISTER(22) REGISTER(23) REGISTER(24) REGISTER(25) REGISTER(26) REGISTER(27) REGISTER(28)
REGISTER(29) REGISTER(30) REGISTER(31) REGISTER(32) REGISTER(33) REGISTER(34) REGISTER(35) REGISTER(36)
REGISTER(37) REGISTER(38) REGISTER(39) REGISTER(40) REGISTER(41) REGISTER(42) REGISTER(43) REGISTER(44)
REGISTER(45) REGISTER(46) REGISTER(47) REGISTER(48) REGISTER(49) REGISTER(50) REGISTER(51) REGISTER(52)
REGISTER(53) REGISTER(54) REGISTER(55) REGISTER(56) REGISTER(57) REGISTER(58) REGISTER(59) REGISTER(60)
REGISTER(61) REGISTER(62) REGISTER(63) REGISTER(64) REGISTER(65) REGISTER(66) REGISTER(67) REGISTER(68)
REGISTER(69) REGISTER(70) REGISTER(71) REGISTER(72) REGISTER(73) REGISTER(74) REGISTER(75) REGISTER(76)
REGISTER(77) REGISTER(78) REGISTER(79) REGISTER(80)
EXPORT void ibv_register_driver(const char *name, void *driver) { (void)name, (void)driver; }

/* ---- calls that have nothing to do here ---- */

enum { FORK_UNNEEDED = 2 };

EXPORT int ibv_fork_init(void) { return 0; }
EXPORT int ibv_is_fork_initialized(void) { return FORK_UNNEEDED; }
EXPORT int ibv_dontfork_range(void *base, size_t size) { return (void)base, (void)size, 0; }
EXPORT int ibv_dofork_range(void *base, size_t size) { return (void)base, (void)size, 0; }
EXPORT int ibv_query_qp_data_in_order(struct vb_qp *q, int op, uint32_t flags) { return (void)q, (void)op, (void)flags, 0; }

/* Programs ask for these in passing, and go on without. */
EXPORT int ibv_query_ece(struct vb_qp *q, void *ece) { return (void)q, (void)ece, EOPNOTSUPP; }
EXPORT int ibv_set_ece(struct vb_qp *q, void *ece) { return (void)q, (void)ece, EOPNOTSUPP; }
EXPORT int ibv_query_port_speed(void) { return EOPNOTSUPP; }

/* The device sends IP packets: no one needs an Ethernet address. */
EXPORT int ibv_resolve_eth_l2_from_gid(struct vb_context *c, struct vb_ah_attr *attr, uint8_t mac[6], uint16_t *vid) {
	(void)c, (void)attr;
	memset(mac, 0, 6);
	if (vid)
		*vid = 0xffff;
	return 0;
}

/* ---- buffers (libibverbs 1.17) ---- */

struct buffer {
	void *addr;
	size_t size;
};

EXPORT void *ibv_alloc_buf(struct vb_pd *pd, size_t size, struct buffer **out) {
	struct buffer *b = object(sizeof *b);
	(void)pd;
	if (!b)
		return NULL;
	b->size = size;
	b->addr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->addr == MAP_FAILED) {
		free(b);
		return NULL;
	}
	*out = b;
	return b->addr;
}

EXPORT void ibv_free_buf(struct buffer *b) {
	if (b)
		munmap(b->addr, b->size);
	free(b);
}

EXPORT struct vb_mr *ibv_reg_buf_mr(struct vb_pd *pd, struct buffer *b, void *addr, size_t length, int access) {
	(void)b;
	return ibv_reg_mr(pd, addr, length, access);
}

/* ---- calls of a context that verbs.h makes inline ---- */

#define INLINE(name)                                                                                                   \
	static int no_##name(void) { return unsupported("ibv_" #name); }
#define INLINE_OBJECT(name)                                                                                            \
	static void *no_##name(void) { return no_object(unsupported("ibv_" #name)); }
INLINE(advise_mr) INLINE_OBJECT(alloc_null_mr) INLINE_OBJECT(create_counters) INLINE_OBJECT(alloc_dm)
INLINE_OBJECT(create_flow_action_esp) INLINE(modify_qp_rate_limit) INLINE(modify_cq) INLINE(post_srq_ops)
INLINE_OBJECT(create_rwq_ind_table) INLINE_OBJECT(create_wq) INLINE_OBJECT(create_flow) INLINE_OBJECT(open_qp)
INLINE_OBJECT(open_xrcd) INLINE_OBJECT(create_srq_ex) INLINE(get_srq_num)

void set_missing_calls(struct context *c) {
	c->advise_mr = no_advise_mr, c->alloc_null_mr = no_alloc_null_mr, c->create_counters = no_create_counters;
	c->alloc_dm = no_alloc_dm, c->create_flow_action_esp = no_create_flow_action_esp;
	c->modify_qp_rate_limit = no_modify_qp_rate_limit, c->modify_cq = no_modify_cq;
	c->post_srq_ops = no_post_srq_ops, c->create_rwq_ind_table = no_create_rwq_ind_table, c->create_wq = no_create_wq;
	c->verbs.flows[2] = no_create_flow, c->verbs.open_qp = no_open_qp, c->verbs.open_xrcd = no_open_xrcd;
	c->verbs.create_srq_ex = no_create_srq_ex, c->verbs.get_srq_num = no_get_srq_num;
}

/* ---- RDMA CM: librdmacm needs the kernel's rdma_cm, which knows no device of a process ---- */

static int no_connection_manager(const char *name) {
	say("%s: the software device " DEVICE_NAME " has no RDMA CM (ENODEV): exchange addresses over a socket (perftest: without "
	    "-R)",
	    name);
	return errno = ENODEV;
}

EXPORT void *rdma_create_event_channel(void) { return no_object(no_connection_manager("rdma_create_event_channel")); }
EXPORT void *rdma_get_devices(int *n) {
	if (n)
		*n = 0;
	return no_object(no_connection_manager("rdma_get_devices"));
}
EXPORT int rdma_create_id(void) { return no_connection_manager("rdma_create_id"), -1; }
EXPORT int rdma_create_ep(void) { return no_connection_manager("rdma_create_ep"), -1; }

/* The structs of shim/device.h, against the real header. Those of ibv/abi.h are asserted in verbs/ibv. */
#include <infiniband/verbs.h>

#include "../shim/device.h"

#define SAME(ours, their, field)                                                                                       \
	_Static_assert(offsetof(struct ours, field) == offsetof(struct their, field), #their "." #field)
#define CALL(ours, their)                                                                                              \
	_Static_assert(offsetof(struct context, verbs.context) - offsetof(struct context, ours) ==                     \
			       offsetof(struct verbs_context, context) - offsetof(struct verbs_context, their),        \
		       #their)

SAME(ah, ibv_ah, handle);
SAME(srq, ibv_srq, handle);
SAME(srq, ibv_srq, events_completed);
SAME(parent_domain_attr, ibv_parent_domain_init_attr, td);
SAME(parent_domain_attr, ibv_parent_domain_init_attr, comp_mask);
SAME(values_ex, ibv_values_ex, raw_clock);
_Static_assert(offsetof(struct cq, events) >= sizeof(struct ibv_cq_ex), "the readers of later versions");
_Static_assert(offsetof(struct qp, sq_sig_all) >= sizeof(struct ibv_qp_ex), "struct ibv_qp_ex");
_Static_assert(offsetof(struct ibv_device_attr_ex, phys_port_cnt_ex) == 396, "phys_port_cnt_ex");
CALL(query_port, query_port);
CALL(advise_mr, advise_mr);
CALL(alloc_null_mr, alloc_null_mr);
CALL(create_counters, create_counters);
CALL(alloc_dm, alloc_dm);
CALL(create_flow_action_esp, create_flow_action_esp);
CALL(modify_qp_rate_limit, modify_qp_rate_limit);
CALL(alloc_parent_domain, alloc_parent_domain);
CALL(dealloc_td, dealloc_td);
CALL(alloc_td, alloc_td);
CALL(modify_cq, modify_cq);
CALL(post_srq_ops, post_srq_ops);
CALL(create_rwq_ind_table, create_rwq_ind_table);
CALL(create_wq, create_wq);
CALL(query_rt_values, query_rt_values);
CALL(verbs.flows[2], ibv_create_flow);
CALL(verbs.open_qp, open_qp);
CALL(verbs.create_srq_ex, create_srq_ex);
CALL(verbs.get_srq_num, get_srq_num);
CALL(verbs.open_xrcd, open_xrcd);
CALL(verbs.query_device_ex, query_device_ex);

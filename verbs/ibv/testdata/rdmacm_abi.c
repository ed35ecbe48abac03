/*
 * Our declarations of librdmacm's interface against the real header. TestRDMACMABI compiles this where librdmacm-dev is
 * installed: a layout that differs does not compile.
 */
#include "../rdmacm.h"

#include <rdma/rdma_cma.h>

#define SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(struct theirs), "size of " #theirs)
#define FIELD(ours, f, theirs, g)                                                                            \
	_Static_assert(offsetof(struct ours, f) == offsetof(struct theirs, g), "offset of " #theirs "." #g); \
	_Static_assert(sizeof(((struct ours *)0)->f) == sizeof(((struct theirs *)0)->g), "size of " #theirs "." #g)
#define VALUE(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #theirs)

FIELD(vb_cm_channel, fd, rdma_event_channel, fd);

FIELD(vb_cm_id, verbs, rdma_cm_id, verbs);
FIELD(vb_cm_id, channel, rdma_cm_id, channel);
FIELD(vb_cm_id, context, rdma_cm_id, context);
FIELD(vb_cm_id, qp, rdma_cm_id, qp);
FIELD(vb_cm_id, route.src, rdma_cm_id, route.addr.src_storage);
FIELD(vb_cm_id, route.dst, rdma_cm_id, route.addr.dst_storage);
FIELD(vb_cm_id, route.path_rec, rdma_cm_id, route.path_rec);
FIELD(vb_cm_id, route.num_paths, rdma_cm_id, route.num_paths);
FIELD(vb_cm_id, ps, rdma_cm_id, ps);
FIELD(vb_cm_id, port_num, rdma_cm_id, port_num);

SIZE(vb_cm_conn_param, rdma_conn_param);
FIELD(vb_cm_conn_param, private_data, rdma_conn_param, private_data);
FIELD(vb_cm_conn_param, private_data_len, rdma_conn_param, private_data_len);
FIELD(vb_cm_conn_param, responder_resources, rdma_conn_param, responder_resources);
FIELD(vb_cm_conn_param, initiator_depth, rdma_conn_param, initiator_depth);
FIELD(vb_cm_conn_param, flow_control, rdma_conn_param, flow_control);
FIELD(vb_cm_conn_param, retry_count, rdma_conn_param, retry_count);
FIELD(vb_cm_conn_param, rnr_retry_count, rdma_conn_param, rnr_retry_count);
FIELD(vb_cm_conn_param, srq, rdma_conn_param, srq);
FIELD(vb_cm_conn_param, qp_num, rdma_conn_param, qp_num);

SIZE(vb_cm_ud_param, rdma_ud_param);
FIELD(vb_cm_ud_param, private_data, rdma_ud_param, private_data);
FIELD(vb_cm_ud_param, private_data_len, rdma_ud_param, private_data_len);
FIELD(vb_cm_ud_param, ah_attr, rdma_ud_param, ah_attr);
FIELD(vb_cm_ud_param, qp_num, rdma_ud_param, qp_num);
FIELD(vb_cm_ud_param, qkey, rdma_ud_param, qkey);

SIZE(vb_cm_event, rdma_cm_event);
FIELD(vb_cm_event, id, rdma_cm_event, id);
FIELD(vb_cm_event, listen_id, rdma_cm_event, listen_id);
FIELD(vb_cm_event, event, rdma_cm_event, event);
FIELD(vb_cm_event, status, rdma_cm_event, status);
FIELD(vb_cm_event, param.conn, rdma_cm_event, param.conn);
FIELD(vb_cm_event, param.ud, rdma_cm_event, param.ud);

VALUE(VB_CM_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_RESOLVED);
VALUE(VB_CM_ADDR_ERROR, RDMA_CM_EVENT_ADDR_ERROR);
VALUE(VB_CM_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_RESOLVED);
VALUE(VB_CM_ROUTE_ERROR, RDMA_CM_EVENT_ROUTE_ERROR);
VALUE(VB_CM_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_REQUEST);
VALUE(VB_CM_CONNECT_RESPONSE, RDMA_CM_EVENT_CONNECT_RESPONSE);
VALUE(VB_CM_CONNECT_ERROR, RDMA_CM_EVENT_CONNECT_ERROR);
VALUE(VB_CM_UNREACHABLE, RDMA_CM_EVENT_UNREACHABLE);
VALUE(VB_CM_REJECTED, RDMA_CM_EVENT_REJECTED);
VALUE(VB_CM_ESTABLISHED, RDMA_CM_EVENT_ESTABLISHED);
VALUE(VB_CM_DISCONNECTED, RDMA_CM_EVENT_DISCONNECTED);
VALUE(VB_CM_DEVICE_REMOVAL, RDMA_CM_EVENT_DEVICE_REMOVAL);
VALUE(VB_CM_PS_TCP, RDMA_PS_TCP);
VALUE(VB_CM_PS_UDP, RDMA_PS_UDP);
VALUE(0, RDMA_OPTION_ID);
VALUE(0, RDMA_OPTION_ID_TOS);

/*
 * Our declarations of libibverbs' interface against the real header. TestABI compiles this where libibverbs-dev is
 * installed: a layout that differs does not compile.
 */
#include "../shim.h"

#include <infiniband/verbs.h>

#define SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(struct theirs), "size of " #theirs)
#define FIELD(ours, f, theirs, g)                                                                            \
	_Static_assert(offsetof(struct ours, f) == offsetof(struct theirs, g), "offset of " #theirs "." #g); \
	_Static_assert(sizeof(((struct ours *)0)->f) == sizeof(((struct theirs *)0)->g), "size of " #theirs "." #g)

SIZE(vb_sge, ibv_sge);
FIELD(vb_sge, addr, ibv_sge, addr);
FIELD(vb_sge, length, ibv_sge, length);
FIELD(vb_sge, lkey, ibv_sge, lkey);

SIZE(vb_device, ibv_device);
FIELD(vb_device, ops, ibv_device, _ops);
FIELD(vb_device, node_type, ibv_device, node_type);
FIELD(vb_device, transport_type, ibv_device, transport_type);
FIELD(vb_device, name, ibv_device, name);
FIELD(vb_device, dev_name, ibv_device, dev_name);
FIELD(vb_device, dev_path, ibv_device, dev_path);
FIELD(vb_device, ibdev_path, ibv_device, ibdev_path);

SIZE(vb_device_attr, ibv_device_attr);
FIELD(vb_device_attr, fw_ver, ibv_device_attr, fw_ver);
FIELD(vb_device_attr, node_guid, ibv_device_attr, node_guid);
FIELD(vb_device_attr, sys_image_guid, ibv_device_attr, sys_image_guid);
FIELD(vb_device_attr, max_mr_size, ibv_device_attr, max_mr_size);
FIELD(vb_device_attr, page_size_cap, ibv_device_attr, page_size_cap);
FIELD(vb_device_attr, vendor_id, ibv_device_attr, vendor_id);
FIELD(vb_device_attr, vendor_part_id, ibv_device_attr, vendor_part_id);
FIELD(vb_device_attr, hw_ver, ibv_device_attr, hw_ver);
FIELD(vb_device_attr, max_qp, ibv_device_attr, max_qp);
FIELD(vb_device_attr, max_qp_wr, ibv_device_attr, max_qp_wr);
FIELD(vb_device_attr, device_cap_flags, ibv_device_attr, device_cap_flags);
FIELD(vb_device_attr, max_sge, ibv_device_attr, max_sge);
FIELD(vb_device_attr, max_sge_rd, ibv_device_attr, max_sge_rd);
FIELD(vb_device_attr, max_cq, ibv_device_attr, max_cq);
FIELD(vb_device_attr, max_cqe, ibv_device_attr, max_cqe);
FIELD(vb_device_attr, max_mr, ibv_device_attr, max_mr);
FIELD(vb_device_attr, max_pd, ibv_device_attr, max_pd);
FIELD(vb_device_attr, max_qp_rd_atom, ibv_device_attr, max_qp_rd_atom);
FIELD(vb_device_attr, max_ee_rd_atom, ibv_device_attr, max_ee_rd_atom);
FIELD(vb_device_attr, max_res_rd_atom, ibv_device_attr, max_res_rd_atom);
FIELD(vb_device_attr, max_qp_init_rd_atom, ibv_device_attr, max_qp_init_rd_atom);
FIELD(vb_device_attr, max_ee_init_rd_atom, ibv_device_attr, max_ee_init_rd_atom);
FIELD(vb_device_attr, atomic_cap, ibv_device_attr, atomic_cap);
FIELD(vb_device_attr, max_ee, ibv_device_attr, max_ee);
FIELD(vb_device_attr, max_rdd, ibv_device_attr, max_rdd);
FIELD(vb_device_attr, max_mw, ibv_device_attr, max_mw);
FIELD(vb_device_attr, max_raw_ipv6_qp, ibv_device_attr, max_raw_ipv6_qp);
FIELD(vb_device_attr, max_raw_ethy_qp, ibv_device_attr, max_raw_ethy_qp);
FIELD(vb_device_attr, max_mcast_grp, ibv_device_attr, max_mcast_grp);
FIELD(vb_device_attr, max_mcast_qp_attach, ibv_device_attr, max_mcast_qp_attach);
FIELD(vb_device_attr, max_total_mcast_qp_attach, ibv_device_attr, max_total_mcast_qp_attach);
FIELD(vb_device_attr, max_ah, ibv_device_attr, max_ah);
FIELD(vb_device_attr, max_fmr, ibv_device_attr, max_fmr);
FIELD(vb_device_attr, max_map_per_fmr, ibv_device_attr, max_map_per_fmr);
FIELD(vb_device_attr, max_srq, ibv_device_attr, max_srq);
FIELD(vb_device_attr, max_srq_wr, ibv_device_attr, max_srq_wr);
FIELD(vb_device_attr, max_srq_sge, ibv_device_attr, max_srq_sge);
FIELD(vb_device_attr, max_pkeys, ibv_device_attr, max_pkeys);
FIELD(vb_device_attr, local_ca_ack_delay, ibv_device_attr, local_ca_ack_delay);
FIELD(vb_device_attr, phys_port_cnt, ibv_device_attr, phys_port_cnt);

FIELD(vb_port_attr, state, ibv_port_attr, state);
FIELD(vb_port_attr, max_mtu, ibv_port_attr, max_mtu);
FIELD(vb_port_attr, active_mtu, ibv_port_attr, active_mtu);
FIELD(vb_port_attr, gid_tbl_len, ibv_port_attr, gid_tbl_len);
FIELD(vb_port_attr, port_cap_flags, ibv_port_attr, port_cap_flags);
FIELD(vb_port_attr, max_msg_sz, ibv_port_attr, max_msg_sz);
FIELD(vb_port_attr, bad_pkey_cntr, ibv_port_attr, bad_pkey_cntr);
FIELD(vb_port_attr, qkey_viol_cntr, ibv_port_attr, qkey_viol_cntr);
FIELD(vb_port_attr, pkey_tbl_len, ibv_port_attr, pkey_tbl_len);
FIELD(vb_port_attr, lid, ibv_port_attr, lid);
FIELD(vb_port_attr, sm_lid, ibv_port_attr, sm_lid);
FIELD(vb_port_attr, lmc, ibv_port_attr, lmc);
FIELD(vb_port_attr, max_vl_num, ibv_port_attr, max_vl_num);
FIELD(vb_port_attr, sm_sl, ibv_port_attr, sm_sl);
FIELD(vb_port_attr, subnet_timeout, ibv_port_attr, subnet_timeout);
FIELD(vb_port_attr, init_type_reply, ibv_port_attr, init_type_reply);
FIELD(vb_port_attr, active_width, ibv_port_attr, active_width);
FIELD(vb_port_attr, active_speed, ibv_port_attr, active_speed);
FIELD(vb_port_attr, phys_state, ibv_port_attr, phys_state);
FIELD(vb_port_attr, link_layer, ibv_port_attr, link_layer);
FIELD(vb_port_attr, flags, ibv_port_attr, flags);

SIZE(vb_gid_entry, ibv_gid_entry);
FIELD(vb_gid_entry, gid, ibv_gid_entry, gid);
FIELD(vb_gid_entry, gid_index, ibv_gid_entry, gid_index);
FIELD(vb_gid_entry, port_num, ibv_gid_entry, port_num);
FIELD(vb_gid_entry, gid_type, ibv_gid_entry, gid_type);
FIELD(vb_gid_entry, ndev_ifindex, ibv_gid_entry, ndev_ifindex);

SIZE(vb_pd, ibv_pd);
FIELD(vb_pd, context, ibv_pd, context);
FIELD(vb_pd, handle, ibv_pd, handle);

SIZE(vb_mr, ibv_mr);
FIELD(vb_mr, context, ibv_mr, context);
FIELD(vb_mr, pd, ibv_mr, pd);
FIELD(vb_mr, addr, ibv_mr, addr);
FIELD(vb_mr, length, ibv_mr, length);
FIELD(vb_mr, handle, ibv_mr, handle);
FIELD(vb_mr, lkey, ibv_mr, lkey);
FIELD(vb_mr, rkey, ibv_mr, rkey);

SIZE(vb_mw, ibv_mw);
FIELD(vb_mw, context, ibv_mw, context);
FIELD(vb_mw, pd, ibv_mw, pd);
FIELD(vb_mw, rkey, ibv_mw, rkey);
FIELD(vb_mw, handle, ibv_mw, handle);
FIELD(vb_mw, type, ibv_mw, type);

SIZE(vb_mw_bind_info, ibv_mw_bind_info);
FIELD(vb_mw_bind_info, mr, ibv_mw_bind_info, mr);
FIELD(vb_mw_bind_info, addr, ibv_mw_bind_info, addr);
FIELD(vb_mw_bind_info, length, ibv_mw_bind_info, length);
FIELD(vb_mw_bind_info, mw_access_flags, ibv_mw_bind_info, mw_access_flags);

SIZE(vb_ah_attr, ibv_ah_attr);
FIELD(vb_ah_attr, grh, ibv_ah_attr, grh);
FIELD(vb_ah_attr, dlid, ibv_ah_attr, dlid);
FIELD(vb_ah_attr, sl, ibv_ah_attr, sl);
FIELD(vb_ah_attr, src_path_bits, ibv_ah_attr, src_path_bits);
FIELD(vb_ah_attr, static_rate, ibv_ah_attr, static_rate);
FIELD(vb_ah_attr, is_global, ibv_ah_attr, is_global);
FIELD(vb_ah_attr, port_num, ibv_ah_attr, port_num);

SIZE(vb_comp_channel, ibv_comp_channel);
FIELD(vb_comp_channel, context, ibv_comp_channel, context);
FIELD(vb_comp_channel, fd, ibv_comp_channel, fd);
FIELD(vb_comp_channel, refcnt, ibv_comp_channel, refcnt);

FIELD(vb_cq, context, ibv_cq, context);
FIELD(vb_cq, channel, ibv_cq, channel);
FIELD(vb_cq, cq_context, ibv_cq, cq_context);
FIELD(vb_cq, handle, ibv_cq, handle);
FIELD(vb_cq, cqe, ibv_cq, cqe);

SIZE(vb_srq_attr, ibv_srq_attr);
FIELD(vb_srq_attr, max_wr, ibv_srq_attr, max_wr);
FIELD(vb_srq_attr, max_sge, ibv_srq_attr, max_sge);
FIELD(vb_srq_attr, srq_limit, ibv_srq_attr, srq_limit);

SIZE(vb_srq_init_attr, ibv_srq_init_attr);
FIELD(vb_srq_init_attr, srq_context, ibv_srq_init_attr, srq_context);
FIELD(vb_srq_init_attr, attr, ibv_srq_init_attr, attr);

SIZE(vb_qp_cap, ibv_qp_cap);
FIELD(vb_qp_cap, max_send_wr, ibv_qp_cap, max_send_wr);
FIELD(vb_qp_cap, max_recv_wr, ibv_qp_cap, max_recv_wr);
FIELD(vb_qp_cap, max_send_sge, ibv_qp_cap, max_send_sge);
FIELD(vb_qp_cap, max_recv_sge, ibv_qp_cap, max_recv_sge);
FIELD(vb_qp_cap, max_inline_data, ibv_qp_cap, max_inline_data);

SIZE(vb_qp_init_attr, ibv_qp_init_attr);
FIELD(vb_qp_init_attr, qp_context, ibv_qp_init_attr, qp_context);
FIELD(vb_qp_init_attr, send_cq, ibv_qp_init_attr, send_cq);
FIELD(vb_qp_init_attr, recv_cq, ibv_qp_init_attr, recv_cq);
FIELD(vb_qp_init_attr, srq, ibv_qp_init_attr, srq);
FIELD(vb_qp_init_attr, cap, ibv_qp_init_attr, cap);
FIELD(vb_qp_init_attr, qp_type, ibv_qp_init_attr, qp_type);
FIELD(vb_qp_init_attr, sq_sig_all, ibv_qp_init_attr, sq_sig_all);

FIELD(vb_qp, context, ibv_qp, context);
FIELD(vb_qp, qp_context, ibv_qp, qp_context);
FIELD(vb_qp, pd, ibv_qp, pd);
FIELD(vb_qp, send_cq, ibv_qp, send_cq);
FIELD(vb_qp, recv_cq, ibv_qp, recv_cq);
FIELD(vb_qp, srq, ibv_qp, srq);
FIELD(vb_qp, handle, ibv_qp, handle);
FIELD(vb_qp, qp_num, ibv_qp, qp_num);
FIELD(vb_qp, state, ibv_qp, state);
FIELD(vb_qp, qp_type, ibv_qp, qp_type);

SIZE(vb_qp_attr, ibv_qp_attr);
FIELD(vb_qp_attr, qp_state, ibv_qp_attr, qp_state);
FIELD(vb_qp_attr, cur_qp_state, ibv_qp_attr, cur_qp_state);
FIELD(vb_qp_attr, path_mtu, ibv_qp_attr, path_mtu);
FIELD(vb_qp_attr, path_mig_state, ibv_qp_attr, path_mig_state);
FIELD(vb_qp_attr, qkey, ibv_qp_attr, qkey);
FIELD(vb_qp_attr, rq_psn, ibv_qp_attr, rq_psn);
FIELD(vb_qp_attr, sq_psn, ibv_qp_attr, sq_psn);
FIELD(vb_qp_attr, dest_qp_num, ibv_qp_attr, dest_qp_num);
FIELD(vb_qp_attr, qp_access_flags, ibv_qp_attr, qp_access_flags);
FIELD(vb_qp_attr, cap, ibv_qp_attr, cap);
FIELD(vb_qp_attr, ah_attr, ibv_qp_attr, ah_attr);
FIELD(vb_qp_attr, alt_ah_attr, ibv_qp_attr, alt_ah_attr);
FIELD(vb_qp_attr, pkey_index, ibv_qp_attr, pkey_index);
FIELD(vb_qp_attr, alt_pkey_index, ibv_qp_attr, alt_pkey_index);
FIELD(vb_qp_attr, en_sqd_async_notify, ibv_qp_attr, en_sqd_async_notify);
FIELD(vb_qp_attr, sq_draining, ibv_qp_attr, sq_draining);
FIELD(vb_qp_attr, max_rd_atomic, ibv_qp_attr, max_rd_atomic);
FIELD(vb_qp_attr, max_dest_rd_atomic, ibv_qp_attr, max_dest_rd_atomic);
FIELD(vb_qp_attr, min_rnr_timer, ibv_qp_attr, min_rnr_timer);
FIELD(vb_qp_attr, port_num, ibv_qp_attr, port_num);
FIELD(vb_qp_attr, timeout, ibv_qp_attr, timeout);
FIELD(vb_qp_attr, retry_cnt, ibv_qp_attr, retry_cnt);
FIELD(vb_qp_attr, rnr_retry, ibv_qp_attr, rnr_retry);
FIELD(vb_qp_attr, alt_port_num, ibv_qp_attr, alt_port_num);
FIELD(vb_qp_attr, alt_timeout, ibv_qp_attr, alt_timeout);
FIELD(vb_qp_attr, rate_limit, ibv_qp_attr, rate_limit);

SIZE(vb_send_wr, ibv_send_wr);
FIELD(vb_send_wr, wr_id, ibv_send_wr, wr_id);
FIELD(vb_send_wr, next, ibv_send_wr, next);
FIELD(vb_send_wr, sg_list, ibv_send_wr, sg_list);
FIELD(vb_send_wr, num_sge, ibv_send_wr, num_sge);
FIELD(vb_send_wr, opcode, ibv_send_wr, opcode);
FIELD(vb_send_wr, send_flags, ibv_send_wr, send_flags);
FIELD(vb_send_wr, imm_or_rkey, ibv_send_wr, imm_data);
FIELD(vb_send_wr, wr, ibv_send_wr, wr);
FIELD(vb_send_wr, xrc_remote_srqn, ibv_send_wr, qp_type.xrc.remote_srqn);

SIZE(vb_recv_wr, ibv_recv_wr);
FIELD(vb_recv_wr, wr_id, ibv_recv_wr, wr_id);
FIELD(vb_recv_wr, next, ibv_recv_wr, next);
FIELD(vb_recv_wr, sg_list, ibv_recv_wr, sg_list);
FIELD(vb_recv_wr, num_sge, ibv_recv_wr, num_sge);

SIZE(vb_wc, ibv_wc);
FIELD(vb_wc, wr_id, ibv_wc, wr_id);
FIELD(vb_wc, status, ibv_wc, status);
FIELD(vb_wc, opcode, ibv_wc, opcode);
FIELD(vb_wc, vendor_err, ibv_wc, vendor_err);
FIELD(vb_wc, byte_len, ibv_wc, byte_len);
FIELD(vb_wc, imm_or_rkey, ibv_wc, imm_data);
FIELD(vb_wc, qp_num, ibv_wc, qp_num);
FIELD(vb_wc, src_qp, ibv_wc, src_qp);
FIELD(vb_wc, wc_flags, ibv_wc, wc_flags);
FIELD(vb_wc, pkey_index, ibv_wc, pkey_index);
FIELD(vb_wc, slid, ibv_wc, slid);
FIELD(vb_wc, sl, ibv_wc, sl);
FIELD(vb_wc, dlid_path_bits, ibv_wc, dlid_path_bits);

SIZE(vb_async_event, ibv_async_event);
FIELD(vb_async_event, element, ibv_async_event, element);
FIELD(vb_async_event, event_type, ibv_async_event, event_type);

SIZE(vb_context, ibv_context);
FIELD(vb_context, device, ibv_context, device);
_Static_assert(sizeof(((struct vb_context *)0)->ops) == sizeof(struct ibv_context_ops), "size of ops");
FIELD(vb_context, cmd_fd, ibv_context, cmd_fd);
FIELD(vb_context, async_fd, ibv_context, async_fd);
FIELD(vb_context, num_comp_vectors, ibv_context, num_comp_vectors);
FIELD(vb_context, mutex, ibv_context, mutex);
FIELD(vb_context, abi_compat, ibv_context, abi_compat);

/* What ibv_query_port@IBVERBS_1.1 writes ends before port_cap_flags2. */
_Static_assert(sizeof(struct vb_port_attr) == 48, "size of the port attributes");
_Static_assert(offsetof(struct ibv_port_attr, port_cap_flags2) <= 48, "end of the port attributes");

FIELD(vb_context, ops.alloc_mw, ibv_context, ops.alloc_mw);
FIELD(vb_context, ops.dealloc_mw, ibv_context, ops.dealloc_mw);
FIELD(vb_context, ops.poll_cq, ibv_context, ops.poll_cq);
FIELD(vb_context, ops.req_notify_cq, ibv_context, ops.req_notify_cq);
FIELD(vb_context, ops.post_srq_recv, ibv_context, ops.post_srq_recv);
FIELD(vb_context, ops.post_send, ibv_context, ops.post_send);
FIELD(vb_context, ops.post_recv, ibv_context, ops.post_recv);
FIELD(vb_send_wr, wr.rdma.remote_addr, ibv_send_wr, wr.rdma.remote_addr);
FIELD(vb_send_wr, wr.rdma.rkey, ibv_send_wr, wr.rdma.rkey);
FIELD(vb_send_wr, wr.atomic.remote_addr, ibv_send_wr, wr.atomic.remote_addr);
FIELD(vb_send_wr, wr.atomic.compare_add, ibv_send_wr, wr.atomic.compare_add);
FIELD(vb_send_wr, wr.atomic.swap, ibv_send_wr, wr.atomic.swap);
FIELD(vb_send_wr, wr.atomic.rkey, ibv_send_wr, wr.atomic.rkey);
FIELD(vb_send_wr, wr.ud.ah, ibv_send_wr, wr.ud.ah);
FIELD(vb_send_wr, wr.ud.remote_qpn, ibv_send_wr, wr.ud.remote_qpn);
FIELD(vb_send_wr, wr.ud.remote_qkey, ibv_send_wr, wr.ud.remote_qkey);
FIELD(vb_send_wr, u.bind_mw.mw, ibv_send_wr, bind_mw.mw);
FIELD(vb_send_wr, u.bind_mw.rkey, ibv_send_wr, bind_mw.rkey);
FIELD(vb_send_wr, u.bind_mw.bind_info, ibv_send_wr, bind_mw.bind_info);
FIELD(vb_send_wr, u.bind_mw.bind_info.mr, ibv_send_wr, bind_mw.bind_info.mr);
FIELD(vb_send_wr, u.bind_mw.bind_info.addr, ibv_send_wr, bind_mw.bind_info.addr);
FIELD(vb_send_wr, u.bind_mw.bind_info.length, ibv_send_wr, bind_mw.bind_info.length);
FIELD(vb_send_wr, u.bind_mw.bind_info.mw_access_flags, ibv_send_wr, bind_mw.bind_info.mw_access_flags);
FIELD(vb_ah_attr, grh.dgid, ibv_ah_attr, grh.dgid);
FIELD(vb_ah_attr, grh.flow_label, ibv_ah_attr, grh.flow_label);
FIELD(vb_ah_attr, grh.sgid_index, ibv_ah_attr, grh.sgid_index);
FIELD(vb_ah_attr, grh.hop_limit, ibv_ah_attr, grh.hop_limit);
FIELD(vb_ah_attr, grh.traffic_class, ibv_ah_attr, grh.traffic_class);
FIELD(vb_async_event, element.cq, ibv_async_event, element.cq);
FIELD(vb_async_event, element.qp, ibv_async_event, element.qp);
FIELD(vb_async_event, element.srq, ibv_async_event, element.srq);
FIELD(vb_async_event, element.port_num, ibv_async_event, element.port_num);

/* The extended interface. */
SIZE(vb_qp, ibv_qp);
SIZE(vb_cq, ibv_cq);
SIZE(vb_qp_init_attr_ex, ibv_qp_init_attr_ex);
FIELD(vb_qp_init_attr_ex, qp_context, ibv_qp_init_attr_ex, qp_context);
FIELD(vb_qp_init_attr_ex, send_cq, ibv_qp_init_attr_ex, send_cq);
FIELD(vb_qp_init_attr_ex, recv_cq, ibv_qp_init_attr_ex, recv_cq);
FIELD(vb_qp_init_attr_ex, srq, ibv_qp_init_attr_ex, srq);
FIELD(vb_qp_init_attr_ex, cap, ibv_qp_init_attr_ex, cap);
FIELD(vb_qp_init_attr_ex, qp_type, ibv_qp_init_attr_ex, qp_type);
FIELD(vb_qp_init_attr_ex, sq_sig_all, ibv_qp_init_attr_ex, sq_sig_all);
FIELD(vb_qp_init_attr_ex, comp_mask, ibv_qp_init_attr_ex, comp_mask);
FIELD(vb_qp_init_attr_ex, pd, ibv_qp_init_attr_ex, pd);
FIELD(vb_qp_init_attr_ex, create_flags, ibv_qp_init_attr_ex, create_flags);
FIELD(vb_qp_init_attr_ex, max_tso_header, ibv_qp_init_attr_ex, max_tso_header);
FIELD(vb_qp_init_attr_ex, source_qpn, ibv_qp_init_attr_ex, source_qpn);
FIELD(vb_qp_init_attr_ex, send_ops_flags, ibv_qp_init_attr_ex, send_ops_flags);
SIZE(vb_data_buf, ibv_data_buf);
FIELD(vb_data_buf, addr, ibv_data_buf, addr);
FIELD(vb_data_buf, length, ibv_data_buf, length);
FIELD(vb_qp_ex, base, ibv_qp_ex, qp_base);
FIELD(vb_qp_ex, comp_mask, ibv_qp_ex, comp_mask);
FIELD(vb_qp_ex, wr_id, ibv_qp_ex, wr_id);
FIELD(vb_qp_ex, wr_flags, ibv_qp_ex, wr_flags);
FIELD(vb_qp_ex, wr_atomic_cmp_swp, ibv_qp_ex, wr_atomic_cmp_swp);
FIELD(vb_qp_ex, wr_atomic_fetch_add, ibv_qp_ex, wr_atomic_fetch_add);
FIELD(vb_qp_ex, wr_bind_mw, ibv_qp_ex, wr_bind_mw);
FIELD(vb_qp_ex, wr_local_inv, ibv_qp_ex, wr_local_inv);
FIELD(vb_qp_ex, wr_rdma_read, ibv_qp_ex, wr_rdma_read);
FIELD(vb_qp_ex, wr_rdma_write, ibv_qp_ex, wr_rdma_write);
FIELD(vb_qp_ex, wr_rdma_write_imm, ibv_qp_ex, wr_rdma_write_imm);
FIELD(vb_qp_ex, wr_send, ibv_qp_ex, wr_send);
FIELD(vb_qp_ex, wr_send_imm, ibv_qp_ex, wr_send_imm);
FIELD(vb_qp_ex, wr_send_inv, ibv_qp_ex, wr_send_inv);
FIELD(vb_qp_ex, wr_set_ud_addr, ibv_qp_ex, wr_set_ud_addr);
FIELD(vb_qp_ex, wr_set_inline_data, ibv_qp_ex, wr_set_inline_data);
FIELD(vb_qp_ex, wr_set_inline_data_list, ibv_qp_ex, wr_set_inline_data_list);
FIELD(vb_qp_ex, wr_set_sge, ibv_qp_ex, wr_set_sge);
FIELD(vb_qp_ex, wr_set_sge_list, ibv_qp_ex, wr_set_sge_list);
FIELD(vb_qp_ex, wr_start, ibv_qp_ex, wr_start);
FIELD(vb_qp_ex, wr_complete, ibv_qp_ex, wr_complete);
FIELD(vb_qp_ex, wr_abort, ibv_qp_ex, wr_abort);
SIZE(vb_cq_init_attr_ex, ibv_cq_init_attr_ex);
FIELD(vb_cq_init_attr_ex, cqe, ibv_cq_init_attr_ex, cqe);
FIELD(vb_cq_init_attr_ex, cq_context, ibv_cq_init_attr_ex, cq_context);
FIELD(vb_cq_init_attr_ex, channel, ibv_cq_init_attr_ex, channel);
FIELD(vb_cq_init_attr_ex, comp_vector, ibv_cq_init_attr_ex, comp_vector);
FIELD(vb_cq_init_attr_ex, wc_flags, ibv_cq_init_attr_ex, wc_flags);
FIELD(vb_cq_init_attr_ex, comp_mask, ibv_cq_init_attr_ex, comp_mask);
FIELD(vb_cq_init_attr_ex, flags, ibv_cq_init_attr_ex, flags);
FIELD(vb_cq_init_attr_ex, parent_domain, ibv_cq_init_attr_ex, parent_domain);
SIZE(vb_poll_cq_attr, ibv_poll_cq_attr);
FIELD(vb_cq_ex, comp_mask, ibv_cq_ex, comp_mask);
FIELD(vb_cq_ex, status, ibv_cq_ex, status);
FIELD(vb_cq_ex, wr_id, ibv_cq_ex, wr_id);
FIELD(vb_cq_ex, start_poll, ibv_cq_ex, start_poll);
FIELD(vb_cq_ex, next_poll, ibv_cq_ex, next_poll);
FIELD(vb_cq_ex, end_poll, ibv_cq_ex, end_poll);
FIELD(vb_cq_ex, read_opcode, ibv_cq_ex, read_opcode);
FIELD(vb_cq_ex, read_vendor_err, ibv_cq_ex, read_vendor_err);
FIELD(vb_cq_ex, read_byte_len, ibv_cq_ex, read_byte_len);
FIELD(vb_cq_ex, read_imm_data, ibv_cq_ex, read_imm_data);
FIELD(vb_cq_ex, read_qp_num, ibv_cq_ex, read_qp_num);
FIELD(vb_cq_ex, read_src_qp, ibv_cq_ex, read_src_qp);
FIELD(vb_cq_ex, read_wc_flags, ibv_cq_ex, read_wc_flags);
FIELD(vb_cq_ex, read_slid, ibv_cq_ex, read_slid);
FIELD(vb_cq_ex, read_sl, ibv_cq_ex, read_sl);
FIELD(vb_cq_ex, read_dlid_path_bits, ibv_cq_ex, read_dlid_path_bits);
FIELD(vb_cq_ex, read_completion_ts, ibv_cq_ex, read_completion_ts);
FIELD(vb_device_attr_ex, comp_mask, ibv_device_attr_ex, comp_mask);
FIELD(vb_device_attr_ex, odp_caps, ibv_device_attr_ex, odp_caps);
FIELD(vb_device_attr_ex, completion_timestamp_mask, ibv_device_attr_ex, completion_timestamp_mask);
FIELD(vb_device_attr_ex, hca_core_clock, ibv_device_attr_ex, hca_core_clock);
_Static_assert(offsetof(struct ibv_device_attr_ex, orig_attr) == 0, "the front of ibv_device_attr_ex");
#define BEFORE(f)                                                                                                      \
	_Static_assert(offsetof(struct vb_verbs_context, context) - offsetof(struct vb_verbs_context, f) ==            \
		offsetof(struct verbs_context, context) - offsetof(struct verbs_context, f), "place of " #f)
BEFORE(sz);
BEFORE(create_qp_ex);
BEFORE(query_device_ex);
BEFORE(create_cq_ex);
_Static_assert((void *)-1 == __VERBS_ABI_IS_EXTENDED, "the mark of an extended context");
_Static_assert(VB_QP_INIT_PD == IBV_QP_INIT_ATTR_PD && VB_QP_INIT_SEND_OPS == IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, "ibv_qp_init_attr_mask");
_Static_assert(VB_WC_EX_STANDARD == IBV_WC_STANDARD_FLAGS && VB_WC_EX_TIMESTAMP == IBV_WC_EX_WITH_COMPLETION_TIMESTAMP &&
	VB_WC_EX_BYTE_LEN == IBV_WC_EX_WITH_BYTE_LEN && VB_WC_EX_IMM == IBV_WC_EX_WITH_IMM && VB_WC_EX_QP_NUM == IBV_WC_EX_WITH_QP_NUM &&
	VB_WC_EX_SRC_QP == IBV_WC_EX_WITH_SRC_QP, "wc_flags");
_Static_assert(VB_WC_RECV == IBV_WC_RECV && VB_WC_WITH_IMM == IBV_WC_WITH_IMM && VB_WC_WITH_INV == IBV_WC_WITH_INV, "of a completion");
/* The bit of an operation is its opcode. */
_Static_assert(IBV_QP_EX_WITH_RDMA_WRITE == 1 << IBV_WR_RDMA_WRITE && IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM == 1 << IBV_WR_RDMA_WRITE_WITH_IMM &&
	IBV_QP_EX_WITH_SEND == 1 << IBV_WR_SEND && IBV_QP_EX_WITH_SEND_WITH_IMM == 1 << IBV_WR_SEND_WITH_IMM &&
	IBV_QP_EX_WITH_RDMA_READ == 1 << IBV_WR_RDMA_READ && IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP == 1 << IBV_WR_ATOMIC_CMP_AND_SWP &&
	IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD == 1 << IBV_WR_ATOMIC_FETCH_AND_ADD && IBV_QP_EX_WITH_LOCAL_INV == 1 << IBV_WR_LOCAL_INV &&
	IBV_QP_EX_WITH_BIND_MW == 1 << IBV_WR_BIND_MW && IBV_QP_EX_WITH_SEND_WITH_INV == 1 << IBV_WR_SEND_WITH_INV, "send_ops_flags");

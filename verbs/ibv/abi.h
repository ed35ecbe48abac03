/*
 * The part of libibverbs' binary interface that this package uses, in our own words, so that building needs no RDMA
 * package. Facts from rdma-core's verbs.h; testdata/abi_test.c asserts every one of them against the real header.
 * Handles that libibverbs allocates are declared as far as we read them.
 */
#ifndef GOBW_IBV_ABI_H
#define GOBW_IBV_ABI_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "package ibv is written for little-endian machines");

struct vb_context;
struct vb_ah;
struct vb_srq;

struct vb_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

struct vb_device {
	void *ops[2];
	int32_t node_type;
	int32_t transport_type;
	char name[64];
	char dev_name[64];
	char dev_path[256];
	char ibdev_path[256];
};

struct vb_device_attr {
	char fw_ver[64];
	uint64_t node_guid;      /* big-endian */
	uint64_t sys_image_guid; /* big-endian */
	uint64_t max_mr_size;
	uint64_t page_size_cap;
	uint32_t vendor_id;
	uint32_t vendor_part_id;
	uint32_t hw_ver;
	int32_t max_qp;
	int32_t max_qp_wr;
	uint32_t device_cap_flags;
	int32_t max_sge;
	int32_t max_sge_rd;
	int32_t max_cq;
	int32_t max_cqe;
	int32_t max_mr;
	int32_t max_pd;
	int32_t max_qp_rd_atom;
	int32_t max_ee_rd_atom;
	int32_t max_res_rd_atom;
	int32_t max_qp_init_rd_atom;
	int32_t max_ee_init_rd_atom;
	int32_t atomic_cap;
	int32_t max_ee;
	int32_t max_rdd;
	int32_t max_mw;
	int32_t max_raw_ipv6_qp;
	int32_t max_raw_ethy_qp;
	int32_t max_mcast_grp;
	int32_t max_mcast_qp_attach;
	int32_t max_total_mcast_qp_attach;
	int32_t max_ah;
	int32_t max_fmr;
	int32_t max_map_per_fmr;
	int32_t max_srq;
	int32_t max_srq_wr;
	int32_t max_srq_sge;
	uint16_t max_pkeys;
	uint8_t local_ca_ack_delay;
	uint8_t phys_port_cnt;
};

/* What ibv_query_port@IBVERBS_1.1 writes: 48 bytes, link_layer included. */
struct vb_port_attr {
	int32_t state;
	int32_t max_mtu;
	int32_t active_mtu;
	int32_t gid_tbl_len;
	uint32_t port_cap_flags;
	uint32_t max_msg_sz;
	uint32_t bad_pkey_cntr;
	uint32_t qkey_viol_cntr;
	uint16_t pkey_tbl_len;
	uint16_t lid;
	uint16_t sm_lid;
	uint8_t lmc;
	uint8_t max_vl_num;
	uint8_t sm_sl;
	uint8_t subnet_timeout;
	uint8_t init_type_reply;
	uint8_t active_width;
	uint8_t active_speed;
	uint8_t phys_state;
	uint8_t link_layer;
	uint8_t flags;
};

struct vb_gid_entry {
	uint8_t gid[16];
	uint32_t gid_index;
	uint32_t port_num;
	uint32_t gid_type;
	uint32_t ndev_ifindex;
};

struct vb_pd {
	struct vb_context *context;
	uint32_t handle;
};

struct vb_mr {
	struct vb_context *context;
	struct vb_pd *pd;
	void *addr;
	size_t length;
	uint32_t handle;
	uint32_t lkey;
	uint32_t rkey;
};

struct vb_mw {
	struct vb_context *context;
	struct vb_pd *pd;
	uint32_t rkey;
	uint32_t handle;
	int32_t type;
};

struct vb_mw_bind_info {
	struct vb_mr *mr;
	uint64_t addr;
	uint64_t length;
	uint32_t mw_access_flags;
};

struct vb_ah_attr {
	struct {
		uint8_t dgid[16] __attribute__((aligned(8)));
		uint32_t flow_label;
		uint8_t sgid_index;
		uint8_t hop_limit;
		uint8_t traffic_class;
	} grh;
	uint16_t dlid;
	uint8_t sl;
	uint8_t src_path_bits;
	uint8_t static_rate;
	uint8_t is_global;
	uint8_t port_num;
};

struct vb_comp_channel {
	struct vb_context *context;
	int fd;
	int refcnt;
};

struct vb_cq {
	struct vb_context *context;
	struct vb_comp_channel *channel;
	void *cq_context;
	uint32_t handle;
	int cqe;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t comp_events_completed;
	uint32_t async_events_completed;
};

struct vb_srq_attr {
	uint32_t max_wr;
	uint32_t max_sge;
	uint32_t srq_limit;
};

struct vb_srq_init_attr {
	void *srq_context;
	struct vb_srq_attr attr;
};

struct vb_qp_cap {
	uint32_t max_send_wr;
	uint32_t max_recv_wr;
	uint32_t max_send_sge;
	uint32_t max_recv_sge;
	uint32_t max_inline_data;
};

struct vb_qp_init_attr {
	void *qp_context;
	struct vb_cq *send_cq;
	struct vb_cq *recv_cq;
	struct vb_srq *srq;
	struct vb_qp_cap cap;
	int32_t qp_type;
	int32_t sq_sig_all;
};

struct vb_qp {
	struct vb_context *context;
	void *qp_context;
	struct vb_pd *pd;
	struct vb_cq *send_cq;
	struct vb_cq *recv_cq;
	struct vb_srq *srq;
	uint32_t handle;
	uint32_t qp_num;
	int32_t state;
	int32_t qp_type;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
};

struct vb_qp_attr {
	int32_t qp_state;
	int32_t cur_qp_state;
	int32_t path_mtu;
	int32_t path_mig_state;
	uint32_t qkey;
	uint32_t rq_psn;
	uint32_t sq_psn;
	uint32_t dest_qp_num;
	uint32_t qp_access_flags;
	struct vb_qp_cap cap;
	struct vb_ah_attr ah_attr;
	struct vb_ah_attr alt_ah_attr;
	uint16_t pkey_index;
	uint16_t alt_pkey_index;
	uint8_t en_sqd_async_notify;
	uint8_t sq_draining;
	uint8_t max_rd_atomic;
	uint8_t max_dest_rd_atomic;
	uint8_t min_rnr_timer;
	uint8_t port_num;
	uint8_t timeout;
	uint8_t retry_cnt;
	uint8_t rnr_retry;
	uint8_t alt_port_num;
	uint8_t alt_timeout;
	uint32_t rate_limit;
};

struct vb_send_wr {
	uint64_t wr_id;
	struct vb_send_wr *next;
	struct vb_sge *sg_list;
	int32_t num_sge;
	uint32_t opcode;
	uint32_t send_flags;
	uint32_t imm_or_rkey; /* immediate: big-endian; invalidate: rkey */
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct vb_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
	uint32_t xrc_remote_srqn;
	union {
		struct {
			struct vb_mw *mw;
			uint32_t rkey;
			struct vb_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz;
			uint16_t mss;
		} tso;
	} u;
};

struct vb_recv_wr {
	uint64_t wr_id;
	struct vb_recv_wr *next;
	struct vb_sge *sg_list;
	int32_t num_sge;
};

enum { VB_WC_RECV = 1 << 7 }; /* of an opcode */
enum { VB_WC_WITH_IMM = 1 << 1, VB_WC_WITH_INV = 1 << 3 }; /* of wc_flags */

struct vb_wc {
	uint64_t wr_id;
	uint32_t status;
	uint32_t opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm_or_rkey;
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t wc_flags;
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl;
	uint8_t dlid_path_bits;
};

struct vb_async_event {
	union {
		struct vb_cq *cq;
		struct vb_qp *qp;
		struct vb_srq *srq;
		void *wq;
		int port_num;
	} element;
	int32_t event_type;
};

/* ---- the extended interface: queue pairs with ibv_wr_*, completion queues with ibv_start_poll ---- */

struct vb_qp_init_attr_ex {
	void *qp_context;
	struct vb_cq *send_cq;
	struct vb_cq *recv_cq;
	struct vb_srq *srq;
	struct vb_qp_cap cap;
	int32_t qp_type;
	int32_t sq_sig_all;
	uint32_t comp_mask;
	struct vb_pd *pd;
	void *xrcd;
	uint32_t create_flags;
	uint16_t max_tso_header;
	void *rwq_ind_tbl;
	struct {
		uint8_t function, key_len;
		uint8_t *key;
		uint64_t fields_mask;
	} rx_hash_conf;
	uint32_t source_qpn;
	uint64_t send_ops_flags; /* bit n: opcode n of struct vb_send_wr */
};

enum { VB_QP_INIT_PD = 1 << 0, VB_QP_INIT_SEND_OPS = 1 << 6 };

struct vb_data_buf {
	void *addr;
	size_t length;
};

struct vb_qp_ex {
	struct vb_qp base;
	uint64_t comp_mask;
	uint64_t wr_id;
	unsigned wr_flags;
	void (*wr_atomic_cmp_swp)(struct vb_qp_ex *, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap);
	void (*wr_atomic_fetch_add)(struct vb_qp_ex *, uint32_t rkey, uint64_t addr, uint64_t add);
	void (*wr_bind_mw)(struct vb_qp_ex *, struct vb_mw *, uint32_t rkey, const struct vb_mw_bind_info *);
	void (*wr_local_inv)(struct vb_qp_ex *, uint32_t rkey);
	void (*wr_rdma_read)(struct vb_qp_ex *, uint32_t rkey, uint64_t addr);
	void (*wr_rdma_write)(struct vb_qp_ex *, uint32_t rkey, uint64_t addr);
	void (*wr_rdma_write_imm)(struct vb_qp_ex *, uint32_t rkey, uint64_t addr, uint32_t imm);
	void (*wr_send)(struct vb_qp_ex *);
	void (*wr_send_imm)(struct vb_qp_ex *, uint32_t imm);
	void (*wr_send_inv)(struct vb_qp_ex *, uint32_t rkey);
	void *wr_send_tso;
	void (*wr_set_ud_addr)(struct vb_qp_ex *, struct vb_ah *, uint32_t qpn, uint32_t qkey);
	void *wr_set_xrc_srqn;
	void (*wr_set_inline_data)(struct vb_qp_ex *, void *addr, size_t length);
	void (*wr_set_inline_data_list)(struct vb_qp_ex *, size_t n, const struct vb_data_buf *);
	void (*wr_set_sge)(struct vb_qp_ex *, uint32_t lkey, uint64_t addr, uint32_t length);
	void (*wr_set_sge_list)(struct vb_qp_ex *, size_t n, const struct vb_sge *);
	void (*wr_start)(struct vb_qp_ex *);
	int (*wr_complete)(struct vb_qp_ex *);
	void (*wr_abort)(struct vb_qp_ex *);
};

struct vb_cq_init_attr_ex {
	uint32_t cqe;
	void *cq_context;
	struct vb_comp_channel *channel;
	uint32_t comp_vector;
	uint64_t wc_flags;
	uint32_t comp_mask;
	uint32_t flags;
	struct vb_pd *parent_domain;
};

enum {
	VB_WC_EX_BYTE_LEN = 1 << 0,
	VB_WC_EX_IMM = 1 << 1,
	VB_WC_EX_QP_NUM = 1 << 2,
	VB_WC_EX_SRC_QP = 1 << 3,
	VB_WC_EX_STANDARD = 0x7f, /* all that struct vb_wc has */
	VB_WC_EX_TIMESTAMP = 1 << 7,
};

struct vb_poll_cq_attr {
	uint32_t comp_mask;
};

struct vb_cq_ex {
	struct vb_cq base;
	uint32_t comp_mask;
	uint32_t status;
	uint64_t wr_id;
	int (*start_poll)(struct vb_cq_ex *, struct vb_poll_cq_attr *);
	int (*next_poll)(struct vb_cq_ex *);
	void (*end_poll)(struct vb_cq_ex *);
	uint32_t (*read_opcode)(struct vb_cq_ex *);
	uint32_t (*read_vendor_err)(struct vb_cq_ex *);
	uint32_t (*read_byte_len)(struct vb_cq_ex *);
	uint32_t (*read_imm_data)(struct vb_cq_ex *);
	uint32_t (*read_qp_num)(struct vb_cq_ex *);
	uint32_t (*read_src_qp)(struct vb_cq_ex *);
	unsigned (*read_wc_flags)(struct vb_cq_ex *);
	uint32_t (*read_slid)(struct vb_cq_ex *);
	uint8_t (*read_sl)(struct vb_cq_ex *);
	uint8_t (*read_dlid_path_bits)(struct vb_cq_ex *);
	uint64_t (*read_completion_ts)(struct vb_cq_ex *);
};

/* The front of struct ibv_device_attr_ex: a device writes as much as it is asked for. */
struct vb_device_attr_ex {
	struct vb_device_attr orig;
	uint32_t comp_mask;
	struct {
		uint64_t general_caps;
		uint32_t rc, uc, ud;
	} odp_caps;
	uint64_t completion_timestamp_mask;
	uint64_t hca_core_clock; /* kHz */
};

typedef int vb_post_send_fn(struct vb_qp *, struct vb_send_wr *, struct vb_send_wr **);
typedef int vb_post_recv_fn(struct vb_qp *, struct vb_recv_wr *, struct vb_recv_wr **);
typedef int vb_post_srq_recv_fn(struct vb_srq *, struct vb_recv_wr *, struct vb_recv_wr **);
typedef int vb_poll_cq_fn(struct vb_cq *, int, struct vb_wc *);
typedef int vb_req_notify_cq_fn(struct vb_cq *, int);

/* The calls that verbs.h makes inline: entries of the context, not symbols. A NULL entry means "not supported". */
struct vb_context {
	struct vb_device *device;
	struct {
		void *compat0[7];
		struct vb_mw *(*alloc_mw)(struct vb_pd *, int);
		void *bind_mw;
		int (*dealloc_mw)(struct vb_mw *);
		void *compat_create_cq;
		vb_poll_cq_fn *poll_cq;
		vb_req_notify_cq_fn *req_notify_cq;
		void *compat1[7];
		vb_post_srq_recv_fn *post_srq_recv;
		void *compat2[4];
		vb_post_send_fn *post_send;
		vb_post_recv_fn *post_recv;
		void *compat3[5];
	} ops;
	int cmd_fd;
	int async_fd;
	int num_comp_vectors;
	pthread_mutex_t mutex;
	void *abi_compat;
};

/* What lies before an extended context, as far back as we call. An entry is there if sz reaches that far and it is not NULL. */
struct vb_verbs_context {
	struct vb_cq_ex *(*create_cq_ex)(struct vb_context *, struct vb_cq_init_attr_ex *);
	void *priv;
	int (*query_device_ex)(struct vb_context *, const void *input, struct vb_device_attr_ex *, size_t size);
	void *flows[4];
	void *open_qp;
	struct vb_qp *(*create_qp_ex)(struct vb_context *, struct vb_qp_init_attr_ex *);
	void *get_srq_num, *create_srq_ex, *open_xrcd, *close_xrcd;
	uint64_t placeholder;
	size_t sz;
	struct vb_context context;
};

#endif

/*
 * librdmacm: the part of its binary interface that this package uses, in our own words (testdata/rdmacm_abi.c asserts it
 * against the real header), and one wrapper per call.
 */
#ifndef GOBW_IBV_RDMACM_H
#define GOBW_IBV_RDMACM_H

#include <sys/socket.h>

#include "shim.h"

enum vb_cm_event_type {
	VB_CM_ADDR_RESOLVED,
	VB_CM_ADDR_ERROR,
	VB_CM_ROUTE_RESOLVED,
	VB_CM_ROUTE_ERROR,
	VB_CM_CONNECT_REQUEST,
	VB_CM_CONNECT_RESPONSE,
	VB_CM_CONNECT_ERROR,
	VB_CM_UNREACHABLE,
	VB_CM_REJECTED,
	VB_CM_ESTABLISHED,
	VB_CM_DISCONNECTED,
	VB_CM_DEVICE_REMOVAL,
};

enum { VB_CM_PS_TCP = 0x0106, VB_CM_PS_UDP = 0x0111 }; /* port spaces: RC, UD */

struct vb_cm_channel {
	int fd;
};

struct vb_cm_id {
	struct vb_context *verbs;
	struct vb_cm_channel *channel;
	void *context;
	struct vb_qp *qp;
	struct {
		struct sockaddr_storage src;
		struct sockaddr_storage dst;
		uint64_t gids_and_pkey[5];
		void *path_rec;
		int num_paths;
	} route;
	int32_t ps;
	uint8_t port_num;
};

struct vb_cm_conn_param {
	const void *private_data;
	uint8_t private_data_len;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t flow_control;
	uint8_t retry_count;
	uint8_t rnr_retry_count;
	uint8_t srq;
	uint32_t qp_num;
};

struct vb_cm_ud_param {
	const void *private_data;
	uint8_t private_data_len;
	struct vb_ah_attr ah_attr;
	uint32_t qp_num;
	uint32_t qkey;
};

struct vb_cm_event {
	struct vb_cm_id *id;
	struct vb_cm_id *listen_id;
	int32_t event;
	int32_t status;
	union {
		struct vb_cm_conn_param conn;
		struct vb_cm_ud_param ud;
	} param;
};

struct vb_cm {
#define SYMBOL POINTER
#include "rdmacm_symbols.h"
};
#define SYMBOL(symbol, how, type, name, version, parameters, arguments, without) WRAPPER(vb_cm, vb_cm_, symbol, how, type, name, parameters, arguments)
#include "rdmacm_symbols.h"
extern const struct vb_table vb_cm_table;

struct vb_cm_channel *vb_cm_create_event_channel(const struct vb_cm *c);
/* vb_cm_next_event copies the next event, without its private data, and acknowledges it; EAGAIN: there is none. */
int vb_cm_next_event(const struct vb_cm *c, struct vb_cm_channel *ch, struct vb_cm_event *e);
/* vb_cm_ud is the part of an event that tells of a datagram peer. */
static inline struct vb_cm_ud_param *vb_cm_ud(struct vb_cm_event *e) { return &e->param.ud; }
static inline struct vb_cm_conn_param *vb_cm_conn(struct vb_cm_event *e) { return &e->param.conn; }

#endif

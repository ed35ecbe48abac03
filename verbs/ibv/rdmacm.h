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

/* The symbols of librdmacm that we call. */
struct vb_cm {
	struct vb_cm_channel *(*create_event_channel)(void);
	void (*destroy_event_channel)(struct vb_cm_channel *);
	int (*create_id)(struct vb_cm_channel *, struct vb_cm_id **, void *, int);
	int (*destroy_id)(struct vb_cm_id *);
	int (*migrate_id)(struct vb_cm_id *, struct vb_cm_channel *);
	int (*bind_addr)(struct vb_cm_id *, struct sockaddr *);
	int (*resolve_addr)(struct vb_cm_id *, struct sockaddr *, struct sockaddr *, int);
	int (*resolve_route)(struct vb_cm_id *, int);
	int (*set_option)(struct vb_cm_id *, int, int, void *, size_t);
	int (*init_qp_attr)(struct vb_cm_id *, void *, int *);
	int (*connect)(struct vb_cm_id *, struct vb_cm_conn_param *);
	int (*establish)(struct vb_cm_id *);
	int (*listen)(struct vb_cm_id *, int);
	int (*accept)(struct vb_cm_id *, struct vb_cm_conn_param *);
	int (*reject)(struct vb_cm_id *, const void *, uint8_t);
	int (*disconnect)(struct vb_cm_id *);
	int (*get_cm_event)(struct vb_cm_channel *, struct vb_cm_event **);
	int (*ack_cm_event)(struct vb_cm_event *);
};

/* A loaded librdmacm. It is never unloaded. */
struct vb_cm_library {
	struct vb_cm cm;
	struct vb_loaded loaded;
};

int vb_cm_symbol_count(void);
const struct vb_symbol *vb_cm_symbol_at(int i);
int vb_cm_load(struct vb_cm_library *lib, const char *name); /* as vb_load */

/* An address without a family stands for "none". */
static inline struct sockaddr *vb_cm_address(const struct sockaddr_storage *s) { return s->ss_family ? (struct sockaddr *)s : NULL; }

/* Integers are 0 or an errno; pointers are NULL with errno set. */
struct vb_cm_channel *vb_cm_create_channel(const struct vb_cm *c);
static inline void vb_cm_destroy_channel(const struct vb_cm *c, struct vb_cm_channel *ch) { c->destroy_event_channel(ch); }
static inline int vb_cm_create_id(const struct vb_cm *c, struct vb_cm_channel *ch, int port_space, struct vb_cm_id **id) {
	return CALL(c->create_id(ch, id, NULL, port_space));
}
static inline int vb_cm_destroy_id(const struct vb_cm *c, struct vb_cm_id *id) { return CALL(c->destroy_id(id)); }
static inline int vb_cm_migrate_id(const struct vb_cm *c, struct vb_cm_id *id, struct vb_cm_channel *ch) {
	return CALL(c->migrate_id(id, ch));
}
static inline int vb_cm_bind(const struct vb_cm *c, struct vb_cm_id *id, const struct sockaddr_storage *at) {
	return CALL(c->bind_addr(id, vb_cm_address(at)));
}
static inline int vb_cm_resolve_addr(const struct vb_cm *c, struct vb_cm_id *id, const struct sockaddr_storage *src, const struct sockaddr_storage *dst, int ms) {
	return CALL(c->resolve_addr(id, vb_cm_address(src), vb_cm_address(dst), ms));
}
static inline int vb_cm_resolve_route(const struct vb_cm *c, struct vb_cm_id *id, int ms) { return CALL(c->resolve_route(id, ms)); }
int vb_cm_set_tos(const struct vb_cm *c, struct vb_cm_id *id, uint8_t tos);
int vb_cm_init_qp_attr(const struct vb_cm *c, struct vb_cm_id *id, int state, struct vb_qp_attr *a);
static inline int vb_cm_connect(const struct vb_cm *c, struct vb_cm_id *id, struct vb_cm_conn_param *p) { return CALL(c->connect(id, p)); }
static inline int vb_cm_establish(const struct vb_cm *c, struct vb_cm_id *id) { return CALL(c->establish(id)); }
static inline int vb_cm_listen(const struct vb_cm *c, struct vb_cm_id *id, int backlog) { return CALL(c->listen(id, backlog)); }
static inline int vb_cm_accept(const struct vb_cm *c, struct vb_cm_id *id, struct vb_cm_conn_param *p) { return CALL(c->accept(id, p)); }
static inline int vb_cm_reject(const struct vb_cm *c, struct vb_cm_id *id) { return CALL(c->reject(id, NULL, 0)); }
static inline int vb_cm_disconnect(const struct vb_cm *c, struct vb_cm_id *id) { return CALL(c->disconnect(id)); }
/* vb_cm_next_event copies the next event, without its private data, and acknowledges it; EAGAIN: there is none. */
int vb_cm_next_event(const struct vb_cm *c, struct vb_cm_channel *ch, struct vb_cm_event *e);
/* vb_cm_ud is the part of an event that tells of a datagram peer. */
static inline struct vb_cm_ud_param *vb_cm_ud(struct vb_cm_event *e) { return &e->param.ud; }
static inline struct vb_cm_conn_param *vb_cm_conn(struct vb_cm_event *e) { return &e->param.conn; }

#endif

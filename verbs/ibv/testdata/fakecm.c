/*
 * A librdmacm without a kernel, for the tests of bad luck: the last number of the peer's address says what happens.
 *   1 connects   2 no device leads there   3 nobody answers ARP   4 nobody listens   5 the program rejects
 *   6 no answer  7 silence                 8 another device       9 the peer disconnects at once
 *  10 no route  11 connects, and its peer allows one READ
 * A listener gets a request at once, and one more that comes in on another device before it when its port is 2.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../rdmacm.h"

struct channel {
	struct vb_cm_channel c;
	int in;
};

static struct vb_device devices[2] = {{.name = "rxe0"}, {.name = "mlx5_9"}};
static struct vb_context contexts[2] = {{.device = &devices[0]}, {.device = &devices[1]}};

static int number(const struct vb_cm_id *id) {
	return ntohl(((const struct sockaddr_in *)&id->route.dst)->sin_addr.s_addr) & 0xff;
}

static void happen(struct vb_cm_id *id, struct vb_cm_id *listen, int event, int status) {
	struct vb_cm_event *e = calloc(1, sizeof *e);
	e->id = id;
	e->listen_id = listen;
	e->event = event;
	e->status = status;
	e->param.conn.responder_resources = e->param.conn.initiator_depth = number(id) == 11 ? 1 : 16;
	if (id->ps == VB_CM_PS_UDP) {
		e->param.ud.qp_num = 0x77;
		e->param.ud.qkey = 0x01234567;
		e->param.ud.ah_attr.dlid = 3;
		e->param.ud.ah_attr.port_num = 1;
	}
	if (write(((struct channel *)id->channel)->in, &e, sizeof e) != sizeof e)
		abort();
}

static struct vb_cm_id *new_id(struct vb_cm_channel *ch, int ps) {
	struct vb_cm_id *id = calloc(1, sizeof *id);
	id->channel = ch;
	id->ps = ps;
	id->port_num = 1;
	return id;
}

struct vb_cm_channel *rdma_create_event_channel(void) {
	int ends[2];
	if (pipe(ends))
		return NULL;
	struct channel *ch = calloc(1, sizeof *ch);
	ch->c.fd = ends[0];
	ch->in = ends[1];
	return &ch->c;
}

void rdma_destroy_event_channel(struct vb_cm_channel *c) {
	close(c->fd);
	close(((struct channel *)c)->in);
	free(c);
}

int rdma_create_id(struct vb_cm_channel *ch, struct vb_cm_id **id, void *context, int ps) {
	*id = new_id(ch, ps);
	(*id)->context = context;
	return 0;
}

int rdma_destroy_id(struct vb_cm_id *id) {
	free(id);
	return 0;
}

int rdma_migrate_id(struct vb_cm_id *id, struct vb_cm_channel *ch) {
	id->channel = ch;
	return 0;
}

int rdma_bind_addr(struct vb_cm_id *id, struct sockaddr *a) {
	const struct sockaddr_in *in = (const struct sockaddr_in *)a;
	if (ntohs(in->sin_port) == 1) {
		errno = EADDRINUSE;
		return -1;
	}
	memcpy(&id->route.src, in, sizeof *in);
	return 0;
}

int rdma_resolve_addr(struct vb_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int ms) {
	(void)src, (void)ms;
	memcpy(&id->route.dst, dst, sizeof(struct sockaddr_in));
	memcpy(&id->route.src, dst, sizeof(struct sockaddr_in));
	int n = number(id);
	if (n == 10) {
		errno = ENETUNREACH;
		return -1;
	}
	id->verbs = &contexts[n == 8];
	if (n == 2 || n == 3)
		happen(id, NULL, VB_CM_ADDR_ERROR, n == 2 ? -ENODEV : -ETIMEDOUT);
	else
		happen(id, NULL, VB_CM_ADDR_RESOLVED, 0);
	return 0;
}

int rdma_resolve_route(struct vb_cm_id *id, int ms) {
	(void)ms;
	happen(id, NULL, VB_CM_ROUTE_RESOLVED, 0);
	return 0;
}

int rdma_set_option(struct vb_cm_id *id, int level, int option, void *value, size_t length) {
	(void)id;
	if (level || option || length != 1 || *(uint8_t *)value != 96) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

int rdma_init_qp_attr(struct vb_cm_id *id, struct vb_qp_attr *a, int *mask) {
	(void)id;
	a->port_num = 1;
	a->qkey = 0x01234567;
	a->path_mtu = 3;
	a->dest_qp_num = 0x77;
	a->rq_psn = 5;
	a->sq_psn = 9;
	a->timeout = 18;
	a->retry_cnt = 6;
	a->rnr_retry = 7;
	a->min_rnr_timer = 0;
	a->ah_attr.is_global = 1;
	a->ah_attr.grh.sgid_index = 2;
	a->ah_attr.port_num = 1;
	*mask = -1;
	return 0;
}

int rdma_connect(struct vb_cm_id *id, struct vb_cm_conn_param *p) {
	(void)p;
	switch (number(id)) {
	case 4:
		if (id->ps == VB_CM_PS_UDP)
			happen(id, NULL, VB_CM_UNREACHABLE, 1);
		else
			happen(id, NULL, VB_CM_REJECTED, 8);
		break;
	case 5:
		happen(id, NULL, VB_CM_REJECTED, 28);
		break;
	case 6:
		happen(id, NULL, VB_CM_UNREACHABLE, -ETIMEDOUT);
		break;
	case 7:
		break;
	default:
		happen(id, NULL, id->ps == VB_CM_PS_UDP ? VB_CM_ESTABLISHED : VB_CM_CONNECT_RESPONSE, 0);
	}
	return 0;
}

#ifndef OLD
int rdma_establish(struct vb_cm_id *id) {
	if (number(id) == 9)
		happen(id, NULL, VB_CM_DISCONNECTED, 0);
	return 0;
}
#endif

static void request(struct vb_cm_id *listen, int device) {
	struct vb_cm_id *id = new_id(listen->channel, listen->ps);
	struct sockaddr_in *peer = (struct sockaddr_in *)&id->route.dst;
	peer->sin_family = AF_INET;
	peer->sin_port = htons(40000);
	peer->sin_addr.s_addr = htonl(0x0a00000b);
	id->verbs = &contexts[device];
	happen(id, listen, VB_CM_CONNECT_REQUEST, 0);
}

int rdma_listen(struct vb_cm_id *id, int backlog) {
	(void)backlog;
	if (ntohs(((struct sockaddr_in *)&id->route.src)->sin_port) == 2)
		request(id, 1);
	request(id, 0);
	return 0;
}

int rdma_accept(struct vb_cm_id *id, struct vb_cm_conn_param *p) {
	(void)p;
	if (id->ps == VB_CM_PS_TCP)
		happen(id, NULL, VB_CM_ESTABLISHED, 0);
	return 0;
}

int rdma_reject(struct vb_cm_id *id, const void *data, uint8_t length) {
	(void)id, (void)data, (void)length;
	return 0;
}

int rdma_disconnect(struct vb_cm_id *id) {
	happen(id, NULL, VB_CM_DISCONNECTED, 0);
	return 0;
}

int rdma_get_cm_event(struct vb_cm_channel *ch, struct vb_cm_event **e) {
	return read(ch->fd, e, sizeof *e) == sizeof *e ? 0 : -1;
}

int rdma_ack_cm_event(struct vb_cm_event *e) {
	free(e);
	return 0;
}

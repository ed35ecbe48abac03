//go:build linux && cgo

#define _GNU_SOURCE
#include "rdmacm.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>

#define ROW(name, version, field) {name, version, 1, offsetof(struct vb_cm, field), ""}

static const struct vb_symbol symbols[] = {
	ROW("rdma_create_event_channel", "RDMACM_1.0", create_event_channel),
	ROW("rdma_destroy_event_channel", "RDMACM_1.0", destroy_event_channel),
	ROW("rdma_create_id", "RDMACM_1.0", create_id),
	ROW("rdma_destroy_id", "RDMACM_1.0", destroy_id),
	ROW("rdma_migrate_id", "RDMACM_1.0", migrate_id),
	ROW("rdma_bind_addr", "RDMACM_1.0", bind_addr),
	ROW("rdma_resolve_addr", "RDMACM_1.0", resolve_addr),
	ROW("rdma_resolve_route", "RDMACM_1.0", resolve_route),
	ROW("rdma_set_option", "RDMACM_1.0", set_option),
	ROW("rdma_init_qp_attr", "RDMACM_1.2", init_qp_attr),
	ROW("rdma_connect", "RDMACM_1.0", connect),
	ROW("rdma_establish", "RDMACM_1.2", establish),
	ROW("rdma_listen", "RDMACM_1.0", listen),
	ROW("rdma_accept", "RDMACM_1.0", accept),
	ROW("rdma_reject", "RDMACM_1.0", reject),
	ROW("rdma_disconnect", "RDMACM_1.0", disconnect),
	ROW("rdma_get_cm_event", "RDMACM_1.0", get_cm_event),
	ROW("rdma_ack_cm_event", "RDMACM_1.0", ack_cm_event),
};

enum { SYMBOLS = sizeof symbols / sizeof symbols[0] };

int vb_cm_symbol_count(void) { return SYMBOLS; }

const struct vb_symbol *vb_cm_symbol_at(int i) { return &symbols[i]; }

int vb_cm_load(struct vb_cm_library *lib, const char *name) {
	return vb_load_symbols(&lib->loaded, name, symbols, SYMBOLS, &lib->cm);
}

struct vb_cm_channel *vb_cm_create_channel(const struct vb_cm *c) {
	errno = 0;
	struct vb_cm_channel *ch = c->create_event_channel();
	if (ch) {
		int flags = fcntl(ch->fd, F_GETFL);
		if (flags >= 0)
			fcntl(ch->fd, F_SETFL, flags | O_NONBLOCK);
	}
	return ch;
}

int vb_cm_set_tos(const struct vb_cm *c, struct vb_cm_id *id, uint8_t tos) {
	errno = 0;
	return vb_result(c->set_option(id, 0, 0, &tos, sizeof tos)); /* RDMA_OPTION_ID, RDMA_OPTION_ID_TOS */
}

int vb_cm_init_qp_attr(const struct vb_cm *c, struct vb_cm_id *id, int state, struct vb_qp_attr *a) {
	/* Room for a longer struct of a later library costs nothing. */
	union { struct vb_qp_attr a; char room[512]; } u;
	int mask = 0;
	memset(&u, 0, sizeof u);
	u.a.qp_state = state;
	errno = 0;
	int rc = vb_result(c->init_qp_attr(id, &u, &mask));
	*a = u.a;
	return rc;
}

int vb_cm_next_event(const struct vb_cm *c, struct vb_cm_channel *ch, struct vb_cm_event *e) {
	struct vb_cm_event *got;
	errno = 0;
	int rc = vb_result(c->get_cm_event(ch, &got));
	if (rc)
		return rc;
	*e = *got;
	e->param.conn.private_data = NULL;
	c->ack_cm_event(got);
	return 0;
}

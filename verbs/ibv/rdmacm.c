//go:build linux && cgo

#include "rdmacm.h"

static const struct vb_symbol symbols[] = {
#define SYMBOL(symbol, how, type, name, version, parameters, arguments, without) ROW(vb_cm, symbol, version, name, without)
#include "rdmacm_symbols.h"
};
const struct vb_table vb_cm_table = {symbols, sizeof symbols / sizeof *symbols, sizeof(struct vb_cm)};

struct vb_cm_channel *vb_cm_create_event_channel(const struct vb_cm *c) {
	errno = 0;
	return c->create_event_channel();
}

int vb_cm_next_event(const struct vb_cm *c, struct vb_cm_channel *ch, struct vb_cm_event *e) {
	struct vb_cm_event *got;
	int rc = vb_cm_get_cm_event(c, ch, &got);
	if (rc)
		return rc;
	*e = *got;
	e->param.conn.private_data = NULL;
	c->ack_cm_event(got);
	return 0;
}

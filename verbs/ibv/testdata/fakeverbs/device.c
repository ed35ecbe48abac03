#define _GNU_SOURCE
#include "fake.h"

#include <stdarg.h>

long setting(const char *name, long by_default) {
	const char *v = getenv(name);
	return v && *v ? strtol(v, NULL, 10) : by_default;
}

int infiniband(void) {
	const char *v = getenv("FAKEVERBS_LINK");
	return v && !strcmp(v, "ib");
}

int has_port(int port) { return port >= 1 && port <= setting("FAKEVERBS_PORTS", 1); }

void note(const char *format, ...) {
	const char *file = getenv("FAKEVERBS_TRACE");
	FILE *f = file ? fopen(file, "a") : NULL;
	if (!f)
		return;
	va_list args;
	va_start(args, format);
	vfprintf(f, format, args);
	va_end(args);
	fputc('\n', f);
	fclose(f);
}

/* listed tells whether a name is one of a comma list. */
static int listed(const char *list, const char *name) {
	size_t n = strlen(name);
	for (; list && *list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
		if (!strncmp(list, name, n) && (!list[n] || list[n] == ','))
			return 1;
	return 0;
}

int hangs(const char *verb) { return listed(getenv("FAKEVERBS_HANG"), verb); }

void hang(const char *verb) {
	while (hangs(verb))
		pause();
}

int lies_about(const char *what) { return listed(getenv("FAKEVERBS_LIES"), what); }

/* fault sets errno and returns it when the verb is to fail. */
int fault(const char *verb) {
	hang(verb);
	const char *v = getenv("FAKEVERBS_FAULTS");
	size_t n = strlen(verb);
	for (; v && *v; v = strchr(v, ',') ? strchr(v, ',') + 1 : NULL)
		if (!strncmp(v, verb, n) && v[n] == '=')
			return errno = atoi(v + n + 1);
	return 0;
}

struct device_context *context_of(struct vb_context *c) { return (struct device_context *)((char *)c - offsetof(struct vb_verbs_context, context)); }

/* gone tells whether a call into the kernel would find the device torn out. */
int gone(struct vb_context *c) { return context_of(c)->gone ? (errno = EIO) : 0; }

void raise_event(struct vb_context *c, int type, void *element, _Atomic int *count) {
	if (!is_ours(c))
		return; /* nobody here reads that process's events */
	if (count)
		++*count;
	struct vb_async_event e = {.event_type = type};
	memcpy(&e.element, &element, sizeof element);
	if (write(context_of(c)->events_in, &e, sizeof e) != sizeof e)
		abort();
}

static struct vb_device device = {.node_type = 1, .name = "fake0", .dev_name = "uverbs0", .ibdev_path = "/sys/class/infiniband/fake0"};

struct vb_device **ibv_get_device_list(int *n) {
	if (fault("get_device_list"))
		return NULL;
	struct vb_device **l = calloc(2, sizeof *l);
	read_plan();
	begin_counters();
	const char *sysfs = getenv("FAKEVERBS_SYSFS");
	if (sysfs)
		snprintf(device.ibdev_path, sizeof device.ibdev_path, "%s/class/infiniband/fake0", sysfs);
	l[0] = &device;
	*n = lies_about("a device less than none") ? -1 : lies_about("a million devices") ? 1000000 : 1;
	return l;
}

void ibv_free_device_list(struct vb_device **l) { free(l); }
uint64_t ibv_get_device_guid(struct vb_device *d) { return (void)d, __builtin_bswap64(0x0200fffe00000001ull); }

int ibv_query_device(struct vb_context *c, struct vb_device_attr *a) {
	if (fault("query_device") || gone(c))
		return errno;
	*a = (struct vb_device_attr){
		.fw_ver = "0.1", .node_guid = __builtin_bswap64(0x0200fffe00000001ull), .max_mr_size = ~0ull, .page_size_cap = 0xfffff000,
		.vendor_part_id = (uint32_t)setting("FAKEVERBS_PART", 0), .max_qp = QPS - 1, .max_qp_wr = MAX_WR,
		.device_cap_flags = 1 << 21 | 1 << 24, .max_sge = MAX_SGE, .max_sge_rd = MAX_SGE_READ, .max_cq = 4096, .max_cqe = MAX_CQE,
		.max_mr = KEYS - 1, .max_pd = 4096, .max_qp_rd_atom = MAX_READS, .max_qp_init_rd_atom = MAX_READS, .atomic_cap = 1,
		.max_mw = KEYS - 1, .max_ah = 4096, .max_srq = 4096, .max_srq_wr = MAX_WR, .max_srq_sge = MAX_SGE, .max_pkeys = 1,
		.phys_port_cnt = (uint8_t)setting("FAKEVERBS_PORTS", 1), .max_mcast_grp = MAX_GROUPS, .max_mcast_qp_attach = MAX_GROUPS,
	};
	if (lies_about("a limit less than none"))
		a->max_qp = -1;
	if (lies_about("a version without an end"))
		memset(a->fw_ver, 'v', sizeof a->fw_ver);
	return 0;
}

static int query_device_ex(struct vb_context *c, const void *input, struct vb_device_attr_ex *a, size_t size) {
	(void)input, (void)size;
	a->completion_timestamp_mask = setting("FAKEVERBS_CLOCK", 0) ? CLOCK_MASK : 0;
	if (setting("FAKEVERBS_ODP", 0))
		a->odp_caps.general_caps = 1, a->odp_caps.rc = 0x3f, a->odp_caps.ud = 1;
	a->hca_core_clock = (uint64_t)setting("FAKEVERBS_CLOCK", 0);
	return ibv_query_device(c, &a->orig);
}

int ibv_query_port(struct vb_context *c, uint8_t port, struct vb_port_attr *a) {
	if (gone(c) || !has_port(port))
		return gone(c) ? EIO : EINVAL;
	*a = (struct vb_port_attr){
		.state = 4, .max_mtu = 5, .active_mtu = 5, .gid_tbl_len = infiniband() ? 1 : 2, .max_msg_sz = 1 << 30, .pkey_tbl_len = 1,
		.lid = (uint16_t)infiniband(), .sm_lid = (uint16_t)infiniband(), .active_width = 2, .active_speed = 32, .phys_state = 5,
		.link_layer = infiniband() ? 1 : 2,
	};
	if (lies_about("a GID table shorter than none"))
		a->gid_tbl_len = -1;
	if (lies_about("a GID table of all memory"))
		a->gid_tbl_len = 0x7fffffff;
	if (lies_about("an MTU that no packet has"))
		a->active_mtu = 99;
	return 0;
}

int ibv_query_gid(struct vb_context *c, uint8_t port, int i, uint8_t *gid) {
	(void)c;
	if (!has_port(port) || i < 0 || i >= (infiniband() ? 1 : 2)) {
		errno = EINVAL;
		return -1;
	}
	static const uint8_t gids[2][16] = {{0xfe, 0x80, [8] = 2, [11] = 0xff, [12] = 0xfe, [15] = 1}, {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};
	memcpy(gid, gids[i], 16);
	gid[15] = port;
	return 0;
}

ssize_t _ibv_query_gid_table(struct vb_context *c, struct vb_gid_entry *e, size_t max, uint32_t flags, size_t size) {
	(void)flags, (void)size;
	int n = 0;
	if (lies_about("more GIDs than there is room for"))
		return (ssize_t)max + 5;
	for (int port = 1; has_port(port); port++)
		for (int i = 0; (size_t)n < max && !ibv_query_gid(c, (uint8_t)port, i, e[n].gid); i++, n++)
			e[n].gid_index = (uint32_t)i, e[n].port_num = (uint32_t)port, e[n].gid_type = infiniband() ? 0 : 2, e[n].ndev_ifindex = 0;
	return n;
}

int ibv_query_pkey(struct vb_context *c, uint8_t port, int i, uint16_t *key) {
	(void)c;
	*key = 0xffff;
	return has_port(port) && i == 0 ? 0 : -1;
}

int ibv_get_async_event(struct vb_context *c, struct vb_async_event *e) { return read(c->async_fd, e, sizeof *e) == sizeof *e ? 0 : -1; }

void ibv_ack_async_event(struct vb_async_event *e) {
	switch (e->event_type) {
	case CQ_ERR:
		--((struct cq *)e->element.cq)->events;
		break;
	case SRQ_LIMIT:
		--((struct srq *)e->element.srq)->events;
		break;
	case COMM_EST:
	case SQ_DRAINED:
	case LAST_WQE:
		--((struct qp *)e->element.qp)->events;
	}
}

void await_events(_Atomic int *count) {
	while (*count)
		usleep(100);
}


struct vb_context *ibv_open_device(struct vb_device *d) {
	int ends[2];
	if (fault("open_device") || pipe2(ends, O_CLOEXEC))
		return NULL;
	struct device_context *n = new_object(sizeof *n);
	n->process = this_process();
	long before = setting("FAKEVERBS_CONTEXT", (long)offsetof(struct vb_verbs_context, context));
	n->events_in = ends[1];
	n->posts_left = setting("FAKEVERBS_VANISH", 0);
	n->x = (struct vb_verbs_context){
		.create_cq_ex = create_cq_ex, .query_device_ex = query_device_ex, .create_qp_ex = create_qp_ex, .sz = (size_t)before + sizeof(struct vb_context),
		.context = {.device = d, .cmd_fd = -1, .async_fd = ends[0], .num_comp_vectors = 1, .abi_compat = before ? (void *)-1 : NULL},
	};
	struct vb_context *c = &n->x.context;
	c->ops.alloc_mw = alloc_mw, c->ops.dealloc_mw = dealloc_mw, c->ops.poll_cq = poll_cq, c->ops.req_notify_cq = req_notify_cq;
	if (lies_about("no way to poll"))
		c->ops.poll_cq = NULL;
	if (lies_about("no device of a context"))
		c->device = NULL;
	if (lies_about("vectors less than none"))
		c->num_comp_vectors = -1;
	c->ops.post_srq_recv = post_srq_recv, c->ops.post_send = post_send, c->ops.post_recv = post_recv;
	return c;
}

int ibv_close_device(struct vb_context *c) {
	struct device_context *n = context_of(c);
	hang("close_device");
	close(c->async_fd);
	close(n->events_in);
	free_object(n);
	return 0;
}

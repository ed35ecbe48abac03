/* The list of devices, which is one long; what the device says of itself; its events. */
#define _GNU_SOURCE
#include "device.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define SYSFS "/sys/class/infiniband/" DEVICE_NAME
#define NODE_GUID 0x020000fffe0012b7ull

static struct vb_device the_device = {
	.node_type = 1, /* a channel adapter */
	.name = DEVICE_NAME,
	.dev_name = "uverbs0", /* UCX looks for a device file of the name */
	.dev_path = "/sys/class/infiniband_verbs/uverbs0",
	.ibdev_path = SYSFS,
};

EXPORT struct vb_device **ibv_get_device_list(int *n) {
	struct vb_device **list = calloc(2, sizeof *list);
	if (list)
		list[0] = &the_device;
	if (n)
		*n = list ? 1 : 0;
	return list;
}

EXPORT void ibv_free_device_list(struct vb_device **list) { free(list); }
EXPORT const char *ibv_get_device_name(struct vb_device *d) { return d->name; }
EXPORT uint64_t ibv_get_device_guid(struct vb_device *d) { return d ? htobe64(NODE_GUID) : 0; }
EXPORT int ibv_get_device_index(struct vb_device *d) { return d ? 0 : -1; }

/* ---- pipes of events, which a program may poll ---- */

enum { MOST_PIPE = 1 << 20 }; /* as large as one may be without privileges */

int pipe_of_events(int *read_end, int *write_end) {
	int ends[2];
	if (pipe2(ends, O_CLOEXEC))
		return errno;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	*read_end = ends[0], *write_end = ends[1];
	return 0;
}

static int read_event(int fd, struct event *e) {
	ssize_t n = read(fd, e, sizeof *e);
	if (n < 0)
		return errno;
	return n == sizeof *e ? 0 : EIO;
}

/* aside is a pipe for forget_events, made as the first device opens: later the program may have all descriptors in use. */
static int aside[2] = {-1, -1};
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

static int make_aside(void) {
	pthread_mutex_lock(&taking);
	int error = aside[0] < 0 && pipe2(aside, O_CLOEXEC | O_NONBLOCK) ? errno : 0;
	pthread_mutex_unlock(&taking);
	return error;
}

/*
 * forget_events takes the events of an element that goes out of a pipe, and returns how many they were. The program's
 * threads may be reading there: splice does not block where they were quicker. One thread does so at a time, as it would
 * miss what another has just taken out.
 */
static uint32_t forget_events(int read_end, int write_end, void *element) {
	struct event e[256]; /* a page: it goes back in whole */
	uint32_t n = 0;
	int left = 0;
	pthread_mutex_lock(&taking);
	ioctl(read_end, FIONREAD, &left);
	for (ssize_t got; left > 0; left -= (int)got) {
		if (splice(read_end, NULL, aside[1], NULL, sizeof e, SPLICE_F_NONBLOCK) <= 0 ||
		    (got = read(aside[0], e, sizeof e)) <= 0)
			break;
		size_t kept = 0;
		for (size_t i = 0; i < (size_t)got / sizeof *e; i++)
			if (e[i].element == (uintptr_t)element)
				n++;
			else
				e[kept++] = e[i];
		if (kept && write(write_end, e, kept * sizeof *e) < 0) { /* others have filled it meanwhile */
			fcntl(write_end, F_SETPIPE_SZ, MOST_PIPE);
			if (write(write_end, e, kept * sizeof *e) < 0)
				break;
		}
	}
	pthread_mutex_unlock(&taking);
	return n;
}

/* end_events blocks until the program has acknowledged the events of an element that it has read. */
void end_events(int read_end, int write_end, void *element, uint32_t told, pthread_mutex_t *m, pthread_cond_t *c,
		const uint32_t *acknowledged) {
	pthread_mutex_lock(m);
	if (*acknowledged != told)
		told -= forget_events(read_end, write_end, element);
	while (*acknowledged != told)
		pthread_cond_wait(c, m);
	pthread_mutex_unlock(m);
}

/* ---- open and close ---- */

EXPORT struct vb_context *ibv_open_device(struct vb_device *d) {
	int error = d ? load_device() : EINVAL;
	if (error || (error = make_aside()))
		return no_object(error);
	struct context *c = object(sizeof *c);
	if (!c)
		return NULL;
	struct vb_context *v = &c->verbs.context;
	v->device = d;
	v->cmd_fd = -1;
	v->num_comp_vectors = 1;
	v->abi_compat = (void *)-1;
	c->verbs.sz = sizeof *c;
	pthread_mutex_init(&v->mutex, NULL);
	set_calls_of_device(c);
	set_calls_of_objects(c);
	set_extended_calls(c);
	set_missing_calls(c);
	error = pipe_of_events(&v->async_fd, &c->events);
	if (!error && (error = device.Open(c->events)))
		close(v->async_fd), close(c->events);
	if (error) {
		free(c);
		return no_object(error);
	}
	return v;
}

EXPORT int ibv_close_device(struct vb_context *v) {
	struct context *c = context_of(v);
	int error = enter() ? 0 : device.Close(c->events);
	if (error)
		return errno = error;
	close(v->async_fd);
	close(c->events);
	free(c);
	return 0;
}

/* ---- what the device says of itself ---- */

enum { PORTS_AT = 396 }; /* phys_port_cnt_ex in struct ibv_device_attr_ex */

static int query_device_ex(struct vb_context *c, const void *input, struct vb_device_attr_ex *attr, size_t size) {
	struct vb_device_attr_ex whole = {0};
	int error = enter();
	(void)c, (void)input;
	if (error || (error = device.Device(&whole)))
		return error;
	memset(attr, 0, size);
	memcpy(attr, &whole, size < sizeof whole ? size : sizeof whole);
	if (size >= PORTS_AT + sizeof(uint32_t))
		memcpy((char *)attr + PORTS_AT, &(uint32_t){whole.orig.phys_port_cnt}, sizeof(uint32_t));
	return 0;
}

EXPORT int ibv_query_device(struct vb_context *c, struct vb_device_attr *attr) {
	return query_device_ex(c, NULL, (struct vb_device_attr_ex *)attr, sizeof *attr);
}

static int query_port(struct vb_context *c, uint8_t port, struct vb_port_attr *attr, size_t size) {
	struct vb_port_attr whole = {0};
	int error = enter();
	(void)c;
	if (error || (error = device.Port(port, &whole)))
		return error;
	memset(attr, 0, size);
	memcpy(attr, &whole, size < sizeof whole ? size : sizeof whole);
	return 0;
}

EXPORT int(ibv_query_port)(struct vb_context *c, uint8_t port, struct vb_port_attr *attr) {
	return query_port(c, port, attr, sizeof *attr);
}

static int gid_entry(uint32_t port, uint32_t index, struct vb_gid_entry *e) {
	memset(e, 0, sizeof *e);
	if (port != 1)
		return EINVAL;
	return enter() ? EPERM : device.GID(index, e);
}

EXPORT int ibv_query_gid(struct vb_context *c, uint8_t port, int index, void *gid) {
	struct vb_gid_entry e;
	int error = index < 0 ? EINVAL : gid_entry(port, index, &e);
	(void)c;
	if (error) {
		errno = error;
		return -1;
	}
	memcpy(gid, e.gid, sizeof e.gid);
	return 0;
}

EXPORT int _ibv_query_gid_ex(struct vb_context *c, uint32_t port, uint32_t index, struct vb_gid_entry *entry,
			     uint32_t flags, size_t size) {
	struct vb_gid_entry e;
	int error = flags ? EINVAL : gid_entry(port, index, &e);
	(void)c;
	if (!error)
		memcpy(entry, &e, size < sizeof e ? size : sizeof e);
	return error;
}

EXPORT ssize_t _ibv_query_gid_table(struct vb_context *c, struct vb_gid_entry *entries, size_t most, uint32_t flags,
				    size_t size) {
	size_t n = 0;
	struct vb_gid_entry beyond;
	if (flags || size < sizeof *entries)
		return -EINVAL;
	while (n < most && !_ibv_query_gid_ex(c, 1, n, (struct vb_gid_entry *)((char *)entries + n * size), 0, size))
		n++;
	return gid_entry(1, n, &beyond) ? (ssize_t)n : -EINVAL; /* there are more */
}

/* The types are those of sysfs: 0 is InfiniBand and RoCE v1, 1 is RoCE v2. */
EXPORT int ibv_query_gid_type(struct vb_context *c, uint8_t port, unsigned index, int *type) {
	struct vb_gid_entry e;
	int error = gid_entry(port, index, &e);
	(void)c;
	if (error) {
		errno = error;
		return -1;
	}
	*type = 1;
	return 0;
}

EXPORT int ibv_query_pkey(struct vb_context *c, uint8_t port, int index, uint16_t *pkey) {
	(void)c;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = 0xffff;
	return 0;
}

EXPORT int ibv_get_pkey_index(struct vb_context *c, uint8_t port, uint16_t pkey) {
	(void)c;
	if (port == 1 && pkey == 0xffff)
		return 0;
	errno = EINVAL;
	return -1;
}

static int query_rt_values(struct vb_context *c, struct values_ex *values) {
	(void)c;
	if (values->comp_mask != 1)
		return EINVAL;
	return clock_gettime(CLOCK_MONOTONIC, &values->raw_clock) ? errno : 0;
}

/* ---- sysfs, for those who look there ---- */

EXPORT const char *ibv_get_sysfs_path(void) { return "/sys"; }

static const struct {
	const char *name, *text;
} sysfs_files[] = {
	{"board_id", "software device"},
	{"hca_type", "software device"},
	{"node_type", "1: CA"},
	{"ports/1/link_layer", "Ethernet"},
	{"ports/1/state", "4: ACTIVE"},
	{"ports/1/phys_state", "5: LinkUp"},
};

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buffer, size_t size) {
	char path[512];
	snprintf(path, sizeof path, "%s/%s", dir, file);
	if (!strncmp(path, SYSFS "/", sizeof SYSFS)) {
		const char *name = path + sizeof SYSFS;
		for (size_t i = 0; i < sizeof sysfs_files / sizeof *sysfs_files; i++)
			if (!strcmp(name, sysfs_files[i].name))
				return snprintf(buffer, size, "%s", sysfs_files[i].text);
		if (!strncmp(name, "ports/1/gid_attrs/types/", 24))
			return snprintf(buffer, size, "RoCE v2");
	}
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t n = read(fd, buffer, size);
	close(fd);
	if (n > 0 && buffer[n - 1] == '\n')
		buffer[--n] = 0;
	return n;
}

/* ---- events ---- */

enum { EVENT_CQ = 0, EVENT_SRQ = 14, EVENT_SRQ_LIMIT = 15 };

static int is_of_qp(int type) { return (type >= 1 && type <= 7) || type == 16; }

EXPORT int ibv_get_async_event(struct vb_context *c, struct vb_async_event *out) {
	struct event e;
	int error = read_event(c->async_fd, &e);
	if (error) {
		errno = error;
		return -1;
	}
	out->event_type = e.type;
	out->element.qp = (void *)(uintptr_t)e.element;
	if (!is_of_qp(e.type) && e.type != EVENT_CQ && e.type != EVENT_SRQ && e.type != EVENT_SRQ_LIMIT)
		out->element.port_num = (int)e.element;
	return 0;
}

static void acknowledge(pthread_mutex_t *m, pthread_cond_t *c, uint32_t *acknowledged, unsigned n) {
	pthread_mutex_lock(m);
	*acknowledged += n;
	pthread_cond_broadcast(c);
	pthread_mutex_unlock(m);
}

EXPORT void ibv_ack_async_event(struct vb_async_event *e) {
	if (is_of_qp(e->event_type)) {
		struct vb_qp *q = e->element.qp;
		acknowledge(&q->mutex, &q->cond, &q->events_completed, 1);
	} else if (e->event_type == EVENT_CQ) {
		struct vb_cq *q = e->element.cq;
		acknowledge(&q->mutex, &q->cond, &q->async_events_completed, 1);
	} else if (e->event_type == EVENT_SRQ || e->event_type == EVENT_SRQ_LIMIT) {
		struct srq *s = (struct srq *)e->element.srq;
		acknowledge(&s->mutex, &s->cond, &s->events_completed, 1);
	}
}

EXPORT int ibv_get_cq_event(struct vb_comp_channel *channel, struct vb_cq **cq, void **cq_context) {
	struct event e;
	int error = read_event(channel->fd, &e);
	if (error) {
		errno = error;
		return -1;
	}
	*cq = (struct vb_cq *)(uintptr_t)e.element;
	*cq_context = (*cq)->cq_context;
	return 0;
}

EXPORT void ibv_ack_cq_events(struct vb_cq *q, unsigned n) {
	acknowledge(&q->mutex, &q->cond, &q->comp_events_completed, n);
}

void set_calls_of_device(struct context *c) {
	c->query_port = query_port;
	c->query_rt_values = query_rt_values;
	c->verbs.query_device_ex = query_device_ex;
}

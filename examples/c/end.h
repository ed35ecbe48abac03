/* What hello_verbs.c, gather.c and the broken programs share: one end of a connection, in the order in which the calls
 * follow each other. Each call that fails ends the program with its name and errno. */
#ifndef END_H
#define END_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 64
#define PORT "18517"
#ifndef PATIENCE
#define PATIENCE 20 /* seconds that an end waits for a completion */
#endif

/* What one end must know of the other. */
struct address {
	uint32_t qpn, psn, rkey, mtu, reads, max_sge; /* reads: READs in flight at a time */
	uint64_t memory;
	union ibv_gid gid;
};

struct end {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *memory;
	size_t bytes;
	int gid_index, max_sge, max_sge_rd;
	struct address here;
};

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

/* must ends the program where a verb that returns an error code has failed. */
static inline void must(int code, const char *what)
{
	if (code) {
		errno = code > 0 ? code : -code;
		die(what);
	}
}

/* first_gid finds a GID of RoCE version 2 whose address is an IPv4 one; without one it takes entry 0. */
static inline int first_gid(struct ibv_context *context, const struct ibv_port_attr *port)
{
	for (int i = 0; i < port->gid_tbl_len; i++) {
		struct ibv_gid_entry entry;
		static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
		if (ibv_query_gid_ex(context, 1, i, &entry, 0))
			continue;
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(entry.gid.raw, mapped, sizeof mapped))
			return i;
	}
	return 0;
}

/* open_end opens the first device, registers memory, and makes a queue pair in the state INIT. */
static inline void open_end(struct end *e, size_t bytes)
{
	memset(e, 0, sizeof *e);
	struct ibv_device **list = ibv_get_device_list(NULL);
	if (!list || !list[0]) {
		fprintf(stderr, "no RDMA device: run this program under 'gobw run --', or in the kernel lab\n");
		exit(1);
	}
	e->context = ibv_open_device(list[0]);
	if (!e->context)
		die("ibv_open_device");
	ibv_free_device_list(list);
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	must(ibv_query_device(e->context, &device), "ibv_query_device");
	must(ibv_query_port(e->context, 1, &port), "ibv_query_port");
	e->max_sge = device.max_sge;
	e->max_sge_rd = device.max_sge_rd > 0 && device.max_sge_rd < device.max_sge ? device.max_sge_rd : device.max_sge;
	e->gid_index = first_gid(e->context, &port);

	e->pd = ibv_alloc_pd(e->context);
	if (!e->pd)
		die("ibv_alloc_pd");
	e->cq = ibv_create_cq(e->context, 2 * DEPTH, NULL, NULL, 0);
	if (!e->cq)
		die("ibv_create_cq");
	e->bytes = bytes;
	if (posix_memalign((void **)&e->memory, 4096, bytes))
		die("posix_memalign");
	memset(e->memory, 0, bytes);
	e->mr = ibv_reg_mr(e->pd, e->memory, bytes,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!e->mr)
		die("ibv_reg_mr");
	struct ibv_qp_init_attr init = {
		.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = e->max_sge, .max_recv_sge = e->max_sge},
	};
	e->qp = ibv_create_qp(e->pd, &init);
	if (!e->qp)
		die("ibv_create_qp");
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	must(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	     "ibv_modify_qp to INIT");

	e->here = (struct address){.qpn = e->qp->qp_num, .psn = e->qp->qp_num & 0xff, .rkey = e->mr->rkey,
				   .mtu = port.active_mtu, .max_sge = e->max_sge,
				   .reads = device.max_qp_rd_atom < 16 ? device.max_qp_rd_atom : 16,
				   .memory = (uintptr_t)e->memory};
	must(ibv_query_gid(e->context, 1, e->gid_index, &e->here.gid), "ibv_query_gid");
}

/* ready brings the queue pair through RTR to RTS. retries is how often the device asks again before it gives up. */
static inline void ready(struct end *e, const struct address *peer, int retries)
{
	if ((int)peer->max_sge < e->max_sge)
		e->max_sge = peer->max_sge; /* both ends cut a message alike */
	uint8_t reads = peer->reads < e->here.reads ? peer->reads : e->here.reads;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = peer->mtu < e->here.mtu ? peer->mtu : e->here.mtu,
		.dest_qp_num = peer->qpn, .rq_psn = peer->psn, .max_dest_rd_atomic = reads, .min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1,
			    .grh = {.dgid = peer->gid, .sgid_index = e->gid_index, .hop_limit = 64}},
	};
	must(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "ibv_modify_qp to RTR");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = retries, .rnr_retry = retries,
		.sq_psn = e->here.psn, .max_rd_atomic = reads,
	};
	must(ibv_modify_qp(e->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "ibv_modify_qp to RTS");
}

/* post_write posts a WRITE whose data is the entries of a list. */
static inline int post_write(struct end *e, struct ibv_sge *list, int entries, uint64_t to, uint32_t rkey, int flags)
{
	struct ibv_send_wr *bad, wr = {
		.sg_list = list, .num_sge = entries, .opcode = IBV_WR_RDMA_WRITE, .send_flags = flags,
		.wr.rdma = {.remote_addr = to, .rkey = rkey},
	};
	return ibv_post_send(e->qp, &wr, &bad);
}

static inline double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* complete waits for one completion and returns its status. Measured loops wait here: it looks at the clock rarely. */
__attribute__((warn_unused_result)) static inline enum ibv_wc_status complete(struct end *e)
{
	struct ibv_wc wc;
	double begun = 0;
	int n;
	for (unsigned polls = 1; (n = ibv_poll_cq(e->cq, 1, &wc)) == 0; polls++) {
		if (polls % 4096)
			continue;
		if (!begun)
			begun = now();
		if (now() - begun > PATIENCE) {
			fprintf(stderr, "no completion in %d s: was a request signaled? does the other end still run?\n", PATIENCE);
			exit(1);
		}
	}
	if (n < 0)
		die("ibv_poll_cq");
	return wc.status;
}

/* close_end gives everything back, newest first. */
static inline void close_end(struct end *e)
{
	must(ibv_destroy_qp(e->qp), "ibv_destroy_qp");
	must(ibv_dereg_mr(e->mr), "ibv_dereg_mr");
	must(ibv_destroy_cq(e->cq), "ibv_destroy_cq");
	must(ibv_dealloc_pd(e->pd), "ibv_dealloc_pd");
	must(ibv_close_device(e->context), "ibv_close_device");
	free(e->memory);
}

/* meet connects to a host by TCP, or waits for the other end if host is NULL. */
static inline int meet(const char *host)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE}, *at;
	const char *port = getenv("PORT") ? getenv("PORT") : PORT;
	int code = getaddrinfo(host, port, &hints, &at);
	if (code) {
		fprintf(stderr, "%s: %s\n", host ? host : "any address", gai_strerror(code));
		exit(1);
	}
	int one = 1, s = socket(at->ai_family, at->ai_socktype, 0);
	if (s < 0)
		die("socket");
	if (host) {
		for (int tries = 0; connect(s, at->ai_addr, at->ai_addrlen); tries++) {
			if (tries == 50)
				die("connect: start the other end first");
			usleep(100000);
			close(s);
			s = socket(at->ai_family, at->ai_socktype, 0);
		}
		freeaddrinfo(at);
		return s;
	}
	fprintf(stderr, "waiting: now start the other end, with the name of this host\n");
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	if (bind(s, at->ai_addr, at->ai_addrlen) || listen(s, 1))
		die("listen");
	freeaddrinfo(at);
	int conn = accept(s, NULL, NULL);
	if (conn < 0)
		die("accept");
	close(s);
	return conn;
}

/* swap sends bytes to the other end and receives as many. */
static inline void swap(int conn, const void *out, void *in, size_t bytes)
{
	if (send(conn, out, bytes, MSG_NOSIGNAL) != (ssize_t)bytes)
		die("the other end is gone");
	for (size_t got = 0; got < bytes;) {
		ssize_t n = read(conn, (char *)in + got, bytes - got);
		if (n <= 0) {
			fprintf(stderr, "the other end is gone\n");
			exit(1);
		}
		got += n;
	}
}

#endif

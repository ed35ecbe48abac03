// One test of gobw search, in verbs calls alone: RC, UC or UD; SEND, WRITE or READ; a mix of sizes and scatter/gather lists.
//   cc -O2 -pthread FILE -libverbs      server: ./a.out      client: ./a.out HOST
// It prints how many messages this end sent a second.
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// SETTINGS
#define CHECK(ok, what) do { if (!(ok)) { perror(what); exit(1); } } while (0)
#define PARTS (int)(sizeof mix / sizeof *mix)
enum { Q_KEY = 0x11111111, RECEIVE = 1 << 30, SECONDS = 3, GRH = 40 }; // GRH: bytes before a datagram's payload

struct end { union ibv_gid gid; uint64_t address; uint32_t rkey, qpn[QPS]; uint16_t lid; } me, peer;
static struct ibv_qp *qp[QPS];
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static char *memory; // what is sent, then what arrives
static int in_flight[QPS];
static long posted[QPS], done;
static volatile sig_atomic_t late;

static void stop(int signal) { late = signal; }

static int meet(const char *host) { // a TCP connection to the other end
	struct addrinfo *a, want = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET, .ai_flags = AI_PASSIVE};
	CHECK(!getaddrinfo(host, TCP_PORT, &want, &a), "host");
	int s = socket(a->ai_family, SOCK_STREAM, 0), yes = 1;
	if (host) {
		CHECK(!connect(s, a->ai_addr, a->ai_addrlen), "connect");
		return s;
	}
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
	CHECK(!bind(s, a->ai_addr, a->ai_addrlen) && !listen(s, 1), "listen");
	return accept(s, NULL, NULL);
}

static void connect_qp(int i, struct ibv_ah_attr *to) {
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = IB_PORT, .qkey = Q_KEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = MTU, .dest_qp_num = peer.qpn[i], .ah_attr = *to,
		.max_dest_rd_atomic = READS, .min_rnr_timer = 12};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = READS};
	int rc = TYPE == IBV_QPT_RC, ud = TYPE == IBV_QPT_UD;
	CHECK(!ibv_modify_qp(qp[i], &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)), "INIT");
	int path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	CHECK(!ibv_modify_qp(qp[i], &rtr, IBV_QP_STATE | (ud ? 0 : path) | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)), "RTR");
	int reliable = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	CHECK(!ibv_modify_qp(qp[i], &rts, IBV_QP_STATE | IBV_QP_SQ_PSN | (rc ? reliable : 0)), "RTS");
}

static void post_receive(int i) {
	struct ibv_sge sge = {(uintptr_t)memory + LARGEST, LARGEST + GRH, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = i | RECEIVE, .sg_list = &sge, .num_sge = 1}, *bad;
	CHECK(!ibv_post_recv(qp[i], &wr, &bad), "ibv_post_recv");
}

static void post_list(int i) {
	static struct ibv_send_wr wr[POST_LIST];
	static struct ibv_sge sge[POST_LIST][MAX_SGE];
	struct ibv_send_wr *bad;
	for (int k = 0; k < POST_LIST; k++, posted[i]++) {
		int bytes = mix[posted[i] % PARTS].bytes, n = mix[posted[i] % PARTS].sges;
		for (int e = 0; e < n; e++) {
			size_t from = (size_t)bytes * e / n, to = (size_t)bytes * (e + 1) / n;
			sge[k][e] = (struct ibv_sge){(uintptr_t)memory + from, to - from, mr->lkey};
		}
		wr[k] = (struct ibv_send_wr){.wr_id = i, .next = k + 1 < POST_LIST ? &wr[k + 1] : NULL, .sg_list = sge[k], .num_sge = n, .opcode = OPCODE};
		wr[k].send_flags = (posted[i] % CQ_MOD == CQ_MOD - 1 ? IBV_SEND_SIGNALED : 0) | (bytes <= INLINE ? IBV_SEND_INLINE : 0);
		if (TYPE == IBV_QPT_UD) {
			wr[k].wr.ud.ah = ah, wr[k].wr.ud.remote_qpn = peer.qpn[i], wr[k].wr.ud.remote_qkey = Q_KEY;
		} else {
			wr[k].wr.rdma.remote_addr = peer.address + LARGEST, wr[k].wr.rdma.rkey = peer.rkey;
		}
	}
	CHECK(!ibv_post_send(qp[i], wr, &bad), "ibv_post_send");
	in_flight[i] += POST_LIST;
}

static void poll(void) {
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(cq, 16, wc);
	for (int k = 0; k < n; k++) {
		int i = wc[k].wr_id & ~RECEIVE;
		if (wc[k].status != IBV_WC_SUCCESS)
			exit((fprintf(stderr, "queue pair %d: %s\n", i, ibv_wc_status_str(wc[k].status)), 1));
		if (wc[k].wr_id & RECEIVE)
			post_receive(i);
		else
			in_flight[i] -= CQ_MOD, done += CQ_MOD;
	}
}

int main(int argc, char **argv) {
	struct ibv_device **d = ibv_get_device_list(NULL);
	while (d && *d && strcmp(ibv_get_device_name(*d), DEVICE))
		d++;
	CHECK(d && *d, DEVICE);
	struct ibv_context *c = ibv_open_device(*d);
	struct ibv_port_attr port;
	CHECK(c && !ibv_query_port(c, IB_PORT, &port) && !ibv_query_gid(c, IB_PORT, GID_INDEX, &me.gid), "device");
	memory = aligned_alloc(4096, (2 * LARGEST + GRH + 4095) / 4096 * 4096);
	struct ibv_pd *pd = ibv_alloc_pd(c);
	mr = ibv_reg_mr(pd, memory, 2 * LARGEST + GRH, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	cq = ibv_create_cq(c, QPS * (TX_DEPTH + RX_DEPTH), NULL, NULL, 0);
	CHECK(pd && mr && cq, "memory and completion queue");
	for (int i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = TYPE,
			.cap = {.max_send_wr = TX_DEPTH, .max_recv_wr = RX_DEPTH, .max_send_sge = MAX_SGE, .max_recv_sge = 1, .max_inline_data = INLINE}};
		CHECK(qp[i] = ibv_create_qp(pd, &a), "queue pair");
		me.qpn[i] = qp[i]->qp_num;
	}
	me.address = (uintptr_t)memory, me.rkey = mr->rkey, me.lid = port.lid;
	int s = meet(argc > 1 ? argv[1] : NULL);
	CHECK(write(s, &me, sizeof me) == sizeof me && recv(s, &peer, sizeof peer, MSG_WAITALL) == sizeof peer, "other end");
	struct ibv_ah_attr to = {.dlid = peer.lid, .port_num = IB_PORT, .is_global = 1, .grh = {.dgid = peer.gid, .sgid_index = GID_INDEX, .hop_limit = 64}};
	for (int i = 0; i < QPS; i++) {
		connect_qp(i, &to);
		for (int k = 0; OPCODE == IBV_WR_SEND && k < RX_DEPTH; k++)
			post_receive(i);
	}
	CHECK(TYPE != IBV_QPT_UD || (ah = ibv_create_ah(pd, &to)), "address handle");
	char go = 0;
	CHECK(write(s, &go, 1) == 1 && recv(s, &go, 1, MSG_WAITALL) == 1, "other end");
	signal(SIGALRM, stop);
	alarm(SECONDS);
	while ((argc > 1 || BIDIRECTIONAL) && !late) {
		for (int i = 0; i < QPS; i++)
			if (in_flight[i] + POST_LIST <= TX_DEPTH)
				post_list(i);
		poll();
	}
	if (done)
		printf("%ld messages a second\n", done / SECONDS);
	CHECK(write(s, &go, 1) == 1, "other end");
	while (recv(s, &go, 1, MSG_DONTWAIT) < 0) // serve the other end until it is through
		poll();
}

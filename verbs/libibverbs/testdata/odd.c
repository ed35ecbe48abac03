/* A program that does odd things with libibverbs: odd WHAT. It ends with 0 where all went well. */
#define _GNU_SOURCE
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MUST(x)                                                                                                        \
	do {                                                                                                           \
		if (!(x)) {                                                                                            \
			fprintf(stderr, "line %d: %s: %s\n", __LINE__, #x, strerror(errno));                           \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

enum { SIZE = 16384, PAGE = 4096 };

static struct ibv_context *context;
static struct ibv_pd *pd;

static void open_device(void) {
	struct ibv_device **list = ibv_get_device_list(NULL);
	MUST(list && list[0]);
	MUST((context = ibv_open_device(list[0])));
	ibv_free_device_list(list);
	MUST((pd = ibv_alloc_pd(context)));
}

/* Two ends of a connection in this process. */
struct ends {
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *mr[2];
	char *memory[2];
};

static void connect_to(struct ibv_qp *qp, uint32_t peer) {
	union ibv_gid gid;
	MUST(!ibv_query_gid(context, 1, 0, &gid));
	int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access};
	MUST(!ibv_modify_qp(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 4,
				  .min_rnr_timer = 1, .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}}};
	MUST(!ibv_modify_qp(qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
	MUST(!ibv_modify_qp(qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			    IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ends make_ends(void) {
	struct ends e;
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_MW_BIND;
	MUST((e.cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr a = {.send_cq = e.cq, .recv_cq = e.cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					     .cap = {16, 16, 1, 1, 64}};
		MUST((e.qp[i] = ibv_create_qp(pd, &a)));
		e.memory[i] = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		MUST(e.memory[i] != MAP_FAILED);
		MUST((e.mr[i] = ibv_reg_mr(pd, e.memory[i], SIZE, access)));
	}
	connect_to(e.qp[0], e.qp[1]->qp_num);
	connect_to(e.qp[1], e.qp[0]->qp_num);
	return e;
}

static void close_ends(struct ends *e) {
	for (int i = 0; i < 2; i++)
		MUST(!ibv_destroy_qp(e->qp[i]) && !ibv_dereg_mr(e->mr[i]));
	MUST(!ibv_destroy_cq(e->cq));
}

/* completion waits for one and returns how it ended. */
static enum ibv_wc_status completion(struct ends *e) {
	struct ibv_wc wc;
	int n;
	while (!(n = ibv_poll_cq(e->cq, 1, &wc)))
		;
	MUST(n == 1);
	return wc.status;
}

static enum ibv_wc_status request_by(struct ends *e, enum ibv_wr_opcode opcode, int length, uint32_t rkey) {
	struct ibv_sge sge = {(uintptr_t)e->memory[0], length, e->mr[0]->lkey};
	struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)e->memory[1], wr.wr.rdma.rkey = rkey;
	MUST(!ibv_post_send(e->qp[0], &wr, &bad));
	return completion(e);
}

/* request posts one and returns how it completed. */
static enum ibv_wc_status request(struct ends *e, enum ibv_wr_opcode opcode, int length) {
	return request_by(e, opcode, length, e->mr[1]->rkey);
}

static void expect(const char *what, enum ibv_wc_status got, enum ibv_wc_status want) {
	if (got == want)
		return;
	fprintf(stderr, "%s: completed with %s, want %s\n", what, ibv_wc_status_str(got), ibv_wc_status_str(want));
	exit(1);
}

static void writes(int n) {
	struct ends e = make_ends();
	for (int i = 0; i < n; i++) {
		memset(e.memory[0], i, SIZE);
		expect("WRITE", request(&e, IBV_WR_RDMA_WRITE, SIZE), IBV_WC_SUCCESS);
		MUST(!memcmp(e.memory[0], e.memory[1], SIZE));
	}
	close_ends(&e);
}

static int wait_for(pid_t child) {
	int status;
	MUST(waitpid(child, &status, 0) == child);
	return status;
}

static void forks(void) {
	pid_t child = fork(); /* before the device is open: the child may open it */
	if (!child) {
		open_device();
		writes(10);
		_exit(0);
	}
	open_device();
	writes(10);
	MUST(wait_for(child) == 0);
	child = fork(); /* afterwards: it is told */
	if (!child) {
		struct ibv_pd *none = ibv_alloc_pd(context);
		_exit(none ? 1 : errno == EPERM ? 0 : 2);
	}
	MUST(wait_for(child) == 0);
	MUST(system("true") == 0);
	writes(10);
}

static sigjmp_buf back;
static volatile sig_atomic_t seen;

static void on_signal(int n) {
	seen = n;
	if (n == SIGSEGV)
		siglongjmp(back, 1);
}

static void handlers(int before) {
	struct sigaction a = {.sa_handler = on_signal};
	if (before)
		sigaction(SIGSEGV, &a, NULL), sigaction(SIGALRM, &a, NULL);
	open_device();
	if (!before)
		sigaction(SIGSEGV, &a, NULL), sigaction(SIGALRM, &a, NULL);
	for (int i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1))
			*(volatile int *)8 = 1;
		MUST(seen == SIGSEGV);
		seen = 0;
		writes(5);
	}
	alarm(1);
	pause();
	MUST(seen == SIGALRM);
	MUST(sigaction(SIGPIPE, NULL, &a) == 0 && a.sa_handler == SIG_DFL);
	MUST(sigaction(SIGURG, NULL, &a) == 0 && a.sa_handler == SIG_DFL);
}

static void *thread(void *n) {
	writes((int)(intptr_t)n);
	return NULL;
}

static void threads(void) {
	pthread_t all[64];
	open_device();
	for (int i = 0; i < 64; i++)
		MUST(!pthread_create(&all[i], NULL, thread, (void *)(intptr_t)20));
	for (int i = 0; i < 64; i++)
		MUST(!pthread_join(all[i], NULL));
}

static void unmaps(void) {
	open_device();
	static const struct {
		const char *what;
		int end; /* whose memory goes */
		enum ibv_wr_opcode opcode;
		enum ibv_wc_status want;
	} all[] = {
		{"WRITE from memory that went", 0, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR},
		{"WRITE to memory that went", 1, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR},
		{"READ into memory that went", 0, IBV_WR_RDMA_READ, IBV_WC_LOC_PROT_ERR},
		{"READ of memory that went", 1, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct ends e = make_ends();
		MUST(!munmap(e.memory[all[i].end], SIZE));
		expect(all[i].what, request(&e, all[i].opcode, SIZE), all[i].want);
		close_ends(&e);
	}
	writes(10);
}

/* A context that is closed takes with it what is left, and the device opens again. */
static void closes(void) {
	for (int i = 0; i < 3; i++) {
		open_device();
		struct ends e = make_ends();
		expect("WRITE", request(&e, IBV_WR_RDMA_WRITE, 64), IBV_WC_SUCCESS);
		MUST(ibv_dealloc_pd(pd) == EBUSY);
		MUST(!ibv_close_device(context));
	}
}

/* bind_whole binds a window of either type to a region, or to none, as the peer of a connection. */
static enum ibv_wc_status bind_whole(struct ends *e, struct ibv_mw *mw, struct ibv_mr *mr, uint32_t rkey) {
	struct ibv_mw_bind_info info = {mr, mr ? (uintptr_t)mr->addr : 0, mr ? mr->length : 0, IBV_ACCESS_REMOTE_WRITE};
	struct ibv_mw_bind type1 = {.wr_id = 2, .bind_info = info};
	struct ibv_send_wr type2 = {.wr_id = 2, .opcode = IBV_WR_BIND_MW, .bind_mw = {mw, rkey, info}}, *bad;
	MUST(!(mw->type == IBV_MW_TYPE_1 ? ibv_bind_mw(e->qp[1], mw, &type1) : ibv_post_send(e->qp[1], &type2, &bad)));
	return completion(e);
}

/* Of a key that a program asks for, the low byte counts, and its window has the key that comes of it. */
static void windows(void) {
	open_device();
	struct ends e = make_ends(), other = make_ends();
	struct ibv_mw *one = ibv_alloc_mw(pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	MUST(one && two);
	MUST(!ibv_alloc_mw(pd, (enum ibv_mw_type)3) && errno == EINVAL);
	uint32_t before = two->rkey;
	expect("bind of type 2", bind_whole(&e, two, e.mr[1], 0x5a5a5aba), IBV_WC_SUCCESS);
	MUST(two->rkey == ((before & ~0xffu) | 0xba));
	expect("WRITE by type 2", request_by(&e, IBV_WR_RDMA_WRITE, 64, two->rkey), IBV_WC_SUCCESS);
	MUST(ibv_bind_mw(e.qp[1], two, &(struct ibv_mw_bind){.bind_info = {e.mr[1], 0, 1, 0}}) == EINVAL);

	expect("bind of type 1", bind_whole(&e, one, e.mr[1], 0), IBV_WC_SUCCESS);
	MUST(ibv_dereg_mr(e.mr[1]) == EBUSY);
	expect("WRITE by type 1", request_by(&e, IBV_WR_RDMA_WRITE, 64, one->rkey), IBV_WC_SUCCESS);
	before = one->rkey;
	expect("bind of type 1 again, elsewhere", bind_whole(&e, one, other.mr[1], 0), IBV_WC_SUCCESS);
	MUST(one->rkey != before);
	expect("WRITE by another queue pair", request_by(&other, IBV_WR_RDMA_WRITE, 64, one->rkey), IBV_WC_SUCCESS);
	expect("unbind", bind_whole(&e, one, NULL, 0), IBV_WC_SUCCESS);
	expect("WRITE by nothing", request_by(&other, IBV_WR_RDMA_WRITE, 64, one->rkey), IBV_WC_REM_ACCESS_ERR);
	expect("WRITE by an old key", request_by(&e, IBV_WR_RDMA_WRITE, 64, before), IBV_WC_REM_ACCESS_ERR);

	struct ibv_mr *nothing = ibv_reg_mr(pd, e.memory[0], 0, IBV_ACCESS_LOCAL_WRITE);
	MUST(nothing && !ibv_dereg_mr(nothing));
	MUST(!ibv_dealloc_mw(one) && !ibv_dealloc_mw(two));
	uint32_t handle = other.qp[0]->handle;
	other.qp[0]->handle = 0x12345;
	MUST(ibv_post_send(other.qp[0], &(struct ibv_send_wr){0}, &(struct ibv_send_wr *){NULL}) == ENOENT);
	other.qp[0]->handle = handle;
}

/* A handler of some depth, without SA_ONSTACK, often: it runs on whatever stack the thread has just then. */
static void deep(int n) {
	volatile char room[64 << 10];
	for (size_t i = 0; i < sizeof room; i += 64)
		room[i] = (char)n;
	seen++;
}

static void *poll_a_while(void *queue) {
	struct ibv_wc wc;
	for (int i = 0; i < 30000; i++)
		MUST(ibv_poll_cq(queue, 1, &wc) == 0);
	return NULL;
}

static void deep_handlers(void) {
	open_device();
	struct ends e = make_ends();
	struct sigaction a = {.sa_handler = deep, .sa_flags = SA_RESTART};
	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &(struct itimerval){{0, 200}, {0, 200}}, NULL);
	pthread_t t;
	for (int i = 0; i < 4; i++) /* each thread has a stack of its own */
		MUST(!pthread_create(&t, NULL, poll_a_while, e.cq) && !pthread_join(t, NULL));
	writes(300);
	setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
	MUST(seen > 10);
}

static void leave(int n) { exit(n == SIGALRM ? 7 : 1); }

/* A handler ends the program in the middle of a call. */
static void exits_in_handler(void) {
	open_device();
	struct ends e = make_ends();
	signal(SIGALRM, leave);
	ualarm(200000, 0);
	for (;;)
		poll_a_while(e.cq);
}

/* A handler ends the program in the middle of malloc, whose lock it then holds. Blocks are too large for caches. */
static void exits_in_malloc(void) {
	static void *volatile blocks[64];
	open_device();
	signal(SIGALRM, leave);
	ualarm(20000 + getpid() * 37 % 3000, 0);
	for (unsigned i = 0;; i++) {
		free(blocks[i % 64]);
		blocks[i % 64] = malloc(2000 + i * 7919 % 60000);
	}
}

/* The program ends while its threads go on. */
static void exits_beside_threads(void) {
	pthread_t t;
	open_device();
	for (int i = 0; i < 8; i++)
		MUST(!pthread_create(&t, NULL, thread, (void *)(intptr_t)1000000));
	usleep(300000);
	exit(7);
}

/* What is not given anew stays as it was. */
static void registers_again(void) {
	open_device();
	struct ends e = make_ends();
	struct ibv_mr *mr = ibv_reg_mr_iova(pd, e.memory[1], SIZE, PAGE, IBV_ACCESS_LOCAL_WRITE);
	MUST(mr && !ibv_dereg_mr(e.mr[1]));
	e.mr[1] = mr, e.memory[1] = (char *)PAGE; /* for those who name it */
	expect("WRITE", request(&e, IBV_WR_RDMA_WRITE, 64), IBV_WC_REM_ACCESS_ERR);
	close_ends(&e);
	e = make_ends();
	mr = ibv_reg_mr_iova(pd, e.memory[1], SIZE, PAGE, IBV_ACCESS_LOCAL_WRITE);
	MUST(mr && !ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE));
	char *at = e.memory[1];
	MUST(!ibv_dereg_mr(e.mr[1]));
	e.mr[1] = mr, e.memory[1] = (char *)PAGE;
	expect("WRITE after more access", request(&e, IBV_WR_RDMA_WRITE, 64), IBV_WC_SUCCESS);
	MUST(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, at, PAGE, 0) && mr->length == PAGE);
	e.memory[1] = at;
	expect("WRITE to another place", request(&e, IBV_WR_RDMA_WRITE, 64), IBV_WC_SUCCESS);
	expect("WRITE beyond", request(&e, IBV_WR_RDMA_WRITE, PAGE + 1), IBV_WC_REM_ACCESS_ERR);
	MUST(ibv_rereg_mr(mr, 1 << 9, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT && errno == EINVAL);
}

/* What is no memory, or no length, is refused, and ends nothing. */
static void nonsense(void) {
	open_device();
	struct ends e = make_ends();
	const int access = IBV_ACCESS_LOCAL_WRITE;
	MUST(!ibv_reg_mr(pd, NULL, PAGE, access) && errno == EFAULT);
	MUST(!ibv_reg_mr(pd, e.memory[0], SIZE_MAX, access) && errno == EFAULT);
	MUST(!ibv_reg_mr(pd, e.memory[0], (size_t)1 << 63, access) && errno == EFAULT);
	struct ibv_sge sge = {(uintptr_t)e.memory[0], 8, e.mr[0]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = -1, .opcode = IBV_WR_SEND}, *bad = NULL;
	struct ibv_recv_wr receive = {.sg_list = &sge, .num_sge = -1}, *worse = NULL;
	MUST(ibv_post_send(e.qp[0], &wr, &bad) == EINVAL && bad == &wr);
	MUST(ibv_post_recv(e.qp[0], &receive, &worse) == EINVAL && worse == &receive);
	wr.sg_list = receive.sg_list = NULL, wr.num_sge = receive.num_sge = 1;
	MUST(ibv_post_send(e.qp[0], &wr, &bad) == EINVAL && ibv_post_recv(e.qp[0], &receive, &worse) == EINVAL);
	struct ibv_qp_init_attr odd = {.send_cq = e.cq, .recv_cq = e.cq, .qp_type = (enum ibv_qp_type)258, .cap = {1, 1, 1, 1, 0}};
	MUST(!ibv_create_qp(pd, &odd) && errno == EOPNOTSUPP);
	MUST(!ibv_req_notify_cq(e.cq, 0)); /* it has no channel: nobody is told */
	struct ibv_parent_domain_init_attr of = {.pd = pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(context, &of);
	MUST(parent);
	close_ends(&e);
	MUST(ibv_dealloc_pd(pd) == EBUSY && !ibv_dealloc_pd(parent) && !ibv_dealloc_pd(pd));
}

/* write_list posts n requests by ibv_wr_*, each with its list set as often, and returns what ibv_wr_complete said. */
static int write_list(struct ibv_qp_ex *q, struct ends *e, uint64_t id, int n, int often) {
	struct ibv_sge list[2] = {{(uintptr_t)e->memory[0], 8, e->mr[0]->lkey}, {(uintptr_t)e->memory[0], 8, e->mr[0]->lkey}};
	ibv_wr_start(q);
	for (int i = 0; i < n; i++) {
		q->wr_id = id, q->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(q, e->mr[1]->rkey, (uintptr_t)e->memory[1]);
		for (int k = 0; k < often; k++)
			ibv_wr_set_sge_list(q, 2, list);
	}
	return ibv_wr_complete(q);
}

/* Of a list that ibv_wr_complete refuses nothing is posted; of several lists of one request the last counts. */
static void lists(void) {
	open_device();
	struct ends e = make_ends();
	struct ibv_qp_init_attr_ex a = {
		.send_cq = e.cq, .recv_cq = e.cq, .qp_type = IBV_QPT_RC, .cap = {16, 16, 2, 1, 64}, .pd = pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
	};
	struct ibv_qp *from = ibv_create_qp_ex(context, &a);
	MUST(from);
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	MUST(!ibv_modify_qp(e.qp[1], &reset, IBV_QP_STATE));
	connect_to(from, e.qp[1]->qp_num);
	connect_to(e.qp[1], from->qp_num);
	struct ibv_qp_ex *q = ibv_qp_to_qp_ex(from);
	MUST(!write_list(q, &e, 1, 10, 1));
	MUST(write_list(q, &e, 2, 10, 1) == ENOMEM);
	for (int i = 0; i < 10; i++)
		expect("WRITE", completion(&e), IBV_WC_SUCCESS);
	MUST(!write_list(q, &e, 3, 16, 8));
	for (int i = 0; i < 16; i++) {
		struct ibv_wc wc = {0};
		while (!ibv_poll_cq(e.cq, 1, &wc))
			;
		MUST(wc.wr_id == 3 && wc.status == IBV_WC_SUCCESS);
	}
	MUST(!ibv_destroy_qp(from));
}

/* Threads may share an extended queue: each completion is seen once. */
enum { SHARED = 20000 };
static struct ibv_cq_ex *shared;
static uint8_t times[SHARED];
static int all_seen;

static void *poll_shared(void *nothing) {
	struct ibv_poll_cq_attr none = {0};
	while (__atomic_load_n(&all_seen, __ATOMIC_RELAXED) < SHARED) {
		if (ibv_start_poll(shared, &none))
			continue;
		do {
			__atomic_add_fetch(&times[shared->wr_id], 1, __ATOMIC_RELAXED);
			__atomic_add_fetch(&all_seen, 1, __ATOMIC_RELAXED);
		} while (shared->wr_id % 5 && !ibv_next_poll(shared));
		ibv_end_poll(shared);
	}
	return nothing;
}

static void shares(void) {
	open_device();
	struct ends e = make_ends();
	struct ibv_cq_init_attr_ex c = {.cqe = 1024, .wc_flags = IBV_WC_STANDARD_FLAGS};
	MUST((shared = ibv_create_cq_ex(context, &c)));
	struct ibv_cq *cq = ibv_cq_ex_to_cq(shared);
	struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {512, 1, 1, 1, 0}};
	struct ibv_qp *from = ibv_create_qp(pd, &a), *to = e.qp[1];
	MUST(from && !ibv_modify_qp(to, &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE));
	connect_to(from, to->qp_num);
	connect_to(to, from->qp_num);
	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		MUST(!pthread_create(&t[i], NULL, poll_shared, NULL));
	struct ibv_sge sge = {(uintptr_t)e.memory[0], 8, e.mr[0]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	wr.wr.rdma.remote_addr = (uintptr_t)e.memory[1], wr.wr.rdma.rkey = e.mr[1]->rkey;
	for (int error; wr.wr_id < SHARED; wr.wr_id += !error)
		if ((error = ibv_post_send(from, &wr, &bad)))
			MUST(error == ENOMEM && !usleep(20));
	for (int i = 0; i < 4; i++)
		MUST(!pthread_join(t[i], NULL));
	for (int i = 0; i < SHARED; i++)
		MUST(times[i] == 1);
}

/* The event of a limit comes once, and takes the limit away. */
static void limits(void) {
	open_device();
	struct ibv_srq_init_attr of = {.attr = {.max_wr = 16, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &of);
	struct ibv_srq_attr attr = {.srq_limit = 4};
	MUST(srq && !ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT)); /* there are none: it comes at once */
	struct ibv_async_event event;
	MUST(!ibv_get_async_event(context, &event) && event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && event.element.srq == srq);
	ibv_ack_async_event(&event);
	MUST(!ibv_query_srq(srq, &attr) && attr.srq_limit == 0 && attr.max_wr == 16);
	MUST(!ibv_destroy_srq(srq));
}

/* Threads read events while what they are of is destroyed. */
static struct ibv_comp_channel *channel;

static void *read_events(void *nothing) {
	struct ibv_async_event event;
	while (!ibv_get_async_event(context, &event))
		ibv_ack_async_event(&event);
	return nothing;
}

static void *read_completions(void *nothing) {
	struct ibv_cq *cq;
	void *mine;
	while (!ibv_get_cq_event(channel, &cq, &mine))
		ibv_ack_cq_events(cq, 1);
	return nothing;
}

static void destroys(void) {
	pthread_t t[2];
	open_device();
	MUST((channel = ibv_create_comp_channel(context)));
	MUST(!pthread_create(&t[0], NULL, read_events, NULL) && !pthread_create(&t[1], NULL, read_completions, NULL));
	for (int i = 0; i < 1500; i++) {
		struct ibv_srq_init_attr of = {.attr = {.max_wr = 1, .max_sge = 1}};
		struct ibv_srq *srq = ibv_create_srq(pd, &of);
		struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, channel, 0);
		struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_UC, .cap = {1, 1, 1, 1, 0}};
		struct ibv_qp *qp = ibv_create_qp(pd, &a);
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
		MUST(qp && !ibv_req_notify_cq(cq, 0));
		MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
		attr.qp_state = IBV_QPS_ERR; /* raises IBV_EVENT_QP_LAST_WQE_REACHED */
		MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
		usleep(i % 2 ? i % 100 : 0);
		MUST(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) && !ibv_destroy_cq(cq));
	}
}

/* What a queue pair leaves in an extended queue goes with it, also behind a completion that was read. */
static void leaves(void) {
	open_device();
	struct ends e = make_ends();
	struct ibv_cq_init_attr_ex c = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_poll_cq_attr none = {0};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &c);
	struct ibv_qp_init_attr a = {.send_cq = e.cq, .recv_cq = ibv_cq_ex_to_cq(cq), .qp_type = IBV_QPT_RC, .cap = {1, 16, 1, 1, 0}};
	for (int round = 0; round < 2; round++) {
		struct ibv_qp *qp[2];
		for (int i = 0; i < 2; i++) {
			struct ibv_recv_wr wr = {.wr_id = (uint64_t)i}, *bad;
			struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
			MUST((qp[i] = ibv_create_qp(pd, &a)));
			MUST(!ibv_modify_qp(qp[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
			for (int k = 0; k < 6; k++)
				MUST(!ibv_post_recv(qp[i], &wr, &bad));
			attr.qp_state = IBV_QPS_ERR;
			MUST(!ibv_modify_qp(qp[i], &attr, IBV_QP_STATE));
		}
		MUST(!ibv_start_poll(cq, &none) && cq->wr_id == 0 && cq->status == IBV_WC_WR_FLUSH_ERR);
		ibv_end_poll(cq);
		if (round == 0)
			MUST(!ibv_destroy_qp(qp[0]));
		else
			MUST(!ibv_modify_qp(qp[0], &(struct ibv_qp_attr){.qp_state = IBV_QPS_RESET}, IBV_QP_STATE));
		for (int k = 0; k < 6; k++) {
			MUST(!ibv_start_poll(cq, &none) && cq->wr_id == 1);
			ibv_end_poll(cq);
		}
		MUST(ibv_start_poll(cq, &none) == ENOENT);
	}
}

/* Threads destroy queue pairs whose events nobody reads, while no descriptor is left. */
enum { THREADS = 4, OF_EACH = 200 };

static void *destroy_all(void *of) {
	for (int i = 0; i < OF_EACH; i++)
		MUST(!ibv_destroy_qp(((struct ibv_qp **)of)[i]));
	return NULL;
}

static void unread(void) {
	static struct ibv_qp *qp[THREADS][OF_EACH];
	pthread_t t[THREADS];
	open_device();
	struct ends e = make_ends();
	struct ibv_srq_init_attr of = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_qp_init_attr a = {.send_cq = e.cq, .recv_cq = e.cq, .srq = ibv_create_srq(pd, &of), .qp_type = IBV_QPT_UC,
				     .cap = {1, 1, 1, 1, 0}};
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < THREADS * OF_EACH; i++) {
			struct ibv_qp **q = &qp[i / OF_EACH][i % OF_EACH];
			struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
			MUST((*q = ibv_create_qp(pd, &a)));
			MUST(!ibv_modify_qp(*q, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
			attr.qp_state = IBV_QPS_ERR;
			MUST(!ibv_modify_qp(*q, &attr, IBV_QP_STATE));
		}
		usleep(20000);
		MUST(!setrlimit(RLIMIT_NOFILE, &(struct rlimit){0, 0}));
		for (int i = 0; i < THREADS; i++)
			MUST(!pthread_create(&t[i], NULL, destroy_all, qp[i]));
		for (int i = 0; i < THREADS; i++)
			MUST(!pthread_join(t[i], NULL));
	}
}

/* Many queue pairs fail at once, and as many queues have an event each: none is lost before the program reads. */
enum { CROWD = 5000 };

static int waiting(int fd) {
	struct pollfd p = {.fd = fd, .events = POLLIN};
	return poll(&p, 1, 10000) == 1;
}

static void crowds(void) {
	static struct ibv_qp *qp[CROWD];
	open_device();
	MUST((channel = ibv_create_comp_channel(context)));
	struct ends e = make_ends();
	struct ibv_srq_init_attr of = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(pd, &of);
	int told = 0, completed = 0;
	for (int i = 0; i < CROWD; i++) {
		struct ibv_cq *cq = ibv_create_cq(context, 2, NULL, channel, 0);
		struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					     .cap = {1, 1, 1, 1, 0}};
		MUST(cq && !ibv_req_notify_cq(cq, 0) && (qp[i] = ibv_create_qp(pd, &a)));
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
		MUST(!ibv_modify_qp(qp[i], &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
		if (i < 300) /* their peer does not exist: all give up at once */
			connect_to(qp[i], 5);
		attr.qp_state = IBV_QPS_ERR;
		if (i >= 300)
			MUST(!ibv_modify_qp(qp[i], &attr, IBV_QP_STATE));
	}
	struct ibv_sge sge = {(uintptr_t)e.memory[0], 8, e.mr[0]->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	for (int i = 0; i < CROWD; i++)
		MUST(!ibv_post_send(qp[i], &wr, &bad));
	for (; completed < CROWD && waiting(channel->fd); completed++) {
		struct ibv_cq *cq;
		void *mine;
		MUST(!ibv_get_cq_event(channel, &cq, &mine));
		ibv_ack_cq_events(cq, 1);
		if (completed == 0) /* the pipes have filled by now */
			sleep(4);
	}
	for (; told < CROWD && waiting(context->async_fd); told++) {
		struct ibv_async_event event;
		MUST(!ibv_get_async_event(context, &event) && event.event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
		ibv_ack_async_event(&event);
	}
	if (completed != CROWD || told != CROWD) {
		fprintf(stderr, "%d completion events and %d of queue pairs, want %d\n", completed, told, CROWD);
		exit(1);
	}
}

/* Go's runtime would end the program. */
static void too_little_address_space(void) {
	struct rlimit limit = {500 << 20, 500 << 20};
	MUST(!setrlimit(RLIMIT_AS, &limit));
	MUST(!ibv_open_device(ibv_get_device_list(NULL)[0]) && errno == ENOMEM);
}

/* Where the program has no handler, a fault ends it by its signal. */
static void crash(void) {
	struct rlimit none = {0, 0};
	setrlimit(RLIMIT_CORE, &none);
	open_device();
	writes(1);
	*(volatile int *)8 = 1;
}

int main(int argc, char **argv) {
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "fork"))
		forks();
	else if (!strcmp(what, "handler-before"))
		handlers(1);
	else if (!strcmp(what, "handler-after"))
		handlers(0);
	else if (!strcmp(what, "threads"))
		threads();
	else if (!strcmp(what, "unmap"))
		unmaps();
	else if (!strcmp(what, "close"))
		closes();
	else if (!strcmp(what, "windows"))
		windows();
	else if (!strcmp(what, "deep-handlers"))
		deep_handlers();
	else if (!strcmp(what, "exit-in-handler"))
		exits_in_handler();
	else if (!strcmp(what, "exit-in-malloc"))
		exits_in_malloc();
	else if (!strcmp(what, "exit-beside-threads"))
		exits_beside_threads();
	else if (!strcmp(what, "rereg"))
		registers_again();
	else if (!strcmp(what, "address-space"))
		too_little_address_space();
	else if (!strcmp(what, "nonsense"))
		nonsense();
	else if (!strcmp(what, "lists"))
		lists();
	else if (!strcmp(what, "shares"))
		shares();
	else if (!strcmp(what, "limits"))
		limits();
	else if (!strcmp(what, "destroys"))
		destroys();
	else if (!strcmp(what, "leaves"))
		leaves();
	else if (!strcmp(what, "unread"))
		unread();
	else if (!strcmp(what, "crowds"))
		crowds();
	else if (!strcmp(what, "crash"))
		crash();
	else
		return 2;
	return 0;
}

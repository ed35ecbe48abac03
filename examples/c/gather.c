/* The assignment, gather on WRITE (G-WR): a strided layout goes into contiguous memory of the other end, once by the NIC with a
 * scatter/gather list and once by the CPU, which packs it first. Prints a table, and one line of JSON for a grader.
 *
 *   gobw run -- ./gather                          one end
 *   gobw run -- ./gather HOST [MESSAGE [STRIDE]]  the other end: bytes of a message (65536), stride in block sizes (2)
 *
 * "make starter" writes starter.c, which lacks the three parts that begin with GAP.
 */
#include <time.h>

#include "end.h"

#define LARGEST (1 << 20)
#define MESSAGES 200

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* A layout is num blocks of block bytes; the first bytes of two blocks are stride bytes apart. */
struct layout {
	int block, num, stride;
};

/* value is what byte i of a message holds, so that a byte in a wrong place is seen. */
static uint8_t value(int i) { return (uint8_t)(i * 7 + i / 251); }

/* pack copies the blocks of a layout, which begins at from, into contiguous memory. */
static void pack(const struct layout *l, const uint8_t *from, uint8_t *to)
{
	/* GAP 1: copy block after block. */
	for (int i = 0; i < l->num; i++)
		memcpy(to + (size_t)i * l->block, from + (size_t)i * l->stride, l->block);
	/* END */
}

/* gather posts a message as WRITEs of at most max_sge blocks each. Only the last one is signaled. It returns how many. */
static int gather(struct end *e, const struct layout *l, const struct address *peer)
{
	struct ibv_sge list[l->num];
	int requests = 0;
	/* GAP 2: fill the list, and post it in pieces of e->max_sge entries. */
	for (int i = 0; i < l->num; i++)
		list[i] = (struct ibv_sge){(uintptr_t)e->memory + (size_t)i * l->stride, l->block, e->mr->lkey};
	for (int i = 0; i < l->num; i += e->max_sge, requests++) {
		int entries = l->num - i < e->max_sge ? l->num - i : e->max_sge;
		int last = i + entries == l->num;
		int flags = last || requests % (DEPTH / 2) == DEPTH / 2 - 1 ? IBV_SEND_SIGNALED : 0;
		must(post_write(e, list + i, entries, peer->memory + (size_t)i * l->block, peer->rkey, flags), "ibv_post_send");
		if (flags && !last && complete(e) != IBV_WC_SUCCESS)
			return -1;
	}
	/* END */
	return requests;
}

/* packed sends a message that was packed into the second half of the memory. */
static int packed(struct end *e, const struct layout *l, const struct address *peer)
{
	uint8_t *buffer = e->memory + e->bytes / 2;
	pack(l, e->memory, buffer);
	struct ibv_sge sge = {(uintptr_t)buffer, (uint32_t)(l->block * l->num), e->mr->lkey};
	must(post_write(e, &sge, 1, peer->memory, peer->rkey, IBV_SEND_SIGNALED), "ibv_post_send");
	return 1;
}

/* measure sends MESSAGES messages one after the other, and returns the goodput in Gb/s; 0: a request failed. */
static double measure(struct end *e, const struct layout *l, const struct address *peer,
		      int (*strategy)(struct end *, const struct layout *, const struct address *), int *requests)
{
	double begun = now();
	for (int i = 0; i < MESSAGES; i++) {
		*requests = strategy(e, l, peer);
		/* GAP 3: wait until the message has arrived, and see whether it has. */
		enum ibv_wc_status status = *requests < 0 ? IBV_WC_GENERAL_ERR : complete(e);
		if (status != IBV_WC_SUCCESS) {
			fprintf(stderr, "%s\n", ibv_wc_status_str(status));
			return 0;
		}
		/* END */
	}
	return 8.0 * l->block * l->num * MESSAGES / (now() - begun) / 1e9;
}

/* checks compares a message that has arrived with what was sent. */
static int checks(const struct end *e, const struct layout *l)
{
	for (int i = 0; i < l->block * l->num; i++)
		if (e->memory[i] != value(i))
			return 0;
	return 1;
}

int main(int argc, char **argv)
{
	const char *host = argc > 1 ? argv[1] : NULL;
	int message = argc > 2 ? atoi(argv[2]) : 65536, factor = argc > 3 ? atoi(argv[3]) : 2;
	if (message < 1 || message > LARGEST || factor < 1 || factor > 64) {
		fprintf(stderr, "want a message of 1 to %d bytes, and a stride of 1 to 64 blocks\n", LARGEST);
		return 2;
	}
	struct end e;
	struct address peer;
	struct layout l = {0}, theirs;
	int conn = meet(host), good = 1, verified = 1;

	open_end(&e, 2 * (size_t)LARGEST * 64);
	swap(conn, &e.here, &peer, sizeof peer);
	ready(&e, &peer, 7);
	if (host)
		printf("block B  blocks  requests  gather Gb/s  pack Gb/s  ratio\n");
	double crossover = 0, before = 0;
	for (int block = 64; host && block <= 8192 && block <= message; block *= 2) {
		l = (struct layout){block, message / block, block * factor};
		for (int i = 0; i < l.block * l.num; i++)
			e.memory[(size_t)(i / block) * l.stride + i % block] = value(i);
		double rate[2];
		int requests[2];
		for (int k = 0; k < 2; k++) {
			rate[k] = measure(&e, &l, &peer, k ? packed : gather, &requests[k]);
			swap(conn, &l, &theirs, sizeof l); /* the other end compares what has arrived, and clears it */
			swap(conn, &good, &good, sizeof good);
			verified = verified && good && rate[k] > 0;
		}
		double ratio = rate[0] / rate[1];
		printf("%7d %7d %9d %12.2f %10.2f %6.2f\n", block, l.num, requests[0], rate[0], rate[1], ratio);
		if (crossover == 0 && ratio >= 1 && before < 1)
			crossover = block;
		before = ratio;
	}
	if (host) {
		l.block = 0;
		swap(conn, &l, &theirs, sizeof l);
		printf("{\"shape\": \"G-WR\", \"message_bytes\": %d, \"verified\": %s, \"crossover_bytes\": %.0f}\n", message,
		       verified ? "true" : "false", crossover);
	}
	while (!host) {
		swap(conn, &l, &theirs, sizeof l);
		if (theirs.block == 0)
			break;
		good = checks(&e, &theirs);
		memset(e.memory, 0, (size_t)theirs.block * theirs.num);
		swap(conn, &good, &good, sizeof good);
		if (!good)
			fprintf(stderr, "blocks of %d bytes: a byte is wrong\n", theirs.block);
		verified = verified && good;
	}
	close_end(&e);
	return verified ? 0 : 1;
}

/* The assignment, gather on SEND and scatter on RECV (GSSR): a strided layout goes into a strided layout of the other
 * end, once by the NICs with scatter/gather lists and once by the CPUs: one packs, the other unpacks. Usage and output
 * are those of gather.c. A SEND needs a receive that waits for it. So the passive end posts the receives of a message
 * and then says so, by an empty SEND; the active end waits for that before each message. */
#include "table.h"

static void copy(const struct layout *l, uint8_t *strided, uint8_t *packed, int unpacks)
{
	/* GAP 1: copy block after block, in one direction or the other. */
	for (int i = 0; i < l->num; i++) {
		uint8_t *block = strided + (size_t)i * l->stride, *place = packed + (size_t)i * l->block;
		memcpy(unpacks ? block : place, unpacks ? place : block, l->block);
	}
	/* END */
}

static void post_send(struct end *e, struct ibv_sge *list, int entries, int flags)
{
	struct ibv_send_wr *bad, wr = {.sg_list = list, .num_sge = entries, .opcode = IBV_WR_SEND, .send_flags = flags};
	must(ibv_post_send(e->qp, &wr, &bad), "ibv_post_send");
}

static void post_receive(struct end *e, struct ibv_sge *list, int entries)
{
	struct ibv_recv_wr *bad, wr = {.sg_list = list, .num_sge = entries};
	must(ibv_post_recv(e->qp, &wr, &bad), "ibv_post_recv");
}

/* part fills the list of request k of a message, and returns how many entries it has; 0: there is no such request. */
static int part(struct end *e, const struct layout *l, int k, int packs, struct ibv_sge *list)
{
	if (packs) {
		list[0] = (struct ibv_sge){(uintptr_t)contiguous(e), (uint32_t)(l->block * l->num), e->mr->lkey};
		return k == 0;
	}
	if (k > l->num) { /* a request has a block at least */
		fprintf(stderr, "request %d of %d blocks: part must return 0 behind the last block\n", k, l->num);
		exit(1);
	}
	int n = 0;
	/* GAP 2: fill entries for the blocks of request k, at most e->max_sge. n is how many they are. */
	for (int i = k * e->max_sge; i < l->num && n < e->max_sge; i++, n++)
		list[n] = (struct ibv_sge){(uintptr_t)e->memory + (size_t)i * l->stride, l->block, e->mr->lkey};
	/* END */
	return n;
}

/* move sends a message in rounds of at most DEPTH / 2 requests, and waits for the peer's word before each. The receive
 * for the next word is posted before the peer can send it: else the peer's device would have to try again later. */
static int move(struct end *e, const struct layout *l, int packs)
{
	static int begun;
	if (!begun++)
		post_receive(e, NULL, 0);
	struct ibv_sge list[e->max_sge];
	for (int k = 0, entries = part(e, l, 0, packs, list); entries > 0;) {
		if (arrived(complete(e)) != 0)
			return -1;
		post_receive(e, NULL, 0);
		do {
			post_send(e, list, entries, IBV_SEND_SIGNALED);
			entries = part(e, l, ++k, packs, list);
		} while (entries > 0 && k % (DEPTH / 2) != 0);
		for (int done = (k - 1) / (DEPTH / 2) * (DEPTH / 2); done < k; done++)
			if (arrived(complete(e)) != 0)
				return -1;
	}
	return 0;
}

/* receives is the passive end's part in a message. */
static int receives(struct end *e, const struct layout *l, int packs)
{
	struct ibv_sge list[e->max_sge];
	for (int k = 0, entries = part(e, l, 0, packs, list); entries > 0;) {
		int posted = 0;
		do {
			post_receive(e, list, entries);
			entries = part(e, l, ++k, packs, list);
			posted++;
		} while (entries > 0 && k % (DEPTH / 2) != 0);
		post_send(e, NULL, 0, IBV_SEND_SIGNALED);
		/* GAP 3: wait for all receives of this round and for the own SEND, and see whether they succeeded. */
		for (int i = 0; i < posted + 1; i++)
			if (arrived(complete(e)) != 0)
				return -1;
		/* END */
	}
	if (packs)
		copy(l, e->memory, contiguous(e), 1);
	return 0;
}

static int lists(struct end *e, const struct layout *l, const struct address *peer)
{
	(void)peer; /* a SEND names no memory of the peer */
	return move(e, l, 0);
}

static int packs(struct end *e, const struct layout *l, const struct address *peer)
{
	(void)peer;
	copy(l, e->memory, contiguous(e), 0);
	return move(e, l, 1);
}

int main(int argc, char **argv)
{
	struct shape shape = {
		.name = "GSSR", .from_strided = 1, .to_strided = 1, .lists = lists, .packs = packs, .receives = receives,
	};
	return table(argc, argv, &shape);
}

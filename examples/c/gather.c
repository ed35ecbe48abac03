/* The assignment, gather on WRITE (G-WR): a strided layout goes into contiguous memory of the other end, once by the NIC with a
 * scatter/gather list and once by the CPU, which packs it first. Prints a table, and one line of JSON for a grader.
 *
 *   gobw run -- ./gather                          one end
 *   gobw run -- ./gather HOST [MESSAGE [STRIDE]]  the other end: bytes of a message (65536), stride in block sizes (2)
 *
 * "make starter" writes starter.c, which lacks the three parts that begin with GAP; "make starter FROM=scatter" and
 * FROM=exchange, those of the other two programs.
 */
#include "table.h"

/* pack copies the blocks of a layout, which begins at from, into contiguous memory. */
static void pack(const struct layout *l, const uint8_t *from, uint8_t *to)
{
	/* GAP 1: copy block after block. */
	for (int i = 0; i < l->num; i++)
		memcpy(to + (size_t)i * l->block, from + (size_t)i * l->stride, l->block);
	/* END */
}

/* lists moves a message by WRITEs of at most max_sge blocks each. The last one is signaled, and some before it, since
 * requests keep their places in the queue until a signaled one behind them was polled. */
static int lists(struct end *e, const struct layout *l, const struct address *peer)
{
	struct ibv_sge list[l->num];
	/* GAP 2: fill the list, and post it in pieces of e->max_sge entries. */
	for (int i = 0; i < l->num; i++)
		list[i] = (struct ibv_sge){(uintptr_t)e->memory + (size_t)i * l->stride, l->block, e->mr->lkey};
	for (int i = 0, requests = 1; i < l->num; i += e->max_sge, requests++) {
		int entries = l->num - i < e->max_sge ? l->num - i : e->max_sge;
		int last = i + entries == l->num;
		int flags = last || requests % (DEPTH / 2) == 0 ? IBV_SEND_SIGNALED : 0;
		must(post_write(e, list + i, entries, peer_contiguous(e, peer) + (size_t)i * l->block, peer->rkey, flags), "ibv_post_send");
		if (flags && arrived(complete(e)) != 0)
			return -1;
	}
	/* END */
	return 0;
}

/* packs moves a message as one WRITE, after the CPU has packed it. */
static int packs(struct end *e, const struct layout *l, const struct address *peer)
{
	pack(l, e->memory, contiguous(e));
	struct ibv_sge sge = {(uintptr_t)contiguous(e), (uint32_t)(l->block * l->num), e->mr->lkey};
	must(post_write(e, &sge, 1, peer_contiguous(e, peer), peer->rkey, IBV_SEND_SIGNALED), "ibv_post_send");
	/* GAP 3: wait until the message has arrived, and see whether it has. */
	if (arrived(complete(e)) != 0)
		return -1;
	/* END */
	return 0;
}

int main(int argc, char **argv)
{
	struct shape shape = {.name = "G-WR", .from_strided = 1, .lists = lists, .packs = packs};
	return table(argc, argv, &shape);
}

/* The assignment, scatter on READ (S-RD): contiguous memory of the other end goes into a strided layout, once by the
 * NIC with a scatter/gather list and once by the CPU, which unpacks what one READ has brought. Usage and output are
 * those of gather.c. */
#include "table.h"

/* unpack copies contiguous memory into the blocks of a layout, which begins at to. */
static void unpack(const struct layout *l, const uint8_t *from, uint8_t *to)
{
	/* GAP 1: copy block after block. */
	for (int i = 0; i < l->num; i++)
		memcpy(to + (size_t)i * l->stride, from + (size_t)i * l->block, l->block);
	/* END */
}

static void post_read(struct end *e, struct ibv_sge *list, int entries, uint64_t from, uint32_t rkey, int flags)
{
	struct ibv_send_wr *bad, wr = {
		.sg_list = list, .num_sge = entries, .opcode = IBV_WR_RDMA_READ, .send_flags = flags,
		.wr.rdma = {.remote_addr = from, .rkey = rkey},
	};
	must(ibv_post_send(e->qp, &wr, &bad), "ibv_post_send");
}

/* lists moves a message by READs of at most max_sge_rd blocks each: a device may allow fewer entries to a READ. */
static int lists(struct end *e, const struct layout *l, const struct address *peer)
{
	struct ibv_sge list[l->num];
	/* GAP 2: fill the list, and post it in pieces of e->max_sge_rd entries. */
	for (int i = 0; i < l->num; i++)
		list[i] = (struct ibv_sge){(uintptr_t)e->memory + (size_t)i * l->stride, l->block, e->mr->lkey};
	for (int i = 0, requests = 1; i < l->num; i += e->max_sge_rd, requests++) {
		int entries = l->num - i < e->max_sge_rd ? l->num - i : e->max_sge_rd;
		int last = i + entries == l->num;
		int flags = last || requests % (DEPTH / 2) == 0 ? IBV_SEND_SIGNALED : 0;
		post_read(e, list + i, entries, peer_contiguous(e, peer) + (size_t)i * l->block, peer->rkey, flags);
		if (flags && arrived(complete(e)) != 0)
			return -1;
	}
	/* END */
	return 0;
}

/* packs moves a message by one READ. Its completion says that the data is here: then the CPU can unpack it. */
static int packs(struct end *e, const struct layout *l, const struct address *peer)
{
	struct ibv_sge sge = {(uintptr_t)contiguous(e), (uint32_t)(l->block * l->num), e->mr->lkey};
	post_read(e, &sge, 1, peer_contiguous(e, peer), peer->rkey, IBV_SEND_SIGNALED);
	/* GAP 3: wait until the data is here, and see whether it is. */
	if (arrived(complete(e)) != 0)
		return -1;
	/* END */
	unpack(l, contiguous(e), e->memory);
	return 0;
}

int main(int argc, char **argv)
{
	struct shape shape = {.name = "S-RD", .reads = 1, .to_strided = 1, .lists = lists, .packs = packs};
	return table(argc, argv, &shape);
}

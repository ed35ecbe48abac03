/* What is wrong? The SEND is refused again and again. */
#include "pair.h"

int main(void)
{
	struct pair p;
	open_pair(&p, 4096, 1);
	struct ibv_sge sge = {(uintptr_t)p.a.memory, 64, p.a.mr->lkey};
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};
	must(ibv_post_send(p.a.qp, &wr, &bad), "ibv_post_send");
	return told(complete(&p.a));
}

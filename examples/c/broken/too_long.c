/* What is wrong? Nothing leaves this end. */
#include "pair.h"

int main(void)
{
	struct pair p;
	open_pair(&p, 4096, 7);
	struct ibv_sge list[2] = {
		{(uintptr_t)p.a.memory, 64, p.a.mr->lkey},
		{(uintptr_t)p.a.memory + 4064, 64, p.a.mr->lkey},
	};
	must(post_write(&p.a, list, 2, p.b.here.memory, p.b.here.rkey, IBV_SEND_SIGNALED), "ibv_post_send");
	return told(complete(&p.a));
}

/* What is wrong? The peer does not let the WRITE in. */
#include "pair.h"

int main(void)
{
	struct pair p;
	open_pair(&p, 4096, 7);
	struct ibv_sge sge = {(uintptr_t)p.a.memory, 64, p.a.mr->lkey};
	must(post_write(&p.a, &sge, 1, p.b.here.memory, p.a.mr->rkey, IBV_SEND_SIGNALED), "ibv_post_send");
	return told(complete(&p.a));
}

/* What is wrong? The request is not even taken. */
#include "pair.h"

int main(void)
{
	struct pair p;
	open_end(&p.a, 4096);
	open_end(&p.b, 4096);
	struct ibv_sge sge = {(uintptr_t)p.a.memory, 64, p.a.mr->lkey};
	must(post_write(&p.a, &sge, 1, p.b.here.memory, p.b.here.rkey, IBV_SEND_SIGNALED), "ibv_post_send");
	return told(complete(&p.a));
}

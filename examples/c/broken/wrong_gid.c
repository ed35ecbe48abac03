/* What is wrong? The WRITE never arrives. */
#include "pair.h"

int main(void)
{
	struct pair p;
	open_end(&p.a, 4096);
	open_end(&p.b, 4096);
	struct address peer = p.b.here;
	peer.gid.raw[15] ^= 0x55;
	ready(&p.a, &peer, 1);
	ready(&p.b, &p.a.here, 1);
	struct ibv_sge sge = {(uintptr_t)p.a.memory, 64, p.a.mr->lkey};
	must(post_write(&p.a, &sge, 1, peer.memory, peer.rkey, IBV_SEND_SIGNALED), "ibv_post_send");
	return told(complete(&p.a));
}

/* What is wrong? A short message arrives, and a long one does not. */
#include "pair.h"

int main(void)
{
	struct pair p;
	open_end(&p.a, 65536);
	open_end(&p.b, 65536);
	struct address small = p.a.here;
	small.mtu = IBV_MTU_1024;
	ready(&p.a, &p.b.here, 1);
	ready(&p.b, &small, 1);
	for (int bytes = 64; bytes <= 65536; bytes *= 1024) {
		struct ibv_sge sge = {(uintptr_t)p.a.memory, bytes, p.a.mr->lkey};
		must(post_write(&p.a, &sge, 1, p.b.here.memory, p.b.here.rkey, IBV_SEND_SIGNALED), "ibv_post_send");
		printf("%d bytes: ", bytes);
		if (told(complete(&p.a)))
			return 1;
	}
	return 0;
}

/* What is wrong? The first requests are taken, and then none. */
#include "pair.h"

int main(void)
{
	struct pair p;
	open_pair(&p, 4096, 7);
	struct ibv_sge sge = {(uintptr_t)p.a.memory, 64, p.a.mr->lkey};
	for (int i = 0; i < 10 * DEPTH; i++) {
		int code = post_write(&p.a, &sge, 1, p.b.here.memory, p.b.here.rkey, 0);
		if (code) {
			printf("request %d: ", i + 1);
			fflush(stdout);
		}
		must(code, "ibv_post_send");
	}
	return 0;
}

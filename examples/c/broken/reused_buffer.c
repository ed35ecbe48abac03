/* What is wrong? Each status is "success", and the data is not what was sent. */
#include "pair.h"

#define BYTES (8 << 20)

int main(void)
{
	struct pair p;
	open_pair(&p, BYTES, 7);
	memset(p.a.memory, 'A', BYTES);
	struct ibv_sge sge = {(uintptr_t)p.a.memory, BYTES, p.a.mr->lkey};
	must(post_write(&p.a, &sge, 1, p.b.here.memory, p.b.here.rkey, IBV_SEND_SIGNALED), "ibv_post_send");
	memset(p.a.memory, 'B', BYTES); /* the next message */
	int failed = told(complete(&p.a));
	for (int i = 0; i < BYTES; i++)
		if (p.b.memory[i] != 'A') {
			printf("byte %d is %c, want A\n", i, p.b.memory[i]);
			return 1;
		}
	return failed;
}

/* The first program of the course: one end WRITEs a string into the memory of the other.
 *
 *   gobw run -- ./hello_verbs            one end, on a machine without an RDMA device
 *   gobw run -- ./hello_verbs HOST       the other end
 */
#include "end.h"

int main(int argc, char **argv)
{
	static const char greeting[] = "hello verbs";
	const char *host = argc > 1 ? argv[1] : NULL;
	struct end e;
	struct address peer;
	char done = 0;

	int conn = meet(host);
	open_end(&e, 4096);
	swap(conn, &e.here, &peer, sizeof peer);
	ready(&e, &peer, 7);
	swap(conn, &done, &done, 1); /* both ends are ready */
	if (host) {
		memcpy(e.memory, greeting, sizeof greeting);
		struct ibv_sge sge = {(uintptr_t)e.memory, sizeof greeting, e.mr->lkey};
		must(post_write(&e, &sge, 1, peer.memory, peer.rkey, IBV_SEND_SIGNALED), "ibv_post_send");
		enum ibv_wc_status status = complete(&e);
		printf("%s: WRITE of %zu bytes\n", ibv_wc_status_str(status), sizeof greeting);
		if (status != IBV_WC_SUCCESS)
			return 1;
	}
	swap(conn, &done, &done, 1); /* the WRITE is complete: this end's CPU had no part in it */
	if (!host)
		printf("my memory says: %s\n", (char *)e.memory);
	close_end(&e);
	return 0;
}

//go:build cgo

package cli

/*
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SETUP_FAILED = 3 };

// Go reserves address space as it starts. With less it dumps its state, at times: so this runs before.
__attribute__((constructor)) static void check_address_space(void) {
	struct rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur >= 2ul << 30)
		return;
	dprintf(STDERR_FILENO, "gobw: it needs 2 GiB of address space, and may have %lu MiB: raise the limit "
		"(ulimit -v unlimited)\n", (unsigned long)(limit.rlim_cur >> 20));
	_exit(SETUP_FAILED);
}
*/
import "C"

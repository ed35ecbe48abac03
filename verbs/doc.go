// Package verbs is what RDMA can do, for any provider: the words of libibverbs in Go.
//
// A [Provider] finds devices; a [Device] makes protection domains, completion queues and queue pairs; a queue pair
// posts work requests and a completion queue tells what became of them. Everything that a measurement repeats lives in
// a job (package verbs/job), which the device runs by itself. Two providers implement this package: verbs/ibv (libibverbs, found at run
// time) and verbs/roce (RoCEv2 over a UDP socket, in Go). Both pass the conformance suite of verbs/verbstest.
//
// # Handles
//
// Any handle may be closed by any goroutine, at any time and more than once. Close refuses with [ErrBusy] while other handles
// depend on this one, and names their kinds: close the newest first. Otherwise it ends a Wait or Accept, waits for all calls that
// are inside, and frees what the handle held. After that every method that returns an error returns [ErrClosed]; the others tell
// what they told before, and [QueuePair].State tells ERR. What a prepared job uses (package verbs/job) it keeps open.
//
// Names and semantics follow the InfiniBand Architecture Specification, volume 1, release 1.4 ("IBTA"), chapters 9 to
// 11, and the manual pages of rdma-core (ibv_create_qp(3), ibv_post_send(3), ...).
package verbs

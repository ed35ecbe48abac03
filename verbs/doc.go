// Package verbs is what RDMA can do, for any provider: the words of libibverbs in Go.
//
// A [Provider] finds devices; a [Device] makes protection domains, completion queues and queue pairs; a queue pair
// posts work requests and a completion queue tells what became of them. Everything that a measurement repeats
// lives in a job (package verbs/job), which the device runs by itself. Two providers implement this package:
// verbs/ibv (libibverbs, found at run time) and verbs/roce (RoCEv2 over a UDP socket, in Go). Both pass the
// conformance suite of verbs/verbstest.
//
// # A first program
//
// [Open] opens a device, and [ChooseGID] the address by which a peer reaches it. [Alloc] gives memory, which a
// protection domain registers. Each end tells the other its [Address], over a socket for example, and [Connect] takes
// the queue pair to RTS. [Await] waits for completions. The command examples/hello is such a program.
//
// # Handles
//
// Any handle may be closed by any goroutine, at any time and more than once. Close refuses with [ErrBusy] while other
// handles depend on this one, and names their kinds: close the newest first. A [Buffer] is busy while memory regions
// are open over it. Otherwise Close ends a Wait or Accept, waits for all calls that are inside, and frees what the
// handle held. After that every method that returns an error returns [ErrClosed]; the others tell what they told
// before, and [QueuePair].State tells ERR. A call beside a Close may return ErrClosed although libibverbs then refuses
// to close the handle. What a prepared job uses (package verbs/job) it keeps open.
//
// Completions of a queue pair that is closed or moved to RESET may stay in the completion queue, as with roce0 and rxe,
// or be removed from it, as by mlx5. Poll before closing.
//
// # What is left out
//
// These parts of libibverbs are not here: re-registering memory (rereg_mr), changing the depth of a shared receive
// queue, moderation of completion queues, source LID, service level and P_Key index of completions, type 1 memory
// windows, device memory, parent and thread domains, rate limits and packet pacing of queue pairs, flow steering, XRC,
// DC, SRD, raw packets and work queues.
//
// Names and semantics follow the InfiniBand Architecture Specification, volume 1, release 1.4 ("IBTA"), chapters 9 to
// 11, and the manual pages of rdma-core (ibv_create_qp(3), ibv_post_send(3), ...). Where Soft-RoCE and NICs differ,
// roce0 is as the NIC: see verbs/ibv/deviations_test.go.
package verbs

// Package roce is a provider: a RoCEv2 device in user space, "roce0", over a UDP socket on port 4791.
//
// Reading order: [Options] and the provider, device.go (cold verbs), engine.go (what is driven), queue_pair.go and
// state.go. Package rc decides what a queue pair sends and completes; transmit.go and timers.go (what is asked of the
// peer), execute.go and respond.go (what the peer asks) do it. Then datagrams.go (UD), job_driver.go and spin.go (a
// measurement). Package link has the sockets, package wire is the codec, package netem the emulated network.
//
// The engine has no thread of its own on the fast path: whoever polls or runs a job drives receive, protocol and send.
// Where nobody has done so for about a millisecond, a background goroutine blocked in the kernel takes over.
// Specification: IBTA volume 1 release 1.4 chapters 9 to 11 and annex A17.
package roce

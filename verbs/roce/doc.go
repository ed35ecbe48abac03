// Package roce is a provider: a RoCEv2 device in user space, "roce0", over a UDP socket on port 4791.
//
// Reading order: [Options] and the provider, device.go (cold verbs), engine.go (what is driven), queue_pair.go and state.go;
// requester.go, completer.go, mend.go and retransmit.go (what is asked of the peer: a value that takes the time and says what
// to do), transmit.go and timers.go (doing it), congestion.go (how much may be in flight); responder.go, held.go and
// read_responder.go (what the peer asks of us); unreliable.go (UC and UD), batch.go and udp_linux.go (how packets leave),
// source.go and gro.go (how they arrive, and from whom), job_driver.go and spin.go (a measurement). Package wire is the codec,
// package netem the emulated network.
//
// The engine has no thread of its own on the fast path: whoever polls or runs a job drives receive, protocol and send.
// Where nobody has done so for about a millisecond, a background goroutine blocked in the kernel takes over.
// Specification: IBTA volume 1 release 1.4 chapters 9 to 11 and annex A17.
package roce

// Package roce is a provider: a RoCEv2 device in user space, "roce0", over a UDP socket on port 4791.
//
// Reading order: [Options] and the provider, device.go (cold verbs), engine.go (what is driven), queue_pair.go and
// state.go, requester.go with acknowledge.go and retransmit.go (what we ask for), responder.go with read_responder.go
// (what we are asked for), unreliable.go and datagram.go (UC and UD), train.go and udp_linux.go (how packets leave),
// joined.go (how they arrive), prepare.go, runner.go and account.go (a measurement).
//
// The engine has no thread of its own on the fast path: whoever polls or runs a job drives receive, protocol and send.
// Where nobody has done so for about a millisecond, a background goroutine blocked in the kernel takes over.
// Specification: IBTA volume 1 release 1.4 chapters 9 to 11 and annex A17.
package roce

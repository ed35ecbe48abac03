// Package roce is a provider: a RoCEv2 device in user space, "roce0", over a UDP socket on port 4791.
//
// Reading order: [Options] and the provider, device.go (cold verbs), engine.go (what is driven), queue_pair.go and state.go.
// What is asked of the peer: requester.go, completer.go (ACKs), mend.go and retransmit.go, a value that takes the time and
// says what to do; transmit.go and timers.go do it. What the peer asks of us: responder.go, read_queue.go and held.go, a value
// likewise; execute.go and respond.go do it. Then datagrams.go (UD), congestion.go (how much may be in flight), job_driver.go and
// spin.go (a measurement). Package link has the sockets, package wire is the codec, package netem the emulated network.
//
// The engine has no thread of its own on the fast path: whoever polls or runs a job drives receive, protocol and send.
// Where nobody has done so for about a millisecond, a background goroutine blocked in the kernel takes over.
// Specification: IBTA volume 1 release 1.4 chapters 9 to 11 and annex A17.
package roce

// Package rc is what the two ends of a connected queue pair do, RC and UC: a [Requester], which sends requests and
// takes what they are answered with, and a [Responder]. They are values: packets and the time go in, and what is to
// be sent or completed comes out. They know no memory, socket, lock or handle. A [Flow] is what the queue pairs of a
// path share: how much may be under way.
//
// Reading order: send_queue.go, requester.go, completer.go (ACKs and answers), retransmit.go and mend.go (losses),
// congestion.go; responder.go, read_queue.go and held.go. Specification: IBTA volume 1 release 1.4 chapter 9.
package rc

package main

import (
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/gobw/gobw/examples/ends"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
	"github.com/gobw/gobw/verbs/roce"
)

// end is one end of the connection.
type end struct {
	conn           *ends.Conn
	qp             verbs.QueuePair
	sent, received verbs.CompletionQueue
	mr             verbs.MemoryRegion
	entries        int           // of a list, at most
	peer           verbs.Address // with the peer's memory
	handles        []io.Closer   // newest last

	strided, contiguous []byte // the two parts of the memory region
}

// connect meets the other end, which waits where this one names it, and brings a queue pair to RTS.
func connect(host string) *end {
	e := &end{conn: ends.Meet(host)}
	dev := opened(e, ends.Must(verbs.Open("", ibv.New(), roce.New(roce.Options{}))))
	gid := ends.Must(verbs.ChooseGID(dev, 1, e.conn.Here()))
	limits := dev.Info().Limits
	mine := min(limits.MaxSGE, cmp.Or(limits.MaxSGERead, limits.MaxSGE))
	e.entries = min(mine, ends.Swap(e.conn, mine))
	reads := min(16, limits.MaxInitRDAtomic, limits.MaxRDAtomic) // in flight
	reads = min(reads, ends.Swap(e.conn, reads))
	depth := max(largest/smallest/e.entries+2, least)

	pd := opened(e, ends.Must(dev.AllocPD()))
	e.sent = opened(e, ends.Must(dev.CreateCQ(verbs.CompletionQueueOptions{Depth: depth})))
	e.received = opened(e, ends.Must(dev.CreateCQ(verbs.CompletionQueueOptions{Depth: depth})))
	buf := opened(e, ends.Must(verbs.Alloc(largest*(factor+1), verbs.MemoryOptions{})))
	e.strided, e.contiguous = buf.Bytes()[:largest*factor], buf.Bytes()[largest*factor:]
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	e.mr = opened(e, ends.Must(pd.RegisterMemory(buf, 0, buf.Len(), access)))
	e.qp = opened(e, ends.Must(pd.CreateQP(verbs.QueuePairOptions{
		Transport: verbs.RC, SendCQ: e.sent, RecvCQ: e.received,
		SendDepth: depth, RecvDepth: depth, SendSGEs: e.entries, RecvSGEs: e.entries,
	})))

	here := ends.Must(verbs.AddressOf(e.qp, 1, gid, e.mr))
	e.peer = ends.Swap(e.conn, here)
	options := verbs.DefaultConnect()
	options.Access = access
	options.MaxRDAtomic, options.MaxDestRDAtomic = uint8(reads), uint8(reads)
	ends.Check(verbs.Connect(e.qp, gid, here, e.peer, options))
	ends.Swap(e.conn, "connected")
	return e
}

// lists are the requests of a message: lists of the strided memory, or one entry, the contiguous memory.
func (e *end) lists(t task) [][]verbs.SGE {
	if t.Packs {
		return [][]verbs.SGE{{e.mr.SGE(len(e.strided), t.Layout.bytes())}}
	}
	lists := t.Layout.lists(e.mr, e.entries)
	if len(lists) == 0 {
		ends.Check(errors.New("a message without a list: see GAP 3"))
	}
	return lists
}

// move is a message of the active end. A SEND begins when the peer says that its receives are posted.
func (e *end) move(t task) {
	if t.Opcode == verbs.OpSend {
		ends.Wait(e.received, 1)
	}
	if t.Packs && t.Opcode != verbs.OpRead {
		t.Layout.pack(e.contiguous, e.strided)
	}
	var requests []verbs.SendRequest
	remote := e.peer.Addr + uint64(len(e.strided))
	for _, list := range e.lists(t) {
		r := verbs.SendRequest{Opcode: t.Opcode, SGEs: list, RemoteAddr: remote, RKey: e.peer.RKey}
		remote += r.Length()
		requests = append(requests, r)
	}
	requests[len(requests)-1].Flags = verbs.Signaled // it completes after those before it
	ends.Check(e.qp.PostSend(requests))
	ends.Wait(e.sent, 1)
	if t.Packs && t.Opcode == verbs.OpRead {
		t.Layout.unpack(e.strided, e.contiguous)
	}
}

// receive is a message of the passive end, where it takes part: it has a receive for
// each SEND, and says so by an empty one.
func (e *end) receive(t task) {
	var receives []verbs.ReceiveRequest
	for _, list := range e.lists(t) {
		receives = append(receives, verbs.ReceiveRequest{SGEs: list})
	}
	ends.Check(e.qp.PostReceive(receives))
	ends.Check(e.qp.PostSend([]verbs.SendRequest{{Opcode: verbs.OpSend, Flags: verbs.Signaled}}))
	ends.Wait(e.sent, 1)
	ends.Wait(e.received, len(receives))
	if t.Packs {
		t.Layout.unpack(e.strided, e.contiguous)
	}
}

// close gives everything back, newest first.
func (e *end) close() {
	for _, handle := range slices.Backward(e.handles) {
		ends.Check(handle.Close())
	}
	ends.Check(e.conn.Close())
}

// opened is a handle that close gives back.
func opened[T io.Closer](e *end, handle T) T {
	e.handles = append(e.handles, handle)
	return handle
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"slices"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
	"github.com/gobw/gobw/verbs/roce"
)

// end is one end of the connection.
type end struct {
	conn           net.Conn
	reader         *json.Decoder
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
	e := &end{conn: meet(host)}
	e.reader = json.NewDecoder(e.conn)
	dev := opened(e, must(verbs.Open("", ibv.New(), roce.New(roce.Options{}))))
	gid := must(verbs.ChooseGID(dev, 1, e.conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr()))
	limits := dev.Info().Limits
	mine := min(limits.MaxSGE, cmp.Or(limits.MaxSGERead, limits.MaxSGE))
	e.entries = min(mine, swap(e, mine))
	reads := min(16, limits.MaxInitRDAtomic, limits.MaxRDAtomic) // in flight
	reads = min(reads, swap(e, reads))
	depth := max(largest/smallest/e.entries+2, least)

	pd := opened(e, must(dev.AllocPD()))
	e.sent = opened(e, must(dev.CreateCQ(verbs.CompletionQueueOptions{Depth: depth})))
	e.received = opened(e, must(dev.CreateCQ(verbs.CompletionQueueOptions{Depth: depth})))
	buf := opened(e, must(verbs.Alloc(largest*(factor+1), verbs.MemoryOptions{})))
	e.strided, e.contiguous = buf.Bytes()[:largest*factor], buf.Bytes()[largest*factor:]
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
	e.mr = opened(e, must(pd.RegisterMemory(buf, 0, buf.Len(), access)))
	e.qp = opened(e, must(pd.CreateQP(verbs.QueuePairOptions{
		Transport: verbs.RC, SendCQ: e.sent, RecvCQ: e.received,
		SendDepth: depth, RecvDepth: depth, SendSGEs: e.entries, RecvSGEs: e.entries,
	})))

	here := must(verbs.AddressOf(e.qp, 1, gid, e.mr))
	e.peer = swap(e, here)
	options := verbs.DefaultConnect()
	options.Access = access
	options.MaxRDAtomic, options.MaxDestRDAtomic = uint8(reads), uint8(reads)
	check(verbs.Connect(e.qp, gid, here, e.peer, options))
	swap(e, "connected")
	return e
}

// lists are the requests of a message: lists of the strided memory, or one entry, the contiguous memory.
func (e *end) lists(t task) [][]verbs.SGE {
	if t.Packs {
		return [][]verbs.SGE{{e.mr.SGE(len(e.strided), t.Layout.bytes())}}
	}
	lists := t.Layout.lists(e.mr, e.entries)
	if len(lists) == 0 {
		check(errors.New("a message without a list: see GAP 3"))
	}
	return lists
}

// move is a message of the active end. A SEND begins when the peer says that its receives are posted.
func (e *end) move(t task) {
	if t.Opcode == verbs.OpSend {
		e.wait(e.received, 1)
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
	check(e.qp.PostSend(requests))
	e.wait(e.sent, 1)
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
	check(e.qp.PostReceive(receives))
	check(e.qp.PostSend([]verbs.SendRequest{{Opcode: verbs.OpSend, Flags: verbs.Signaled}}))
	e.wait(e.sent, 1)
	e.wait(e.received, len(receives))
	if t.Packs {
		t.Layout.unpack(e.strided, e.contiguous)
	}
}

// wait polls until so many requests have completed. The first that failed ends the program.
func (e *end) wait(cq verbs.CompletionQueue, completions int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	must(verbs.Await(ctx, cq, completions))
}

// close gives everything back, newest first.
func (e *end) close() {
	for _, handle := range slices.Backward(e.handles) {
		check(handle.Close())
	}
	check(e.conn.Close())
}

// opened is a handle that close gives back.
func opened[T io.Closer](e *end, handle T) T {
	e.handles = append(e.handles, handle)
	return handle
}

// meet waits for the other end, or connects to a host. The environment variable PORT chooses another TCP port.
func meet(host string) net.Conn {
	port := cmp.Or(os.Getenv("PORT"), "18516")
	if host != "" {
		return must(net.Dial("tcp", net.JoinHostPort(host, port)))
	}
	fmt.Fprintln(os.Stderr, "waiting: now start 'noncontig HOST' at the other end, with the name of this host")
	return must(must(net.Listen("tcp", ":"+port)).Accept())
}

// swap sends a value to the other end, and returns the one that the other end sends.
func swap[T any](e *end, mine T) (theirs T) {
	check(json.NewEncoder(e.conn).Encode(mine))
	if err := e.reader.Decode(&theirs); err != nil {
		log.Fatalln("the other end is gone:", err)
	}
	return theirs
}

// check ends the program at the first error, and says what to try.
func check(err error) {
	if err != nil {
		log.Fatalln(err, verbs.RemedyOf(err))
	}
}

// must is the value that a call returned.
func must[T any](value T, err error) T {
	check(err)
	return value
}

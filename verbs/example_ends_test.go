package verbs_test

import (
	"context"
	"io"
	"slices"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/verbstest"
)

// end is one end of an example's connection, made by the calls that [Example] shows. Two ends in one process stand for
// two hosts.
type end struct {
	dev    verbs.Device
	gid    verbs.GIDEntry
	pd     verbs.ProtectionDomain
	cq     verbs.CompletionQueue
	memory []byte // of mr
	mr     verbs.MemoryRegion
	qp     verbs.QueuePair
	made   []io.Closer
}

const everyAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead |
	verbs.AccessRemoteAtomic |
	verbs.AccessMWBind

// newEnd is an end without a queue pair, of 4096 bytes of memory. The software device of each has an address of its
// own.
func newEnd() *end {
	var err error
	e := &end{}
	e.dev, err = roce.New(roce.Options{Address: verbstest.Address()}).Open("roce0")
	check(err)
	e.gid, err = e.dev.DefaultGID()
	check(err)
	e.pd, err = e.dev.AllocPD()
	check(err)
	e.cq, err = e.dev.CreateCQ(verbs.CompletionQueueOptions{})
	check(err)
	buf, err := verbs.Alloc(4096, verbs.MemoryOptions{})
	check(err)
	e.memory = buf.Bytes()
	e.mr, err = e.pd.RegisterMemory(buf, 0, buf.Len(), everyAccess)
	check(err)
	e.made = []io.Closer{e.dev, e.pd, e.cq, buf, e.mr}
	return e
}

// queuePair makes one, which completes to the end's queue if o names none.
func (e *end) queuePair(o verbs.QueuePairOptions) verbs.QueuePair {
	if o.SendCQ == nil {
		o.SendCQ = e.cq
	}
	qp, err := e.pd.CreateQP(o)
	check(err)
	e.made = append(e.made, qp)
	return qp
}

// join connects a queue pair of each end with the other's.
func join(a, b *end, qpA, qpB verbs.QueuePair) {
	mine, err := verbs.AddressOf(qpA, 1, a.gid, a.mr)
	check(err)
	theirs, err := verbs.AddressOf(qpB, 1, b.gid, b.mr)
	check(err)
	o := verbs.DefaultConnect()
	o.Access, o.QKey = everyAccess, 0x11111111
	check(verbs.Connect(qpA, a.gid, mine, theirs, o))
	check(verbs.Connect(qpB, b.gid, theirs, mine, o))
}

// connected is two ends, each with a queue pair as described.
func connected(o verbs.QueuePairOptions) (a, b *end) {
	a, b = newEnd(), newEnd()
	a.qp, b.qp = a.queuePair(o), b.queuePair(o)
	join(a, b, a.qp, b.qp)
	return a, b
}

// await waits for so many completions, which must be successes.
func (e *end) await(n int) []verbs.Completion {
	done, err := verbs.Await(context.Background(), e.cq, n)
	check(err)
	return done
}

// close gives everything back, newest first.
func (e *end) close() {
	for _, handle := range slices.Backward(e.made) {
		check(handle.Close())
	}
}

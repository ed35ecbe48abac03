package bench

import (
	"sync/atomic"
	"unsafe"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// credits is the memory through which the ends of SENDs over iWARP tell each other of their receives: for each queue pair the
// word that the peer writes, and then the one that is written to the peer, in native order as perftest has them.
type credits struct {
	buffer *verbs.Buffer
	region verbs.MemoryRegion
}

func newCredits(e *Endpoint, qps int) (*credits, error) {
	b, err := verbs.Alloc(int(grantedAt(qps)), verbs.MemoryOptions{Touch: true})
	if err != nil {
		return nil, err
	}
	e.closers.add(b)
	mr, err := e.pds[0].RegisterMemory(b.Bytes(), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		return nil, err
	}
	e.closers.add(mr)
	return &credits{b, mr}, nil
}

const creditBytes = 4

// grantedAt is where the word lies that queue pair q's peer writes; the other one follows it.
func grantedAt(q int) uint64 { return uint64(q) * 2 * creditBytes }

func (c *credits) word(at uint64) *uint32 { return (*uint32)(unsafe.Pointer(&c.buffer.Bytes()[at])) }

// credit is queue pair q's part in a round, nil where it needs none. The peer has written nothing of this round yet.
func (e *Endpoint) credit(q int, s plan.Lane, peer control.Address) *job.Credit {
	if e.credits == nil {
		return nil
	}
	c := &job.Credit{Receives: e.plan.Queues().RecvWRs}
	if e.plan.Sends() {
		c.Granted = e.credits.word(grantedAt(q))
		atomic.StoreUint32(c.Granted, 0)
	}
	if e.plan.Receives() {
		at := grantedAt(q) + creditBytes
		c.Count, c.Every, c.Total = e.credits.word(at), e.plan.CreditEvery(), s.Count
		c.Grant = verbs.SendRequest{
			Opcode: verbs.OpWrite, RemoteAddr: peer.Addr, RKey: peer.RKey,
			SGEs: []verbs.SGE{{Addr: e.credits.buffer.Addr() + at, Length: creditBytes, LKey: e.credits.region.LKey()}},
		}
	}
	return c
}

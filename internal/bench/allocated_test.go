package bench

import (
	"encoding/json"
	"testing"

	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
)

// FuzzAllocated: whatever test a peer asks for, each end allocates exactly what was settled: bytes of
// memory, entries of queues, places in rings.
func FuzzAllocated(f *testing.F) {
	specs := make([]plan.Spec, 0, 64)
	for _, x := range fields() {
		specs = append(specs, x.base, with(x.base, x.change))
	}
	specs = append(specs, aFlush, with(aFlush, func(s *plan.Spec) { s.PostList, s.Bidirectional = 4, true }))
	for _, s := range specs {
		b, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]byte{0, 12}, b...))
		f.Add(append([]byte{3, 16}, b...))
	}
	testrun.Fuzz(f, func(t *testing.T, in []byte) {
		if len(in) < 2 {
			return
		}
		flags, page, b := in[0], in[1], in[2:]
		var spec plan.Spec
		if json.Unmarshal(b, &spec) != nil {
			return
		}
		spec.HugePages, spec.RDMACM, spec.TOS = false, false, nil
		d := newNotingDevice(flags&1 != 0)
		limits := plan.Limits{Device: d.info, Port: d.port, PageBytes: 4096, LineBytes: 64, Dialled: flags&2 != 0}
		if n := spec.Noncontig; n != nil && n.Descriptors != nil {
			_, limits.List, _ = aList().Describe(false, 0)
		}
		peer := plan.Peer{
			PageBytes: 1 << min(page%32, 16), LineBytes: 64, MTU: verbs.MTU1024, Outstanding: 4, Perftest: flags&4 != 0,
		}
		// Little, so that many are tried: what is granted is allocated here.
		p, err := plan.Settle(spec, limits, peer, plan.Policy{Bytes: 64 << 20, QueuePairs: 32, Rounds: 64, Records: 32})
		if err != nil || p.Memory.Buffers > 8<<20 {
			return
		}
		e, err := endpoint.New(d.rails(p.Spec), p, endpoint.Options{})
		if err != nil {
			t.Fatalf("%s: %v", b, err)
		}
		defer func() { _ = e.Close() }()
		checkAllocated(t, e, d, p)
	})
}

// checkAllocated compares what an end has made with what is settled.
func checkAllocated(t *testing.T, e *endpoint.Endpoint, d *notingDevice, p *plan.Settled) {
	t.Helper()
	if want := p.Memory.Buffers; d.mapped != want || d.registered != want {
		t.Errorf("%d bytes allocated and %d registered, settled are %d", d.mapped, d.registered, want)
	}
	qps, q := p.Spec.QPs, p.Queues
	threads := p.Spec.Threads
	shared := (qps + threads - 1) / threads * threads // each thread has queues for as many queue pairs
	want := entries{
		queuePairs: qps, queues: threads, send: qps * q.SendWRs, recv: qps * q.RecvWRs, completions: shared * q.SendWRs,
	}
	if p.Receives() {
		want.queues, want.completions = 2*threads, want.completions+shared*q.RecvWRs
	}
	if p.Spec.SRQ && p.Receives() {
		want.recv, want.sharedRecv = 0, want.recv
	}
	if d.entries != want {
		t.Errorf("queues of %+v, settled are %+v", d.entries, want)
	}
	if err := e.Connect(peersOf(p), plan.DataPolicy{}); err != nil {
		t.Fatal(err)
	}
	messages, receives := 0, 0
	for _, size := range p.Spec.Sizes {
		j, err := e.Compile(size, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range j.Lanes {
			messages, receives = max(messages, len(l.Ring)), max(receives, len(l.Receives))
		}
	}
	if m, r := p.Rings(); m != messages || r != receives {
		t.Errorf("rings of %d messages and %d receives, settled are %d and %d", messages, receives, m, r)
	}
}

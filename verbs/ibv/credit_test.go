//go:build linux && cgo

package ibv

import (
	"errors"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// creditWord is the n-th word at the end of an endpoint's memory, which messages do not reach.
func (e *endpoint) creditWord(n int) (*uint32, uint64) {
	b := e.buffer.Bytes()
	at := len(b) - 4*(n+1)
	return (*uint32)(unsafe.Pointer(&b[at])), e.mr.Addr() + uint64(at)
}

// TestCredit sends to ends with few receives, one way and both: never more is in flight than receives are posted, all arrives,
// also in a second job whose memory still holds what the first was granted.
func TestCredit(t *testing.T) {
	for _, tt := range []struct {
		name                   string
		receives, batch, every int
		both                   bool
		expect                 bool // the receiving end knows how many come
	}{
		{"one receive", 1, 1, 1, false, false},
		{"a third", 16, 1, 5, false, false},
		{"a third, counted", 16, 1, 5, false, true},
		{"lists", 16, 12, 4, false, true},
		{"both ways", 16, 1, 5, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := anyDevice(t)
			o := verbs.QueuePairOptions{SendDepth: 80, RecvDepth: 16}
			x, y := newEndpoint(t, d, 1, o), newEndpoint(t, d, 1, o)
			connect(t, x, y)
			const count = 1000
			for range 2 {
				a, b := creditJob(x, y, tt.receives, tt.batch, tt.every), creditJob(y, x, tt.receives, tt.batch, tt.every)
				a.Lanes[0].Count, b.Lanes[0].Count = count, count-100
				if !tt.both {
					a.Lanes[0].Receives, a.Lanes[0].Credit.Count = nil, nil
					b.Lanes[0].Ring, b.Lanes[0].Count, b.Lanes[0].Credit.Granted = nil, 0, nil
				}
				if tt.expect || tt.both {
					a.Lanes[0].Expect, b.Lanes[0].Expect = b.Lanes[0].Count, a.Lanes[0].Count
				}
				testCredit(t, a, b, tt.receives, count)
				if b.Lanes[0].Expect == 0 {
					break // its last receives stay posted
				}
			}
		})
	}
}

// TestCreditGoesOn: a job that goes on with the receives of another tells the peer of what is new, and of nothing twice.
func TestCreditGoesOn(t *testing.T) {
	d := anyDevice(t)
	o := verbs.QueuePairOptions{SendDepth: 80, RecvDepth: 16}
	x, y := newEndpoint(t, d, 1, o), newEndpoint(t, d, 1, o)
	connect(t, x, y)
	sender := func(count uint64) *job.Job {
		j := creditJob(x, y, 16, 1, 16)
		j.Lanes[0].Receives, j.Lanes[0].Credit.Count, j.Lanes[0].Count = nil, nil, count
		return j
	}
	b := creditJob(y, x, 16, 1, 16)
	b.Lanes[0].Ring, b.Lanes[0].Credit.Granted = nil, nil
	testCredit(t, sender(23), b, 16, 23)
	told := b.Lanes[0].Credit.Count
	if *told != 16 {
		t.Fatalf("the peer was told of %d receives of 23, want 16", *told)
	}
	var stop atomic.Uint32
	after := b.Receiving([]uint64{23})
	after.Stop = &stop
	run := func(r job.Runner) job.Progress {
		p, err := r.Run(job.Now() + 20_000)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	prepare := func(j *job.Job) job.Runner {
		r, err := job.NewVerbsRunner(j)
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, r)
		return r
	}
	receiver := prepare(after)
	for range 5 {
		run(receiver)
	}
	if *told != 16 {
		t.Fatalf("the job that goes on told of %d receives before anything came, want nothing new", *told)
	}
	for s, deadline := prepare(sender(9)), job.Now()+1<<35; *told != 32; run(receiver) {
		if run(s); job.Now() > deadline {
			t.Fatalf("told of %d receives after 32, want 32", *told)
		}
	}
}

// creditJob is one end's: it sends and receives.
func creditJob(e, peer *endpoint, receives, batch, every int) *job.Job {
	granted, _ := e.creditWord(0)
	tell, at := e.creditWord(1)
	_, to := peer.creditWord(0)
	return &job.Job{
		CQs: []verbs.CompletionQueue{e.cq}, Deadline: job.Now() + 1<<40,
		Lanes: []job.Lane{{
			QP: e.qps[0], Ring: e.ring(verbs.OpSend, 8, 32, peer, 0), Window: 64, Signal: batch, Batch: batch, Receives: e.receives(receives, 32),
			Credit: &job.Credit{
				Granted: granted, Receives: receives, Count: tell, Every: every,
				Grant: verbs.SendRequest{
					Opcode: verbs.OpWrite, RemoteAddr: to, RKey: peer.mr.RKey(), SGEs: []verbs.SGE{{Addr: at, Length: 4, LKey: e.mr.LKey()}},
				},
			},
		}},
	}
}

func testCredit(t *testing.T, a, b *job.Job, receives, count int) {
	t.Helper()
	if b.Lanes[0].Expect > 0 {
		a.Lanes[0].Credit.Total, b.Lanes[0].Credit.Total = a.Lanes[0].Expect, b.Lanes[0].Expect
	}
	ends := []*job.Job{a, b}
	sent, posted := [2]int{}, [2]int{}
	runners := make([]job.Runner, 2)
	for i, j := range ends {
		l := &j.Lanes[0]
		if len(l.Receives) > 0 && l.Posted == 0 {
			if err := l.PostInitial(receives); err != nil {
				t.Fatal(err)
			}
		}
		posted[i] = int(l.Posted)
		j.Trace = func(e job.TraceEvent) {
			switch e.Kind {
			case job.TracePost:
				if sent[i]++; sent[i] > posted[1-i] {
					t.Fatalf("end %d sends message %d, and %d receives have been posted", i, sent[i], posted[1-i])
				}
			case job.TraceRepost:
				posted[i]++
			default:
			}
		}
		if _, err := job.Prepare(l.QP.Device(), j); !errors.Is(err, verbs.ErrUnsupported) {
			t.Fatalf("prepared by a runner that knows no credits: %v", err)
		}
		r, err := job.NewVerbsRunner(j)
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, r)
		runners[i] = r
	}
	var p [2]job.Progress
	for p[1].Received < uint64(count) || !p[0].Done {
		for i, r := range runners {
			if p[i].Done {
				continue
			}
			var err error
			if p[i], err = r.Run(job.Now() + 20_000); err != nil {
				t.Fatal(err)
			}
		}
		if job.Now() > a.Deadline {
			t.Fatalf("stuck: %+v", p)
		}
	}
}

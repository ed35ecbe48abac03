package endpoint

import (
	"errors"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// checkedMemory is a destination after a round, for tests of the checker.
func checkedMemory(t *testing.T) (*layouts, *Endpoint) {
	t.Helper()
	spec := plan.Spec{
		Transport: verbs.RC, Duration: 1e9, Noncontig: &plan.Noncontig{
			Shape: "both", Strategy: "gather-send", Layout: "vector:block=16,num=5,stride=48", Window: 2,
		},
	}
	lim := verbs.Limits{MaxSGE: 32, MaxQPWR: 1024}
	end := func(dialled bool) *plan.Settled {
		p, err := plan.Settle(spec, plan.Limits{Device: verbs.DeviceInfo{Name: "roce0", Limits: lim}, Dialled: dialled},
			plan.Peer{}, plan.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	source, destination := end(true), end(false)
	send, recv := source.Buffers.SendBytes, destination.Buffers.RecvBytes // each end has the memory of its side
	b, err := verbs.Alloc(send+recv, verbs.MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	part := func(at, bytes int) slot { return slot{bytes: b.Bytes()[at:][:bytes]} }
	qp := &pair{moved: movement{sent: 1, received: 1}}
	qp.send, qp.recv = part(0, send), part(send, recv)
	e := &Endpoint{qps: []*pair{qp}, plan: source, spec: source.Spec, work: workloadOf(source)}
	e.Arm(0, 7)
	e.plan, e.work = destination, workloadOf(destination)
	e.Arm(0, 7)
	return e.work.(*layouts), e
}

func TestCheckFindsDamage(t *testing.T) {
	w, e := checkedMemory(t)
	sent, recv := e.qps[0].send.bytes, e.qps[0].recv.bytes
	check := func() (uint64, error) { return e.Check(0, 7, 0) }
	if _, err := check(); !errors.Is(err, control.ErrCorrupt) {
		t.Errorf("nothing arrived, and the check said %v", err)
	}
	for it := w.Layout.Iterate(); ; {
		b, ok := it.Next()
		if !ok {
			break
		}
		copy(recv[b.Offset:b.End()], sent[b.Offset:b.End()])
	}
	if whole, err := check(); err != nil || whole != 1 {
		t.Errorf("whole message: %d, %v", whole, err)
	}
	recv[50]++
	if _, err := check(); !errors.Is(err, control.ErrCorrupt) {
		t.Errorf("damaged block: got %v, want a corrupt message", err)
	}
	recv[50]--
	recv[20]++
	if _, err := check(); !errors.Is(err, control.ErrCorrupt) ||
		!strings.Contains(err.Error(), "at offset 20 of place 0, outside the blocks") {
		t.Errorf("written gap: got %v, want offset 20", err)
	}
}

// A receive completed over UD and its memory is untouched: that is not right, though messages may be lost.
func TestNothingArrived(t *testing.T) {
	_, e := checkedMemory(t)
	e.spec.Transport = verbs.UD
	if whole, err := e.Check(0, 7, 0); !errors.Is(err, control.ErrCorrupt) {
		t.Errorf("a receive completed, nothing was written: %d whole, %v (addressed %v)", whole, err, e.plan.Row.Addressed())
	}
}

package noncontig

import (
	"errors"
	"testing"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// checkedMemory is a destination after a round, for tests of the checker.
func checkedMemory(t *testing.T) (*Workload, Memory) {
	t.Helper()
	spec := plan.Spec{
		Transport: verbs.RC, Duration: 1e9, Noncontig: &plan.Noncontig{Shape: "both", Strategy: "gather-send", Layout: "vector:block=16,num=5,stride=48", Window: 2},
	}
	lim := verbs.Limits{MaxSGE: 32, MaxQPWR: 1024}
	end := func(dialled bool) *plan.Settled {
		p, err := plan.Settle(spec, plan.Limits{Device: verbs.DeviceInfo{Name: "roce0", Limits: lim}, Dialled: dialled}, plan.Peer{}, plan.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	source, destination := end(true), end(false)
	m := Memory{Send: make([]byte, source.Buffers().SendBytes()), Recv: make([]byte, source.Buffers().RecvBytes())}
	New(source).Arm(m, 7)
	w := New(destination)
	w.Arm(m, 7)
	return w, m
}

func TestCheckFindsDamage(t *testing.T) {
	w, m := checkedMemory(t)
	check := func() (uint64, error) { return w.Check(m, 7, 1, 1) }
	if _, err := check(); !errors.Is(err, payload.ErrCorrupt) {
		t.Errorf("nothing arrived, and the check said %v", err)
	}
	for it := w.Layout.Iterate(); ; {
		b, ok := it.Next()
		if !ok {
			break
		}
		copy(m.Recv[b.Offset:b.End()], m.Send[b.Offset:b.End()])
	}
	if whole, err := check(); err != nil || whole != 1 {
		t.Errorf("whole message: %d, %v", whole, err)
	}
	m.Recv[50]++
	if _, err := check(); !errors.Is(err, payload.ErrCorrupt) {
		t.Errorf("damaged block: got %v, want a corrupt message", err)
	}
	m.Recv[50]--
	m.Recv[20]++
	var gap *GapError
	if _, err := check(); !errors.As(err, &gap) || gap.Offset != 20 {
		t.Errorf("written gap: got %v, want offset 20", err)
	}
}

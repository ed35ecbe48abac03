package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// measurers are one on each of n loopback addresses.
func measurers(t *testing.T, n int, p plan.Spec) []*measurer {
	t.Helper()
	return measurersOver(t, n, p, netem.Options{})
}

// measurersOver lets each of them receive over an emulated network.
func measurersOver(t *testing.T, n int, p plan.Spec, network netem.Options) []*measurer {
	t.Helper()
	old := debug.SetGCPercent(100) // the measurers of one process restore each other's
	t.Cleanup(func() { debug.SetGCPercent(old) })
	out := make([]*measurer, n)
	for i := range out {
		at := fmt.Sprintf("127.0.1.%d", i+1)
		out[i] = measuringOver(t, network)
		if err := out[i].open(fabric.OpenOrder{Address: at, Plan: p}, &fabric.Rail{}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// connect makes one flow between two of them, each end's place among its flows being its number so far.
func connect(t *testing.T, from, to *measurer) {
	t.Helper()
	a, err := from.add(fabric.FlowEnd{Initiates: true}, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := to.add(fabric.FlowEnd{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(from.connect(from.flows[len(from.flows)-1], b),
		to.connect(to.flows[len(to.flows)-1], a)); err != nil {
		t.Fatal(err)
	}
}

// TestMoveFlowLabels: a flow's queue pairs have the label that it was given and those after it.
func TestMoveFlowLabels(t *testing.T) {
	m := measurers(t, 1, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Duration: time.Hour, QPs: 3})[0]
	for k, want := range [][]uint32{{7, 8, 9}, {verbs.MaxFlowLabel, 0, 1}, {0, 0, 0}} {
		if _, err := m.add(fabric.FlowEnd{Initiates: true, FlowLabel: want[0]}, 0); err != nil {
			t.Fatal(err)
		}
		for q, label := range want {
			if got := m.flows[k].plan.FlowLabel(q); got != label {
				t.Errorf("flow %d, queue pair %d: flow label %d, want %d", k, q, got, label)
			}
		}
	}
}

func moveAll(t *testing.T, all []*measurer) [][]fabric.Flow {
	t.Helper()
	return moveAllFor(t, all,
		fabric.GoOrder{Lead: 20 * time.Millisecond, Measure: 200 * time.Millisecond, Tail: 50 * time.Millisecond})
}

func moveAllFor(t *testing.T, all []*measurer, g fabric.GoOrder) [][]fabric.Flow {
	t.Helper()
	out := make([][]fabric.Flow, len(all))
	var wg sync.WaitGroup
	for i, m := range all {
		wg.Go(func() {
			var err error
			if out[i], err = m.move(context.Background(), g); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return out
}

// TestMove runs two rounds of three hosts. 'make quick' has one whose rate is known
// at the sender, and one at the receiver.
func TestMove(t *testing.T) {
	for i, tt := range []struct {
		name string
		plan plan.Spec
		// where the rate is known: at the flow's sender (RC), or its receiver
		receiver bool
	}{
		{"write", plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{16384}, Verify: "ends"}, false},
		{"write -q 3", plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{16384}, QPs: 3}, false},
		{"read", plan.Spec{Operation: plan.Read, Kind: plan.Bandwidth, Sizes: []int{16384}}, false},
		{"send", plan.Spec{Operation: plan.Send, Kind: plan.Bandwidth, Sizes: []int{16384}}, true},
		{"send UD", plan.Spec{Operation: plan.Send, Kind: plan.Bandwidth, Transport: verbs.UD, Sizes: []int{1024}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && i > 0 && i < 4 {
				t.Skip("short: the first and the last")
			}
			tt.plan.Duration, tt.plan.TxDepth = time.Second, 16
			all := measurers(t, 3, tt.plan)
			for range 2 { // two rounds: a device takes new flows after the old
				for i, x := range all {
					connect(t, x, all[(i+1)%3])
				}
				for i, moved := range moveAll(t, all) {
					for k, m := range moved {
						if m.Error != "" {
							t.Errorf("host %d, flow %d: %v", i, k, m.Error)
						}
						if all[i].flows[k].plan.Role == plan.Target && tt.receiver || all[i].flows[k].plan.Role == plan.Initiator &&
							!tt.receiver {
							if m.Bits < 1e6 {
								t.Errorf("host %d, flow %d moved %g bits/s", i, k, m.Bits)
							}
						}
					}
				}
				for _, x := range all {
					if err := x.endFlows(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// TestMoveShorterThanARoundTrip: in a round that is over before the first message of a slow path has come
// back, the flows are slow and not dead.
func TestMoveShorterThanARoundTrip(t *testing.T) {
	for name, p := range map[string]plan.Spec{
		"write":        {Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{4096}, TxDepth: 4},
		"send":         {Operation: plan.Send, Kind: plan.Bandwidth, Sizes: []int{4096}, TxDepth: 4, Timeout: 18},
		"send latency": {Operation: plan.Send, Kind: plan.Latency, Sizes: []int{8}, InlineBytes: -1, Timeout: 18},
	} {
		t.Run(name, func(t *testing.T) {
			p.Duration = time.Second
			all := measurersOver(t, 2, p, netem.Options{Delay: 100 * time.Millisecond})
			connect(t, all[0], all[1])
			m := moveAllFor(t, all, fabric.GoOrder{Measure: 50 * time.Millisecond})[0][0]
			if m.Error != "" || m.Unmeasured {
				t.Errorf("%+v", m)
			}
			if p.Kind == plan.Latency && (m.Quantiles[0] < 90e6) {
				t.Errorf("latencies %v", m.Quantiles)
			}
			if p.Kind == plan.Bandwidth && (m.Bits < 1000 || m.Bits > 8*4*4096/0.2) {
				t.Errorf("%g bits/s", m.Bits)
			}
		})
	}
}

// TestMoveBlamesNobodyElse: a flow that had moved nothing when another one of its host failed is not known to be dead.
func TestMoveBlamesNobodyElse(t *testing.T) {
	all := measurersOver(t, 3, plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{4096}, Duration: time.Second, Timeout: 8, Retries: 1,
	},
		netem.Options{Delay: 400 * time.Millisecond})
	connect(t, all[0], all[1])
	connect(t, all[0], all[2])
	if err := all[2].endFlows(); err != nil {
		t.Fatal(err)
	}
	moved, err := all[0].move(context.Background(), fabric.GoOrder{Measure: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	failed, other := moved[0], moved[1] // whichever lane's timer comes first
	if failed.Error == "" {
		failed, other = other, failed
	}
	if failed.Error == "" || other.Error != "" || !other.Unmeasured {
		t.Errorf("%+v", moved)
	}
}

func TestMoveLatency(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it measures for seconds")
	}
	for _, op := range []plan.Operation{plan.Send, plan.Write, plan.Read} {
		t.Run(string(op), func(t *testing.T) {
			all := measurers(t, 2,
				plan.Spec{Operation: op, Kind: plan.Latency, Sizes: []int{8}, InlineBytes: -1, Duration: time.Second})
			connect(t, all[0], all[1])
			moved := moveAll(t, all)
			for i, m := range moved {
				if op == plan.Read && i == 1 {
					continue
				}
				ns := m[0].Quantiles[:] // the median of at least a hundred exchanges a second
				if !slices.IsSorted(ns) || ns[2] < 500 || ns[2] > 1e7 {
					t.Errorf("host %d: %v ns, error %v", i, ns, m[0].Error)
				}
			}
		})
	}
}

func TestMoveSaysWhoFailed(t *testing.T) {
	all := measurers(t, 3, plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{4096}, Duration: time.Second, Timeout: 13, Retries: 5,
	})
	connect(t, all[0], all[1])
	connect(t, all[0], all[2])
	if err := all[2].endFlows(); err != nil { // its peer's queue pairs are gone
		t.Fatal(err)
	}
	// Five tries of 34 ms: a peer that a busy machine keeps from its CPU for a while is not gone, and one that
	// is gone is told of within a second of CPU time.
	moved, err := all[0].move(context.Background(), fabric.GoOrder{Measure: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(moved[1].Error, verbs.RetryExceeded.String()) || moved[0].Error != "" {
		t.Errorf("errors: %v, %v", moved[0].Error, moved[1].Error)
	}
}

func TestMoveFindsWrongData(t *testing.T) {
	all := measurers(t,
		2, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{4096}, Duration: time.Second, Verify: "ends"})
	connect(t, all[0], all[1])
	all[0].flows[0].end.Arm(4096, 99) // other data than the peer expects
	moved := moveAll(t, all)
	if !moved[1][0].Corrupt {
		t.Errorf("error %v, want corrupt data", moved[1][0].Error)
	}
}

func TestMoveRefuses(t *testing.T) {
	m := measuring(t)
	for want, p := range map[string]plan.Spec{
		"nobody knows": {Operation: plan.Write, Transport: verbs.UC, Kind: plan.Bandwidth, Sizes: []int{8}},
		"verified for": {Operation: plan.Send, Kind: plan.Bandwidth, Sizes: []int{8}, Verify: "ends"},
	} {
		if err := m.open(fabric.OpenOrder{Address: "127.0.1.9", Plan: p}, &fabric.Rail{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
	if got := fmt.Sprint((&fabric.GoOrder{In: 9, Lead: 1, Measure: 2, Tail: 3}).Whole()); got != "6ns" {
		t.Errorf("whole span %s", got)
	}
}

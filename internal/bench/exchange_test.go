package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/bench/payload"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// hosts opens an exchange on each of n loopback addresses.
func exchanges(t *testing.T, n int, p plan.Spec) []*Exchange {
	t.Helper()
	return exchangesOver(t, n, p, netem.Options{})
}

// exchangesOver lets each of them receive over an emulated network.
func exchangesOver(t *testing.T, n int, p plan.Spec, network netem.Options) []*Exchange {
	t.Helper()
	old := debug.SetGCPercent(100) // the exchanges of one process restore each other's
	t.Cleanup(func() { debug.SetGCPercent(old) })
	out := make([]*Exchange, n)
	for i := range out {
		at := netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)})
		d, err := roce.New(roce.Options{Address: at, Network: network}).Open(roce.DeviceName)
		if err != nil {
			t.Fatal(err)
		}
		x, err := OpenExchange(d, p, ExchangeOptions{Local: at})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(x.Close(), d.Close()); err != nil {
				t.Error(err)
			}
		})
		out[i] = x
	}
	return out
}

// join makes one flow between two exchanges, each end's place among its flows being its number so far.
func join(t *testing.T, from, to *Exchange) {
	t.Helper()
	a, err := from.Add(plan.Initiator, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := to.Add(plan.Target, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(from.Connect(len(from.flows)-1, b), to.Connect(len(to.flows)-1, a)); err != nil {
		t.Fatal(err)
	}
}

// TestExchangeFlowLabels: a flow's queue pairs have the label that it was given and those after it.
func TestExchangeFlowLabels(t *testing.T) {
	x := exchanges(t, 1, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Duration: time.Hour, QPs: 3})[0]
	for k, want := range [][]uint32{{7, 8, 9}, {verbs.MaxFlowLabel, 0, 1}, {0, 0, 0}} {
		if _, err := x.Add(plan.Initiator, 0, want[0]); err != nil {
			t.Fatal(err)
		}
		for q, label := range want {
			if got := x.flows[k].plan.FlowLabel(q); got != label {
				t.Errorf("flow %d, queue pair %d: flow label %d, want %d", k, q, got, label)
			}
		}
	}
}

func runAll(t *testing.T, all []*Exchange) [][]Movement {
	t.Helper()
	return runAllFor(t, all, Span{Lead: 20 * time.Millisecond, Measure: 200 * time.Millisecond, Tail: 50 * time.Millisecond})
}

func runAllFor(t *testing.T, all []*Exchange, s Span) [][]Movement {
	t.Helper()
	out := make([][]Movement, len(all))
	var wg sync.WaitGroup
	for i, x := range all {
		wg.Go(func() {
			var err error
			if out[i], err = x.Run(context.Background(), s); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return out
}

// TestExchange runs two rounds of three hosts. 'make quick' has one whose rate is known at the sender, and one at the receiver.
func TestExchange(t *testing.T) {
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
			all := exchanges(t, 3, tt.plan)
			for range 2 { // two rounds: a device takes new flows after the old
				for i, x := range all {
					join(t, x, all[(i+1)%3])
				}
				for i, moved := range runAll(t, all) {
					for k, m := range moved {
						if m.Err != nil {
							t.Errorf("host %d, flow %d: %v", i, k, m.Err)
						}
						if all[i].flows[k].plan.Role() == plan.Target && tt.receiver || all[i].flows[k].plan.Role() == plan.Initiator && !tt.receiver {
							if m.BitsPerS < 1e6 {
								t.Errorf("host %d, flow %d moved %g bits/s", i, k, m.BitsPerS)
							}
						}
					}
				}
				for _, x := range all {
					if err := x.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// TestExchangeShorterThanARoundTrip: in a round that is over before the first message of a slow path has come back, the flows
// are slow and not dead.
func TestExchangeShorterThanARoundTrip(t *testing.T) {
	for name, p := range map[string]plan.Spec{
		"write":        {Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{4096}, TxDepth: 4},
		"send":         {Operation: plan.Send, Kind: plan.Bandwidth, Sizes: []int{4096}, TxDepth: 4, Timeout: 18},
		"send latency": {Operation: plan.Send, Kind: plan.Latency, Sizes: []int{8}, InlineBytes: -1},
	} {
		t.Run(name, func(t *testing.T) {
			p.Duration = time.Second
			all := exchangesOver(t, 2, p, netem.Options{Delay: 100 * time.Millisecond})
			join(t, all[0], all[1])
			m := runAllFor(t, all, Span{Measure: 50 * time.Millisecond})[0][0]
			if m.Err != nil || m.Unmeasured {
				t.Errorf("%+v", m)
			}
			if p.Kind == plan.Latency && (len(m.LatencyNs) == 0 || m.LatencyNs[0] < 90e6) {
				t.Errorf("latencies %v", m.LatencyNs)
			}
			if p.Kind == plan.Bandwidth && (m.BitsPerS < 1000 || m.BitsPerS > 8*4*4096/0.2) {
				t.Errorf("%g bits/s", m.BitsPerS)
			}
		})
	}
}

// TestExchangeBlamesNobodyElse: a flow that had moved nothing when another one of its host failed is not known to be dead.
func TestExchangeBlamesNobodyElse(t *testing.T) {
	all := exchangesOver(t, 3, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{4096}, Duration: time.Second, Timeout: 8, Retries: 1},
		netem.Options{Delay: 400 * time.Millisecond})
	join(t, all[0], all[1])
	join(t, all[0], all[2])
	if err := all[2].Close(); err != nil {
		t.Fatal(err)
	}
	moved, err := all[0].Run(context.Background(), Span{Measure: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	failed, other := moved[0], moved[1] // whichever lane's timer comes first
	if failed.Err == nil {
		failed, other = other, failed
	}
	if failed.Err == nil || other.Err != nil || !other.Unmeasured {
		t.Errorf("%+v", moved)
	}
}

func TestExchangeLatency(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it measures for seconds")
	}
	for _, op := range []plan.Operation{plan.Send, plan.Write, plan.Read} {
		t.Run(string(op), func(t *testing.T) {
			all := exchanges(t, 2, plan.Spec{Operation: op, Kind: plan.Latency, Sizes: []int{8}, InlineBytes: -1, Duration: time.Second})
			join(t, all[0], all[1])
			moved := runAll(t, all)
			for i, m := range moved {
				if op == plan.Read && i == 1 {
					continue
				}
				ns := m[0].LatencyNs // the median of at least a hundred exchanges a second
				if len(ns) != 5 || !slices.IsSorted(ns) || ns[2] < 500 || ns[2] > 1e7 {
					t.Errorf("host %d: %v ns, error %v", i, ns, m[0].Err)
				}
			}
		})
	}
}

func TestExchangeSaysWhoFailed(t *testing.T) {
	all := exchanges(t, 3, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{4096}, Duration: time.Second, Timeout: 13, Retries: 5})
	join(t, all[0], all[1])
	join(t, all[0], all[2])
	if err := all[2].Close(); err != nil { // its peer's queue pairs are gone
		t.Fatal(err)
	}
	// Five tries of 34 ms: a peer that a busy machine keeps from its CPU for a while is not gone, and one that is gone is told of
	// within the second.
	moved, err := all[0].Run(context.Background(), Span{Measure: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(moved[1].Err, verbs.RetryExceeded) || moved[0].Err != nil {
		t.Errorf("errors: %v, %v", moved[0].Err, moved[1].Err)
	}
}

func TestExchangeFindsWrongData(t *testing.T) {
	all := exchanges(t, 2, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{4096}, Duration: time.Second, Verify: "ends"})
	join(t, all[0], all[1])
	all[0].flows[0].end.Arm(4096, 99) // other data than the peer expects
	moved := runAll(t, all)
	if !errors.Is(moved[1][0].Err, payload.ErrCorrupt) {
		t.Errorf("error %v, want corrupt data", moved[1][0].Err)
	}
}

func TestExchangeRefuses(t *testing.T) {
	d, err := openOurs(netip.MustParseAddr("127.0.1.9"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	for want, p := range map[string]plan.Spec{
		"nobody knows": {Operation: plan.Write, Transport: verbs.UC, Kind: plan.Bandwidth, Sizes: []int{8}},
		"verified for": {Operation: plan.Send, Kind: plan.Bandwidth, Sizes: []int{8}, Verify: "ends"},
	} {
		if _, err := OpenExchange(d, p, ExchangeOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
	if got := fmt.Sprint(Span{Lead: 1, Measure: 2, Tail: 3}.whole()); got != "6ns" {
		t.Errorf("whole span %s", got)
	}
}

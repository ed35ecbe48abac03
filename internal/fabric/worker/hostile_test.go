package worker

import (
	"context"
	"encoding/json"
	"io"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// measuring is a process that measures on the software device, without a process.
func measuring(t testing.TB) *measurer {
	t.Helper()
	return measuringOver(t, netem.Options{})
}

// measuringOver receives over an emulated network.
func measuringOver(t testing.TB, network netem.Options) *measurer {
	t.Helper()
	m := &measurer{cfg: Config{Open: func(_ string, at netip.Addr) (verbs.Device, netip.Addr, error) {
		d, err := roce.New(roce.Options{Address: at, Network: network}).Open(roce.DeviceName)
		return d, at, err
	}}}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// TestHostileRankZero: a worker does not crash, hang or serve for ever, whatever rank 0 asks of it.
func TestHostileRankZero(t *testing.T) {
	m := measuring(t)
	spec := plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{4096}, QPs: 1, Duration: time.Hour,
	}
	refused := func(o fabric.Order, want string) {
		t.Helper()
		b, _ := json.Marshal(m.Do(t.Context(), o))
		if !strings.Contains(string(b), want) {
			t.Errorf("%s: want %q", b, want)
		}
	}
	open := func(p plan.Spec) fabric.Order {
		return fabric.Order{Open: &fabric.OpenOrder{Address: "127.0.0.1", Plan: p}}
	}
	run := func(addresses [][]control.Address) fabric.Order {
		return fabric.Order{Go: &fabric.GoOrder{Addresses: addresses}}
	}
	refused(fabric.Order{Open: &fabric.OpenOrder{Address: "nowhere"}}, "unable to parse IP")
	huge := spec
	huge.Sizes = []int{1 << 40}
	refused(open(huge), `"error"`)
	refused(run(make([][]control.Address, 1)), "other flows are to run than were prepared")
	if r := m.Do(t.Context(), open(spec)); r.Error != "" {
		t.Fatal(r.Error)
	}
	refused(fabric.Order{Prepare: &fabric.PrepareOrder{Flows: make([]fabric.FlowEnd, mostQueuePairs+1)}},
		"the limit is 16384 queue pairs")
	refused(fabric.Order{Prepare: &fabric.PrepareOrder{Flows: make([]fabric.FlowEnd, 2)}}, `"qpn"`)
	for _, addresses := range [][][]control.Address{nil, {}, {nil}, make([][]control.Address, 3)} {
		refused(run(addresses), "other flows are to run than were prepared")
	}
	endless := run(make([][]control.Address, 2))
	endless.Go.In = 1 << 60
	refused(endless, "neither is one")
	refused(run([][]control.Address{make([]control.Address, 5), nil}), "the peer sent 5 addresses")
	refused(fabric.Order{}, "nobody knows")
}

// TestMeasureEndsWithItsInput: an agent that is killed in the middle of a round
// leaves no process behind that measures on.
func TestMeasureEndsWithItsInput(t *testing.T) {
	m := measuring(t)
	orders, in := io.Pipe()
	out, answers := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Measure(t.Context(), m.cfg, orders, answers) }()
	ask := func(o fabric.Order) {
		if err := frame.Write(in, fabric.KindOrder, o); err != nil {
			t.Error(err)
		}
	}
	for _, o := range []fabric.Order{
		{
			Open: &fabric.OpenOrder{
				Address: "127.0.0.1",
				Plan:    plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{64}, QPs: 1, Duration: time.Hour},
			},
		},
		{Prepare: &fabric.PrepareOrder{Flows: []fabric.FlowEnd{{Initiates: true}}}},
	} {
		ask(o)
		if r, err := frame.Read[fabric.Rail](out, fabric.KindAnswer, fabric.MostBytes); err != nil || r.Error != "" {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	ask(fabric.Order{Go: &fabric.GoOrder{Addresses: make([][]control.Address, 1), In: time.Hour}})
	go func() { _, _ = io.Copy(io.Discard, out) }()
	_ = in.Close()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on")
	}
}

// FuzzRankZero asks a worker for anything.
func FuzzRankZero(f *testing.F) {
	f.Add(`{"open":{"address":"127.0.0.1","plan":{"operation":"write"}}}`)
	f.Add(`{"prepare":{"flows":[{"initiates":true}]}}`)
	f.Add(`{"go":{"addresses":[[{"qpn":1}],[]],"in_ns":-5}}`)
	testrun.Fuzz(f, func(t *testing.T, order string) {
		var o fabric.Order
		if json.Unmarshal([]byte(order), &o) != nil {
			return
		}
		m := measuring(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		for _, o := range []fabric.Order{
			{
				Open: &fabric.OpenOrder{
					Address: "127.0.0.1",
					Plan:    plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{64}, QPs: 1, Duration: time.Second},
				},
			},
			{Prepare: &fabric.PrepareOrder{Flows: []fabric.FlowEnd{{Initiates: true}}}},
			o,
		} {
			_ = m.Do(ctx, o)
		}
	})
}

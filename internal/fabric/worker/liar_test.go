package worker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
)

// TestLyingPeers: whatever a peer says of its queue pairs, and whatever it does with them, a rail of this end has no
// fault of its own: the flow has it.
func TestLyingPeers(t *testing.T) {
	lies := map[string]func(a *control.Address){
		"the truth":              func(*control.Address) {},
		"another queue pair":     func(a *control.Address) { a.QPN ^= 0x5555 },
		"queue pair 0":           func(a *control.Address) { a.QPN = 0 },
		"queue pair 1":           func(a *control.Address) { a.QPN = 1 },
		"the last queue pair":    func(a *control.Address) { a.QPN = 0xffffff },
		"another PSN":            func(a *control.Address) { a.PSN ^= 0x555555 },
		"another key":            func(a *control.Address) { a.RKey ^= 1 },
		"address 0":              func(a *control.Address) { a.Addr = 0 },
		"the last address":       func(a *control.Address) { a.Addr = 1<<64 - 1 - a.Bytes },
		"an odd address":         func(a *control.Address) { a.Addr++ },
		"one byte":               func(a *control.Address) { a.Bytes = 1 },
		"all bytes":              func(a *control.Address) { a.Bytes, a.Addr = 1<<63, 0 },
		"no READs":               func(a *control.Address) { a.Outstanding = 0 },
		"256 READs":              func(a *control.Address) { a.Outstanding = 256 },
		"no GID":                 func(a *control.Address) { a.GID, a.HasGID = verbs.GID{}, false },
		"a GID that it denies":   func(a *control.Address) { a.HasGID = false },
		"a window of one byte":   func(a *control.Address) { a.Window = 1 },
		"a window of all":        func(a *control.Address) { a.Window = 1<<63 - 1 },
		"a shared receive queue": func(a *control.Address) { a.SRQN = 77 },
	}
	for name, p := range map[string]plan.Spec{
		"write":         {Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{16384}, Verify: "ends"},
		"write q3":      {Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{16384}, QPs: 3},
		"read":          {Operation: plan.Read, Kind: plan.Bandwidth, Sizes: []int{16384}},
		"send":          {Operation: plan.Send, Kind: plan.Bandwidth, Sizes: []int{16384}},
		"send UC":       {Operation: plan.Send, Kind: plan.Bandwidth, Sizes: []int{16384}, Transport: verbs.UC},
		"send UD":       {Operation: plan.Send, Kind: plan.Bandwidth, Sizes: []int{1024}, Transport: verbs.UD},
		"latency send":  {Operation: plan.Send, Kind: plan.Latency, Sizes: []int{8}, InlineBytes: -1},
		"latency write": {Operation: plan.Write, Kind: plan.Latency, Sizes: []int{8}, InlineBytes: -1},
		"latency read":  {Operation: plan.Read, Kind: plan.Latency, Sizes: []int{8}},
	} {
		if p.Duration, p.Timeout, p.Retries = time.Second, 10, 2; p.Kind == plan.Bandwidth {
			p.TxDepth = 16
		}
		for lie, tell := range lies {
			for _, does := range []string{"runs", "is silent", "connects, and takes nothing"} {
				if !testrun.Whole() && rand.IntN(40) != 0 { // others in another run
					continue
				}
				t.Run(name+"/"+lie+"/"+does, func(t *testing.T) {
					all := measurers(t, 2, p)
					honest, evil := all[0], all[1]
					ends := []fabric.FlowEnd{{Initiates: true}, {}}
					other := []fabric.FlowEnd{{}, {Initiates: true}}
					if p.Kind == plan.Latency {
						ends, other = ends[:1], other[:1]
					}
					mine, err := honest.prepare(fabric.PrepareOrder{Flows: ends})
					if err != nil {
						t.Fatal(err)
					}
					theirs, err := evil.prepare(fabric.PrepareOrder{Flows: other})
					if err != nil {
						t.Fatal(err)
					}
					for i := range theirs {
						for k := range theirs[i] {
							tell(&theirs[i][k])
						}
					}
					g := fabric.GoOrder{Lead: 20 * time.Millisecond, Measure: 100 * time.Millisecond, Tail: 20 * time.Millisecond}
					liars, done := g, make(chan error, 1)
					g.Addresses, liars.Addresses = theirs, mine
					go func() {
						switch does {
						case "runs":
							_, err := evil.run(context.Background(), liars)
							done <- err
						case "connects, and takes nothing":
							for i, f := range evil.flows {
								if err := f.end.Connect(mine[i], plan.DataPolicy{}); err != nil {
									t.Log(err)
								}
							}
							done <- nil
						default:
							done <- nil
						}
					}()
					began := time.Now()
					flows, err := honest.run(t.Context(), g)
					took := time.Since(began)
					if err := <-done; err != nil {
						t.Log("the liar:", err)
					}
					said := fmt.Sprintf("%v: %+v", took.Round(time.Millisecond), flows)
					if err != nil {
						t.Errorf("the rail's fault: %v", err)
					}
					if took > fabric.BeyondRun {
						t.Errorf("it took %v", took)
					}
					for _, f := range flows {
						if f.Impossible() != "" {
							t.Error(f.Impossible())
						}
					}
					t.Log(strings.ReplaceAll(said, "\n", " "))
				})
			}
		}
	}
}

package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/verbstest"
)

// pair is two software devices and a session between them: run sends a plan to the other end.
type pair struct {
	client  verbs.Device
	others  []verbs.Device // the client's further ones
	session control.Session
}

// newPair opens both devices, each as wrap makes of it.
func newPair(t *testing.T, wrap func(verbs.Device) verbs.Device) *pair {
	t.Helper()
	return newPairOfRails(t, 1, 1, wrap)
}

// newPairOfRails gives each end so many devices.
func newPairOfRails(t *testing.T, clients, servers int, wrap func(verbs.Device) verbs.Device) *pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	at := [2]netip.Addr{verbstest.Address(), verbstest.Address()}
	open := func(address netip.Addr) verbs.Device {
		d, err := openOurs(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return wrap(d)
	}
	client, server := open(at[0]), open(at[1])
	further := func(n int) (out []verbs.Device) {
		for range n - 1 {
			out = append(out, open(verbstest.Address()))
		}
		return out
	}
	others, serving := further(clients), further(servers)
	patient := control.Timeouts{Peer: time.Minute}
	l, err := connect.Listen(control.Options{Address: netip.AddrPortFrom(at[1], 0).String(), Timeouts: patient})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		var list List
		s, err := l.Accept(ctx)
		if err != nil {
			return
		}
		for {
			res, err := Run(ctx, s, nil, server, Options{Rails: serving, List: &list})
			if err != nil || res == nil {
				_ = s.Close()
				return
			}
		}
	}()
	s, err := connect.Dial(ctx, l.Addr().String(), control.Options{Timeouts: patient, Source: at[0]})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		_ = l.Close()
		cancel()
		<-served
	})
	return &pair{client: client, others: others, session: s}
}

func (p *pair) run(t *testing.T, spec plan.Spec) (*Result, error) {
	t.Helper()
	return Run(t.Context(), p.session, &spec, p.client, Options{Rails: p.others})
}

func TestNoncontigStrategies(t *testing.T) {
	p := newPair(t, func(d verbs.Device) verbs.Device { return d })
	for _, shape := range plan.Shapes() {
		for n, s := range plan.Strategies(shape) {
			for i, layout := range []string{
				"vector:block=64,num=100,stride=192", "vector:block=1000,num=7,stride=1001",
				"struct:0+4,8+8,24+100,extent=200,num=17",
				"subarray:dims=32x16x8,face=y",
			} {
				if testing.Short() && i != n%4 {
					continue // one layout a strategy
				}
				t.Run(shape+"/"+s.Name+"/"+layout, func(t *testing.T) {
					res, err := p.run(t, plan.Spec{
						Transport: verbs.RC, Iterations: 60, Verify: "ends",
						Noncontig: &plan.Noncontig{Shape: shape, Strategy: s.Name, Layout: layout, Window: 3, Segment: 1024},
					})
					if err != nil {
						t.Fatal(err)
					}
					if len(res.Records) != 1 || res.Records[0].Messages != 60 {
						t.Fatalf("got %+v", res.Records)
					}
					if r := res.Records[0]; r.Latency == nil || r.CPU == nil || r.CPU.PostNsPerMessage == 0 {
						t.Errorf("got latency %v and CPU %v, want both", r.Latency, r.CPU)
					}
				})
			}
		}
	}
}

func TestNoncontigColdAndAll(t *testing.T) {
	if testing.Short() {
		t.Skip("short: TestNoncontigStrategies runs the same strategies")
	}
	p := newPair(t, func(d verbs.Device) verbs.Device { return d })
	for _, shape := range plan.Shapes() {
		for _, s := range plan.Strategies(shape) {
			res, err := p.run(t, plan.Spec{
				Transport: verbs.RC, Iterations: 50, Verify: "all",
				Noncontig: &plan.Noncontig{
					Shape: shape, Strategy: s.Name, Layout: "vector:block=48,num=50,stride=96", Window: 4, Footprint: 1 << 20,
				},
			})
			if err != nil {
				t.Fatalf("%s/%s: %v", shape, s.Name, err)
			}
			if got := res.Records[0].Messages; got != 50 {
				t.Errorf("%s/%s: got %d messages, want 50", shape, s.Name, got)
			}
		}
	}
}

// TestListsOfDescriptors: whatever the list, the direction, the road and the number of queue pairs, every byte of every
// list arrives where its descriptor says, and no other byte changes. What is read may overlap.
func TestListsOfDescriptors(t *testing.T) {
	p := newPair(t, func(d verbs.Device) verbs.Device { return d })
	lists := map[string]string{
		"rows to a range":     "0,0,576,300,4608,576\n",
		"pages in any order":  "0,8192,1000\n8192,0,3000\n4096,16384,4096\n20480,4096,1\n",
		"neighbours":          "0,100,50\n50,150,50\n200,300,7\n207,307,9\n1000,316,100\n",
		"overlapping sources": "0,0,100\n50,100,100\n0,200,100\n",
		"more than the queue": "0,0,8,3000,16,24\n",
	}
	r := rand.New(rand.NewPCG(42, 8))
	for n := range 4 {
		var text strings.Builder
		at := 0
		for range 1 + r.IntN(200) {
			length := 1 + r.IntN(300)
			at += r.IntN(2) * r.IntN(300)
			fmt.Fprintf(&text, "%d,%d,%d\n", r.IntN(1<<16), at, length)
			at += length
		}
		lists[fmt.Sprint("random ", n)] = text.String()
	}
	for name, text := range lists {
		for _, shape := range []string{plan.WritesList, plan.ReadsList} {
			if shape == plan.ReadsList { // the side that may overlap is the other
				text = swappedColumns(text)
			}
			descriptors, err := pattern.ReadDescriptors(strings.NewReader(text), pattern.DescriptorOptions{})
			if err != nil {
				t.Fatal(err)
			}
			list, err := NewList(descriptors)
			if err != nil {
				t.Fatal(err)
			}
			tried := map[string]bool{}
			for _, s := range plan.Strategies(shape) {
				if tried[s.Name] {
					continue
				}
				tried[s.Name] = true
				for _, qps := range []int{1, 3} {
					for _, mean := range []int{0, 80} {
						if mean+qps > 1 && testing.Short() && r.IntN(4) > 0 {
							continue
						}
						what := fmt.Sprintf("%s, %s %s, %d queue pairs, mean %d", name, shape, s.Name, qps, mean)
						d, _, err := list.Describe(shape == plan.ReadsList, mean)
						if err != nil {
							t.Fatalf("%s: %v", what, err)
						}
						spec := plan.Spec{
							Transport: verbs.RC, Iterations: 5, Verify: plan.VerifyAll, QPs: qps, Warmup: 1,
							Noncontig: &plan.Noncontig{
								Shape: shape, Strategy: s.Name, Window: 1 + r.IntN(3), Segment: 2000, MaxSGE: r.IntN(9), Descriptors: d,
								Footprint: r.IntN(2) << 17,
							},
						}
						res, err := Run(t.Context(), p.session, &spec, p.client, Options{List: list})
						if err != nil {
							t.Fatalf("%s: %v", what, err)
						}
						if rec := res.Records[0]; rec.Bytes != 5*uint64(d.Bytes) {
							t.Errorf("%s: %d bytes measured, want 5 lists of %d", what, rec.Bytes, d.Bytes)
						}
					}
				}
			}
		}
	}
}

// TestRandomLists moves random lists by every road in both directions, and compares every byte at both ends. In 'make
// test-all' they are 10^4, a hundred to a test, one behind the other. Sources may overlap.
func TestRandomLists(t *testing.T) {
	p := newPair(t, func(d verbs.Device) verbs.Device { return d })
	r := rand.New(rand.NewPCG(4, 2))
	tests, lists := 2, 10
	if testrun.Whole() {
		tests, lists = 100, 100
	}
	for n := range tests {
		text := randomLists(r, lists)
		for _, shape := range []string{plan.WritesList, plan.ReadsList} {
			if shape == plan.ReadsList {
				text = swappedColumns(text)
			}
			descriptors, err := pattern.ReadDescriptors(strings.NewReader(text), pattern.DescriptorOptions{})
			if err != nil {
				t.Fatal(err)
			}
			list, err := NewList(descriptors)
			if err != nil {
				t.Fatal(err)
			}
			d, _, err := list.Describe(shape == plan.ReadsList, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, road := range plan.Strategies(shape) {
				spec := plan.Spec{
					Transport: verbs.RC, Iterations: 2, Verify: plan.VerifyAll, QPs: 1 + r.IntN(2), Warmup: 1,
					Noncontig: &plan.Noncontig{
						Shape: shape, Strategy: road.Name, Window: 1 + r.IntN(2), Segment: 1 + r.IntN(4000), MaxSGE: r.IntN(9),
						Descriptors: d,
					},
				}
				res, err := Run(t.Context(), p.session, &spec, p.client, Options{List: list})
				if err != nil {
					t.Fatalf("test %d, %s by %s, %d queue pairs: %v", n, shape, road.Name, spec.QPs, err)
				}
				if rec := res.Records[0]; rec.Bytes != 2*uint64(d.Bytes) {
					t.Errorf("test %d, %s by %s: %d bytes measured, want 2 times %d", n, shape, road.Name, rec.Bytes, d.Bytes)
				}
			}
		}
	}
	t.Logf("%d lists", tests*lists)
}

// randomLists follow themselves now and then, at one end or at both. Their local pieces may overlap.
func randomLists(r *rand.Rand, lists int) string {
	var text strings.Builder
	remote := 0
	for range lists {
		local := 0
		for range 1 + r.IntN(60) {
			if r.IntN(3) == 0 {
				local = r.IntN(1 << 16)
			}
			remote += r.IntN(2) * r.IntN(300)
			length := 1 + r.IntN(300)
			fmt.Fprintf(&text, "%d,%d,%d\n", local, remote, length)
			local, remote = local+length, remote+length
		}
	}
	return text.String()
}

// swappedColumns is the list as the other end would write it.
func swappedColumns(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSpace(line), ",")
		f[0], f[1] = f[1], f[0]
		if len(f) == 6 {
			f[4], f[5] = f[5], f[4]
		}
		out.WriteString(strings.Join(f, ",") + "\n")
	}
	return out.String()
}

package bench

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/verbstest"
)

// noncontigPair is two software devices and a session between them: run sends a plan to the other end.
type noncontigPair struct {
	client  verbs.Device
	session control.Session
	at      [2]netip.Addr // client, server
}

func newNoncontigPair(t *testing.T) *noncontigPair {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	at := [2]netip.Addr{verbstest.Address(), verbstest.Address()}
	open := func(address netip.Addr) verbs.Device {
		d, err := openOurs(address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Close() })
		return d
	}
	client, server := open(at[0]), open(at[1])
	patient := control.Timeouts{Peer: time.Minute}
	l, err := control.Listen(control.ListenOptions{Address: "127.0.0.1:0", Timeouts: patient})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		s, err := l.Accept(ctx)
		if err != nil {
			return
		}
		for {
			res, err := Run(ctx, s, nil, server, Options{Local: at[1], Remote: at[0]})
			if err != nil || res == nil {
				_ = s.Close()
				return
			}
		}
	}()
	s, err := control.Dial(ctx, l.Addr().String(), control.DialOptions{Timeouts: patient})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		_ = l.Close()
		cancel()
		<-served
	})
	return &noncontigPair{client: client, session: s, at: at}
}

func (p *noncontigPair) run(t *testing.T, plan control.Plan) (*Result, error) {
	t.Helper()
	plan, err := NoncontigPlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	return Run(t.Context(), p.session, &plan, p.client, Options{Local: p.at[0], Remote: p.at[1]})
}

func TestNoncontigStrategies(t *testing.T) {
	p := newNoncontigPair(t)
	for _, shape := range Shapes() {
		for _, s := range Strategies(shape) {
			for _, layout := range []string{
				"vector:block=64,num=100,stride=192", "vector:block=1000,num=7,stride=1001", "struct:0+4,8+8,24+100,extent=200,num=17",
				"subarray:dims=32x16x8,face=y",
			} {
				t.Run(shape+"/"+s.Name+"/"+layout, func(t *testing.T) {
					res, err := p.run(t, control.Plan{
						Transport: verbs.RC, Duration: 20 * time.Millisecond, Verify: "ends",
						Noncontig: &control.Noncontig{Shape: shape, Strategy: s.Name, Layout: layout, Window: 3, Segment: 1024},
					})
					if err != nil {
						t.Fatal(err)
					}
					if len(res.Records) != 1 || res.Records[0].Messages == 0 {
						t.Fatalf("got %d records", len(res.Records))
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
	p := newNoncontigPair(t)
	for _, shape := range Shapes() {
		for _, s := range Strategies(shape) {
			res, err := p.run(t, control.Plan{
				Transport: verbs.RC, Iterations: 50, Verify: "all",
				Noncontig: &control.Noncontig{Shape: shape, Strategy: s.Name, Layout: "vector:block=48,num=50,stride=96", Window: 4, Cold: true, Footprint: 1 << 20},
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

// checkedMemory is a destination after a round, for tests of the checker.
func checkedMemory(t *testing.T) (*noncontig, *Endpoint, uint64) {
	t.Helper()
	plan, err := NoncontigPlan(control.Plan{
		Transport: verbs.RC, QPs: 1, Noncontig: &control.Noncontig{Shape: "both", Strategy: "gather-send", Layout: "vector:block=16,num=5,stride=48", Window: 2},
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := newNoncontig(plan, 4096, 64)
	if err != nil {
		t.Fatal(err)
	}
	n := w.(*noncontig)
	d, err := n.demand(verbs.Limits{MaxSGE: 32, MaxQPWR: 1024})
	if err != nil {
		t.Fatal(err)
	}
	b, err := verbs.Alloc(d.sendBytes+d.recvBytes, verbs.MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	e := &Endpoint{plan: plan, layout: newLayout(1, d), buffers: []*verbs.Buffer{b}}
	for _, r := range []Role{Initiator, Target} {
		if err := n.arm(e, r, plan.Sizes[0], 7); err != nil {
			t.Fatal(err)
		}
	}
	return n, e, 7
}

func TestNoncontigCheckFindsDamage(t *testing.T) {
	deliver := func(n *noncontig, e *Endpoint) {
		for it := n.layout.Iterate(); ; {
			b, ok := it.Next()
			if !ok {
				return
			}
			copy(e.recvSlot(0)[b.Offset:b.End()], e.sendSlot(0)[b.Offset:b.End()])
		}
	}
	one := []movement{{received: 1, sent: 1}}
	n, e, seed := checkedMemory(t)
	if err := n.check(e, Target, 80, seed, one); err == nil {
		t.Error("nothing arrived, and the check passed")
	}
	deliver(n, e)
	if err := n.check(e, Target, 80, seed, one); err != nil {
		t.Errorf("whole message: %v", err)
	}
	e.recvSlot(0)[50]++
	if err := n.check(e, Target, 80, seed, one); !errors.Is(err, ErrCorrupt) {
		t.Errorf("damaged block: got %v, want a corrupt message", err)
	}
	e.recvSlot(0)[50]--
	e.recvSlot(0)[20]++
	var gap *GapError
	if err := n.check(e, Target, 80, seed, one); !errors.As(err, &gap) || gap.Offset != 20 {
		t.Errorf("written gap: got %v, want offset 20", err)
	}
}

func TestNoncontigRefusals(t *testing.T) {
	lim := verbs.Limits{MaxSGE: 4, MaxSGERead: 2, MaxQPWR: 100, MaxMessageBytes: 1 << 20}
	for _, c := range []struct {
		name      string
		transport verbs.Transport
		n         control.Noncontig
		want      bool // refused
	}{
		{"fits", verbs.RC, control.Noncontig{Shape: "gather", Strategy: "gather-write", Layout: "vector:block=8,num=40,stride=16", Window: 10}, false},
		{"queue", verbs.RC, control.Noncontig{Shape: "gather", Strategy: "multi-wr", Layout: "vector:block=8,num=40,stride=16", Window: 10}, true},
		{"message", verbs.RC, control.Noncontig{Shape: "gather", Strategy: "pack", Layout: "vector:block=4M,num=1", Window: 1}, true},
		{"read over UC", verbs.UC, control.Noncontig{Shape: "scatter", Strategy: "scatter-read", Layout: "vector:block=8,num=2,stride=16", Window: 1}, true},
		{"chain over UC", verbs.UC, control.Noncontig{Shape: "both", Strategy: "gather-send", Layout: "vector:block=8,num=5,stride=16", Window: 1}, true},
		{"UD beyond the MTU", verbs.UD, control.Noncontig{Shape: "both", Strategy: "pack-send-unpack", Layout: "vector:block=1K,num=5,stride=2K", Window: 1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := CheckNoncontig(control.Plan{Transport: c.transport, Noncontig: &c.n}, lim, 4096); (err != nil) != c.want {
				t.Errorf("got %v, want refused %v", err, c.want)
			}
		})
	}
}

func TestNoncontigLoads(t *testing.T) {
	l, err := pattern.Vector(64, 70, 128)
	if err != nil {
		t.Fatal(err)
	}
	lim := verbs.Limits{MaxSGE: 32, MaxSGERead: 16}
	for _, c := range []struct {
		shape, strategy           string
		listBytes                 int
		wrs, sges, recvWRs, recvs int
	}{
		{"gather", "gather-write", 0, 3, 70, 0, 0},
		{"gather", "gather-write", 1024, 5, 70, 0, 0},
		{"gather", "gather-write", 32, 3, 70, 0, 0}, // shorter than a block
		{"gather", "pack", 1024, 1, 1, 0, 0},
		{"gather", "pack-pipelined", 0, 5, 5, 0, 0},
		{"gather", "multi-wr", 1024, 70, 70, 0, 0},
		{"scatter", "scatter-read", 0, 5, 70, 0, 0},
		{"both", "gather-send", 1024, 3, 70, 3, 70}, // the peer cuts its receives alike
		{"both", "pack-send-unpack", 0, 1, 1, 1, 1},
	} {
		s, err := StrategyNamed(c.shape, c.strategy)
		if err != nil {
			t.Fatal(err)
		}
		got := LoadOf(s, l, lim, &control.Noncontig{Segment: 1024, ListBytes: c.listBytes})
		if got.WRs != c.wrs || got.SGEs != c.sges || got.RecvWRs != c.recvWRs || got.RecvSGEs != c.recvs {
			t.Errorf("%s/%s: got %+v, want %d, %d, %d, %d", c.shape, c.strategy, got, c.wrs, c.sges, c.recvWRs, c.recvs)
		}
	}
}

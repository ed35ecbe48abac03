package coordinate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/fabric/agent"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/fabric/wire"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// fake is a worker without a network: its figures come from a table of slow ranks.
type fake struct {
	rank  int
	slow  map[int]float64 // share that a rank reaches, as a sender
	fail  func(round int) error
	flows []bool
	rail  wire.Rail
}

func (f *fake) Open(context.Context, wire.Open, int) wire.Rail { return f.rail }

func (f *fake) Prepare(_ context.Context, p wire.Prepare) ([][]control.Address, error) {
	if f.fail != nil {
		if err := f.fail(p.Round); err != nil {
			return nil, err
		}
	}
	f.flows = p.Flows
	out := make([][]control.Address, len(p.Flows))
	for i := range out {
		out[i] = []control.Address{{QPN: uint32(f.rank)}}
	}
	return out, nil
}

func (f *fake) Go(ctx context.Context, g wire.Go, rail int) ([]wire.Flow, error) {
	select {
	case <-time.After(g.In + g.Lead + g.Measure + g.Tail):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	out := make([]wire.Flow, len(f.flows))
	for i := range out {
		if len(g.Addresses[rail][i]) == 0 {
			continue
		}
		share := 1.0
		if s, slow := f.slow[f.rank]; slow {
			share = s
		}
		out[i].Bits = 1e9 * share * math.Exp(rand.NormFloat64()*0.01)
	}
	return out, nil
}

func (f *fake) Close() error { return nil }

// run is one run of a coordinator with agents of this process.
type run struct {
	ranks int
	cfg   func(*Config)
	agent func(rank int, c *agent.Config) bool // false: this rank stays away
	// control of a rank's connection
	during func(cancel []context.CancelCauseFunc)
	worker func(rank int) *fake
}

func (r run) run(t testing.TB) (Outcome, []error, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Ranks: r.ranks, Key: wire.KeyOf("job", "secret"), Version: "v1", Wait: 5 * time.Second, Rails: []string{""},
		Choose: func(o schedule.Options, _ []string) (schedule.Schedule, error) {
			s, err := schedule.New(schedule.Pairs, o)
			return s.Repeated(100), err
		},
		Plan:    plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{65536}},
		Measure: 10 * time.Millisecond, Judge: judge.Config{Seed: 1},
		Note: func(s string) { t.Log(s) },
	}
	if r.cfg != nil {
		r.cfg(&cfg)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	errs := make([]error, r.ranks)
	cancels := make([]context.CancelCauseFunc, r.ranks)
	var wg sync.WaitGroup
	for rank := range r.ranks {
		a := agent.Config{
			Hello: wire.Hello{Version: "v1", Rank: rank, Host: fmt.Sprintf("node%d", rank), Place: fmt.Sprint(rank), Now: time.Now()},
			Key:   cfg.Key, Places: []string{l.Addr().String()}, Wait: 10 * time.Second, Facts: func() wire.Facts { return wire.Facts{CPUs: 2} },
			Worker: func(int) agent.Worker {
				w := &fake{rank: rank}
				if r.worker != nil {
					w = r.worker(rank)
				}
				return w
			},
		}
		if r.agent != nil && !r.agent(rank, &a) {
			continue
		}
		var ctxA context.Context
		ctxA, cancels[rank] = context.WithCancelCause(ctx)
		wg.Go(func() { _, errs[rank] = agent.Run(ctxA, a) })
	}
	if r.during != nil {
		wg.Go(func() { r.during(cancels) })
	}
	o, err := Run(ctx, l, cfg)
	wg.Wait()
	for _, c := range cancels {
		if c != nil {
			c(nil)
		}
	}
	return o, errs, err
}

func findings(v judge.Verdict) []string {
	var out []string
	for _, f := range v.Findings {
		if f.Kind != judge.NotReproduced {
			out = append(out, fmt.Sprintf("%s %s %d", f.Kind, f.Subject, f.From))
		}
	}
	slices.Sort(out)
	return out
}

func TestRunFindsTheSlowHost(t *testing.T) {
	o, errs, err := run{ranks: 6, worker: func(rank int) *fake { return &fake{rank: rank, slow: map[int]float64{4: 0.6}} }}.run(t)
	if err := errors.Join(append(errs, err)...); err != nil {
		t.Fatal(err)
	}
	if got := findings(o.Verdict); !slices.Equal(got, []string{"slow host sender 4"}) {
		t.Errorf("%q", got)
	}
	for _, h := range o.Hosts {
		if h.State != Taking || h.Name != fmt.Sprintf("node%d", h.Rank) {
			t.Errorf("%+v", h)
		}
	}
	if o.Scheduled != 10 || len(o.Rounds) <= 10 {
		t.Errorf("%d scheduled, %d in all", o.Scheduled, len(o.Rounds))
	}
}

func hostOf(o Outcome, rank int) Host { return o.Hosts[rank] }

func TestHostsThatCannotTakePart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		r      run
		state  State
		reason string
	}{
		{"never comes", run{agent: func(rank int, _ *agent.Config) bool { return rank != 3 }, cfg: func(c *Config) { c.Wait = time.Second }}, Absent, "did not come within 1s"},
		{"another version", run{agent: func(rank int, c *agent.Config) bool {
			if rank == 3 {
				c.Hello.Version = "v2"
			}
			return true
		}}, Unfit, "gobw v2, and rank 0 is v1"},
		{"two ranks on one host", run{agent: func(rank int, c *agent.Config) bool {
			if rank == 3 {
				c.Hello.Place = "2"
				time.Sleep(300 * time.Millisecond)
			}
			return true
		}}, Unfit, "shares host node3 with rank 2"},
		{"its device does not open", run{worker: func(rank int) *fake {
			f := &fake{rank: rank}
			if rank == 3 {
				f.rail = wire.Rail{Device: "mlx5_0", Error: "port 1 is DOWN", Remedy: "check the cable"}
			}
			return f
		}}, Unfit, "mlx5_0: port 1 is DOWN"},
		{"its device vanishes", run{worker: func(rank int) *fake {
			f := &fake{rank: rank}
			if rank == 3 {
				f.fail = func(round int) error {
					if round >= 4 {
						return errors.New("the device is gone")
					}
					return nil
				}
			}
			return f
		}}, Lost, "the device is gone"},
		{"dies in mid-run", run{during: func(cancel []context.CancelCauseFunc) {
			time.Sleep(time.Second)
			cancel[3](errors.New("killed"))
		}, cfg: func(c *Config) { c.Measure = 200 * time.Millisecond }}, Lost, "ended"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.r.ranks = 5
			o, _, err := tt.r.run(t)
			if err != nil {
				t.Fatal(err)
			}
			if h := hostOf(o, 3); h.State != tt.state || !strings.Contains(h.Reason, tt.reason) {
				t.Errorf("%+v", h)
			}
			if got := findings(o.Verdict); len(got) > 0 {
				t.Errorf("findings %q among the rest", got)
			}
			if o.Verdict.Tested < 4*3 {
				t.Errorf("%d pairs tested", o.Verdict.Tested)
			}
		})
	}
}

func TestDuplicateRankIsRefused(t *testing.T) {
	o, errs, err := run{ranks: 4, agent: func(rank int, c *agent.Config) bool {
		if rank == 3 {
			c.Hello.Rank = 2
			time.Sleep(300 * time.Millisecond)
		}
		return true
	}, cfg: func(c *Config) { c.Wait = time.Second }}.run(t)
	if err != nil {
		t.Fatal(err)
	}
	if h := hostOf(o, 2); h.State != Taking || len(h.Notes) != 1 || !strings.Contains(h.Notes[0], "second process") {
		t.Errorf("%+v, agents %v", h, errs)
	}
}

func TestStrangersStayOut(t *testing.T) {
	o, errs, err := run{ranks: 4, agent: func(rank int, c *agent.Config) bool {
		if rank == 3 {
			c.Key, c.Wait = wire.KeyOf("job", "guess"), time.Second
		}
		return true
	}, cfg: func(c *Config) { c.Wait = 1500 * time.Millisecond }}.run(t)
	if err != nil {
		t.Fatal(err)
	}
	if hostOf(o, 3).State != Absent || errs[3] == nil || o.Verdict.Tested == 0 {
		t.Errorf("%+v, %v", hostOf(o, 3), errs[3])
	}
}

// proxy lets a test silence an agent without closing its connection.
type proxy struct {
	net.Listener
	target string
	mu     sync.Mutex
	cut    bool
}

func (p *proxy) serve() {
	for {
		a, err := p.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = a.Close()
			continue
		}
		pipe := func(dst, src net.Conn) {
			buf := make([]byte, 64<<10)
			for {
				n, err := src.Read(buf)
				for p.isCut() {
					time.Sleep(20 * time.Millisecond)
				}
				if n > 0 {
					_, _ = dst.Write(buf[:n])
				}
				if err != nil {
					_ = dst.Close()
					return
				}
			}
		}
		go pipe(a, b)
		go pipe(b, a)
	}
}

func (p *proxy) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
}

func TestSilenceIsNoticedWithinThreeSecondsAndForgiven(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	var mu sync.Mutex // over the two: the coordinator notes, this test waits
	var began time.Time
	var noticed time.Duration
	ready := make(chan struct{})
	o, _, err := run{
		ranks: 5,
		cfg: func(c *Config) {
			c.Measure = 200 * time.Millisecond
			c.Choose = func(o schedule.Options, _ []string) (schedule.Schedule, error) {
				o.Count = 40
				return schedule.New(schedule.Random, o)
			}
			c.Note = func(s string) {
				t.Log(s)
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(s, "is lost") && noticed == 0 {
					noticed = time.Since(began)
				}
			}
		},
		agent: func(rank int, c *agent.Config) bool {
			if rank == 3 {
				p.target = c.Places[0]
				go p.serve()
				c.Places = []string{l.Addr().String()}
				close(ready)
			}
			return true
		},
		during: func([]context.CancelCauseFunc) {
			<-ready
			time.Sleep(1500 * time.Millisecond)
			mu.Lock()
			began = time.Now()
			mu.Unlock()
			p.set(true)
			time.Sleep(4500 * time.Millisecond)
			p.set(false)
		},
	}.run(t)
	_ = l.Close()
	if err != nil {
		t.Fatal(err)
	}
	if noticed == 0 || noticed > Silence+time.Second {
		t.Errorf("noticed after %v", noticed)
	}
	if h := hostOf(o, 3); h.State != Taking || len(h.Silent) != 1 || h.Silent[0].Seconds < 3 {
		t.Errorf("%+v", h)
	}
	if got := findings(o.Verdict); len(got) > 0 {
		t.Errorf("accused: %q", got)
	}
}

func TestFullDiskKeepsWhatThereIs(t *testing.T) {
	r := run{ranks: 4, cfg: func(c *Config) {
		c.Measure = 300 * time.Millisecond
		n := 0
		c.Cells = func(Named, schedule.Round, judge.Load, []judge.Cell) error {
			if n++; n == 3 {
				return errors.New("disk full")
			}
			return nil
		}
	}}
	o, errs, err := r.run(t)
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("error %v", err)
	}
	if o.Verdict.Tested == 0 {
		t.Error("nothing was kept")
	}
	for _, e := range errs {
		if e != nil {
			t.Errorf("an agent ended with %v", e)
		}
	}
}

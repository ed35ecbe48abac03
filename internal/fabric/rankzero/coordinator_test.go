package rankzero

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/agent"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/verbs"
)

// fake is a worker without a network: its figures come from a table of slow ranks.
type fake struct {
	rank  int
	slow  map[int]float64 // share that a rank reaches, as a sender
	fail  func(round int) error
	flows []fabric.FlowEnd
	round int
	asked func(flows []fabric.FlowEnd) // beside fail; nil: nobody looks
	rail  fabric.Rail
	bits  float64       // instead of what it moved; 0: that
	stall time.Duration // before it says what it moved
	qps   int           // of a flow; 0: 1
	// of its queue pairs; nil: none, as on InfiniBand
	gid     *verbs.GID
	refuses func(peer control.Address) bool // cannot connect to it; nil: connects to all
}

// Do counts the rounds that it is asked to prepare.
func (f *fake) Do(ctx context.Context, o fabric.Order) (r fabric.Rail) {
	switch {
	case o.Open != nil:
		return f.rail
	case o.Go != nil:
		return f.move(ctx, *o.Go)
	}
	defer func() { f.round++ }()
	if f.fail != nil {
		if err := f.fail(f.round); err != nil {
			return fabric.Rail{Error: err.Error()}
		}
	}
	f.flows = o.Prepare.Flows
	if f.asked != nil {
		f.asked(f.flows)
	}
	for range f.flows {
		a := control.Address{QPN: uint32(f.rank)}
		if f.gid != nil {
			a.GID, a.HasGID = *f.gid, true
		}
		r.Addresses = append(r.Addresses, slices.Repeat([]control.Address{a}, max(f.qps, 1)))
	}
	return r
}

func (f *fake) move(ctx context.Context, g fabric.GoOrder) fabric.Rail {
	select {
	case <-time.After(g.In + g.Lead + g.Measure + g.Tail + f.stall):
	case <-ctx.Done():
		return fabric.Rail{Error: ctx.Err().Error()}
	}
	noise := rand.New(rand.NewPCG(uint64(f.rank), uint64(f.round)))
	out := make([]fabric.Flow, len(f.flows))
	for i := range out {
		if len(g.Addresses[i]) == 0 {
			continue
		}
		if f.refuses != nil && f.refuses(g.Addresses[i][0]) {
			out[i] = fabric.Flow{Error: "cannot reach it"}
			continue
		}
		share := 1.0
		if s, slow := f.slow[f.rank]; slow {
			share = s
		}
		out[i].Bits = cmp.Or(f.bits, 1e9*share*math.Exp(noise.NormFloat64()*0.01))
		for k := range out[i].Quantiles {
			out[i].Quantiles[k] = 1e3 * float64(k+1) * math.Exp(noise.NormFloat64()*0.01)
		}
	}
	return fabric.Rail{Flows: out}
}

func (f *fake) Close() error { return nil }

// run is one run of a coordinator with agents of this process, in virtual time. Rank r
// comes r milliseconds after the start.
type run struct {
	ranks   int
	cfg     func(*Config)
	agent   func(rank int, c *agent.Config) bool // false: this rank stays away
	worker  func(rank int) *fake
	late    map[int]time.Duration // ranks that come later than the others
	during  func(n *network)      // beside the run
	stopped map[int]time.Duration // when ranks are told to stop
	at      map[int]int           // ranks on the host of another rank
}

// outcome is what a run left.
type outcome struct {
	*report.Document
	agents []error // how each rank's agent ended
	notes  []string
}

// host is what became of a rank.
func (o outcome) host(rank int) matrix.Host {
	i := slices.IndexFunc(o.Fabric.Hosts, func(h matrix.Host) bool { return h.Rank == rank })
	return o.Fabric.Hosts[i]
}

func (r run) run(t *testing.T) (outcome, error) {
	t.Helper()
	var e outcome
	var err error
	synctest.Test(t, func(t *testing.T) { e, err = r.inBubble(t) })
	return e, err
}

func (r run) inBubble(t *testing.T) (outcome, error) {
	n := newNetwork()
	n.at = r.at
	e := outcome{agents: make([]error, r.ranks)}
	var mu sync.Mutex // of the notes, which the server makes, too
	cfg := Config{
		Ranks: r.ranks, Key: fabric.Key("job", "secret"), Version: "v1", Wait: 5 * time.Second, Rails: []string{""},
		Pattern: schedule.Pairs, Time: time.Minute,
		Plan:    plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{65536}},
		Measure: 200 * time.Millisecond, Judge: judge.Config{Seed: 1},
		Lookup: func(context.Context, string) ([]netip.Addr, error) {
			return nil, errors.New("no name service in a bubble")
		},
		Note: func(s string) {
			mu.Lock()
			defer mu.Unlock()
			e.notes = append(e.notes, s)
		},
	}
	if r.cfg != nil {
		r.cfg(&cfg)
	}
	var wg sync.WaitGroup
	for rank := range r.ranks {
		a := agent.Config{
			Hello: fabric.Hello{Rank: rank, Host: fmt.Sprintf("node%d", rank), Place: fmt.Sprint(rank), CPUs: 2}, Version: "v1",
			Key: cfg.Key, Rendezvous: []string{"node0:1"}, Wait: 2 * time.Minute,
			Dial: func(ctx context.Context, _ string) (net.Conn, error) { return n.dial(ctx, rank) },
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
		wg.Go(func() {
			time.Sleep(time.Duration(rank)*time.Millisecond + r.late[rank])
			ctx, stop := context.WithCancelCause(t.Context())
			if after := r.stopped[rank]; after > 0 {
				time.AfterFunc(after, func() { stop(errors.New("Ctrl-C")) })
			}
			_, e.agents[rank] = agent.Join(ctx, a)
			stop(nil)
		})
	}
	if r.during != nil {
		wg.Go(func() { r.during(n) })
	}
	o, err := Coordinate(t.Context(), n, cfg)
	wg.Wait()
	e.Document = o
	return e, err
}

// TestInterruptedBeforeRanksCome: hosts of a list have their names in the report, also if none came.
func TestInterruptedBeforeRanksCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		d, _ := Coordinate(ctx, newNetwork(), Config{
			Ranks: 2, Hosts: []string{"node1", "node2"}, Key: fabric.Key("job", "secret"), Wait: time.Minute,
			Rails: []string{""}, Pattern: schedule.Pairs,
			Time: time.Minute, Note: func(string) {},
		})
		if h := d.Fabric.Hosts; h[0].Name != "node1" || h[1].Name != "node2" {
			t.Errorf("%+v", h)
		}
	})
}

func findings(m *matrix.Matrix) []string {
	var out []string
	for _, f := range m.Findings {
		if f.Word != stats.Pass {
			out = append(out, fmt.Sprintf("%s %s %s", f.Cause, f.Subject, m.Hosts[f.From].Name))
		}
	}
	slices.Sort(out)
	return out
}

func TestRunFindsTheSlowHost(t *testing.T) {
	var kept []int // rounds in what a kill leaves
	keep := func(cfg *Config) {
		cfg.Kept = func(soFar func() *report.Document) {
			if d := soFar(); d.Complete || d.Fabric.Cells.Len() == 0 {
				t.Errorf("kept as complete: %v, with %d cells", d.Complete, d.Fabric.Cells.Len())
			} else {
				kept = append(kept, len(d.Fabric.Rounds))
			}
		}
	}
	o, err := run{
		ranks: 6, cfg: keep, worker: func(rank int) *fake { return &fake{rank: rank, slow: map[int]float64{4: 0.6}} },
	}.run(t)
	if err := errors.Join(append(o.agents, err)...); err != nil {
		t.Fatal(err)
	}
	if n := len(o.Fabric.Rounds); len(kept) != n || kept[0] != 1 || kept[n-1] != n {
		t.Errorf("of %d rounds there was kept %v", n, kept)
	}
	if got := findings(o.Fabric); !slices.Equal(got, []string{"slow sender node4"}) {
		t.Errorf("%q", got)
	}
	for _, h := range o.Fabric.Hosts {
		if h.Word != stats.Pass || h.Name != fmt.Sprintf("node%d", h.Rank) {
			t.Errorf("%+v", h)
		}
	}
	if o.Fabric.Planned != 10 || len(o.Fabric.Rounds) <= 10 {
		t.Errorf("%d scheduled, %d in all", o.Fabric.Planned, len(o.Fabric.Rounds))
	}
}

// TestFlowLabels: a network with several equal ways takes another for each of a host's partners. Both ends of a flow
// have the same label, and what is tested again has its own.
func TestFlowLabels(t *testing.T) {
	const ranks, qps = 5, 2
	var mu sync.Mutex
	labels := map[uint32]int{} // how many ends had each
	_, err := run{
		ranks: ranks,
		cfg:   func(c *Config) { c.Plan.QPs = qps },
		worker: func(rank int) *fake {
			return &fake{rank: rank, qps: qps, asked: func(flows []fabric.FlowEnd) {
				mu.Lock()
				defer mu.Unlock()
				for _, f := range flows {
					labels[f.FlowLabel]++
				}
			}}
		},
	}.run(t)
	if err != nil {
		t.Fatal(err)
	}
	for label, ends := range labels {
		if label%qps != 1 || ends%2 != 0 || ends < 2*ranks {
			t.Errorf("%d ends with flow label %d", ends, label)
		}
	}
	if len(labels) != ranks-1 {
		t.Errorf("flow labels %v of %d distances", labels, ranks-1)
	}
}

// long is a run of about fifteen seconds.
func long(c *Config) { c.Measure = 1300 * time.Millisecond }

// TestBadHosts: whatever is wrong with rank 3 is told of it, and the others are measured.
//
// A name that does not resolve, resolves to loopback or to another host: agent.TestPlaceThatIsNotRankZero. In
// namespaces, with real devices: cli/cmd/fabric.TestCluster.
func TestBadHosts(t *testing.T) {
	sick := func(r fabric.Rail, fail func(int) error) func(int) *fake {
		return func(rank int) *fake {
			if rank != 3 {
				return &fake{rank: rank}
			}
			return &fake{rank: rank, rail: r, fail: fail}
		}
	}
	for _, tt := range []struct {
		name   string
		r      run
		cause  stats.Cause // empty: it takes part
		reason string      // in its reason, or its notes
	}{
		{"never comes", run{
			agent: func(rank int, _ *agent.Config) bool { return rank != 3 },
			cfg:   func(c *Config) { c.Hosts = []string{"node4", "node3", "node2", "node1", "node0"} },
		}, matrix.Absent, "did not come within 5s"},
		{
			"slow to start by a minute",
			run{late: map[int]time.Duration{3: time.Minute}, cfg: func(c *Config) { c.Wait = 90 * time.Second }},
			"", "",
		},
		{
			"comes when the run has begun",
			run{late: map[int]time.Duration{3: 8 * time.Second}, cfg: long},
			matrix.Absent,
			"the host came after 8 s, when the run had begun",
		},
		{"another version", run{agent: func(rank int, c *agent.Config) bool {
			if rank == 3 {
				c.Version = "v2"
			}
			return true
		}}, matrix.Unfit, "v2, and rank 0 is v1"},
		{"two ranks on one host", run{at: map[int]int{3: 2}, agent: func(rank int, c *agent.Config) bool {
			if rank == 3 {
				c.Hello.Place = "2"
			}
			return true
		}}, matrix.Unfit, "shares host node3 with rank 2"},
		{
			"two ranks on one host, the higher first",
			run{at: map[int]int{3: 2}, late: map[int]time.Duration{2: time.Second}, agent: func(rank int, c *agent.Config) bool {
				if rank == 3 {
					c.Hello.Place = "2"
				}
				return true
			}},
			matrix.Unfit, "shares host node3 with rank 2",
		},
		{"a small MTU", run{worker: func(rank int) *fake {
			return &fake{
				rank: rank, rail: fabric.Rail{MTU: map[bool]verbs.MTU{true: verbs.MTU1024, false: verbs.MTU4096}[rank == 3]},
			}
		}}, "", "its MTU is 1024, and others have 4096: all flows use 1024"},
		{
			"an MTU that is none", run{worker: sick(fabric.Rail{MTU: 7}, nil)}, matrix.Unfit, "its MTU is 7, which is none",
		},
		{"the place of another host", run{agent: func(_ int, c *agent.Config) bool {
			c.Hello.Place = "2"
			return true
		}}, "", ""},
		{"one CPU", run{agent: func(rank int, c *agent.Config) bool {
			if rank == 3 {
				c.Hello.CPUs = 1
			}
			return true
		}}, "", "one CPU only"},
		{
			"its device does not open", run{
				worker: sick(fabric.Rail{Device: "mlx5_0", Error: "port 1 is DOWN", Remedy: "check the cable"}, nil),
			}, matrix.Unfit, "mlx5_0: port 1 is DOWN",
		},
		{
			"its device says much",
			run{worker: sick(fabric.Rail{Error: strings.Repeat("x", 64<<10)}, nil)},
			matrix.Unfit,
			"device: xxxx",
		},
		{"its device vanishes in round 4", run{cfg: long, worker: sick(fabric.Rail{}, func(round int) error {
			if round >= 3 {
				return errors.New("the device is gone")
			}
			return nil
		})}, matrix.Lost, "the device is gone"},
		{"killed in mid-run", run{cfg: long, during: func(n *network) {
			time.Sleep(time.Second)
			n.of(3).kill()
		}}, matrix.Lost, "its process has ended"},
		{
			"interrupted in mid-run",
			run{cfg: long, stopped: map[int]time.Duration{3: time.Second}},
			matrix.Lost,
			"it was stopped there: Ctrl-C",
		},
		{"stopped in mid-run", run{cfg: long, during: func(n *network) {
			time.Sleep(time.Second)
			n.of(3).hold(true)
			time.Sleep(time.Minute)
			n.of(3).kill()
		}}, matrix.Lost, "silent for 3."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.r.ranks = 5
			o, err := tt.r.run(t)
			if err != nil {
				t.Fatal(err)
			}
			h := o.host(3)
			if h.Cause != tt.cause || !strings.Contains(strings.Join(append(h.Notes, h.Reason), "; "), tt.reason) {
				t.Errorf("%+v", h)
			}
			if got := findings(o.Fabric); len(got) > 0 {
				t.Errorf("findings %q among the rest", got)
			}
			least := 4 * 3
			if tt.cause == "" {
				least = 5 * 4
			}
			if o.Fabric.Judged.Tested < least {
				t.Errorf("%d pairs tested", o.Fabric.Judged.Tested)
			}
			if tt.name == "never comes" && h.Name != "node3" {
				t.Errorf("named %q", h.Name)
			}
			if strings.Contains(tt.name, "round 4") && !strings.Contains(h.Reason, "(round ") {
				t.Errorf("lost: %s", h.Reason)
			}
			for rank, err := range o.agents {
				if err != nil && rank != 3 {
					t.Errorf("rank %d: %v", rank, err)
				}
			}
		})
	}
}

// TestWaitingIsTold: rank 0 says whom it waits for, once that takes longer than a launcher needs.
func TestWaitingIsTold(t *testing.T) {
	var told []string
	_, err := run{ranks: 5, late: map[int]time.Duration{
		2: 3500 * time.Millisecond, 3: 4500 * time.Millisecond, 4: time.Second,
	}, cfg: func(c *Config) {
		c.Hosts = []string{"node4", "node3", "node2", "node1", "node0"}
		c.Progress = func(text string) {
			if strings.HasPrefix(text, "waiting") {
				told = append(told, text)
			}
		}
	}}.run(t)
	want := "waiting for node3, node2, 3s left; waiting for node3, node2, 2s left; waiting for node3, 1s left"
	if err != nil ||
		strings.Join(told, "; ") != want {
		t.Errorf("%v: %q, want %s", err, told, want)
	}
}

func TestDuplicateRankIsRefused(t *testing.T) {
	o, err := run{ranks: 4, agent: func(rank int, c *agent.Config) bool {
		if rank == 3 {
			c.Hello.Rank = 2
		}
		return true
	}}.run(t)
	if err != nil {
		t.Fatal(err)
	}
	if o.agents[3] == nil || !strings.Contains(o.agents[3].Error(), "rank 2 is already running") {
		t.Errorf("the second one ended with %v", o.agents[3])
	}
	if h := o.host(2); h.Word != stats.Pass || len(h.Notes) != 1 || !strings.Contains(h.Notes[0], "second process") {
		t.Errorf("%+v, agents %v", h, o.agents)
	}
}

// TestHostsWithOneNameAreDifferentRanks: names with a domain in the list, and hosts that say theirs without.
func TestHostsWithOneNameAreDifferentRanks(t *testing.T) {
	c := &coordinator{cfg: Config{Hosts: []string{"n1.a", "n1.b"}}, hosts: []*host{{}, {}}}
	first := c.rankOf("n1", "10.0.0.9")
	c.hosts[first].peer = &peer{}
	if second := c.rankOf("n1", "10.0.0.9"); first != 0 || second != 1 {
		t.Errorf("ranks %d and %d", first, second)
	}
	if c.rankOf("n1.a", "10.0.0.9") != 0 || c.rankOf("n2", "10.0.0.9") != -1 {
		t.Errorf("a second n1.a is rank %d, a stranger %d", c.rankOf("n1.a", "10.0.0.9"), c.rankOf("n2", "10.0.0.9"))
	}
}

// TestHostsByAddress: a list may have addresses; a host that is in it by neither name nor
// address is told so at once, on both screens.
func TestHostsByAddress(t *testing.T) {
	const want = "host vm (10.0.0.3) is not in --hosts: add its name or its address there"
	o, err := run{
		ranks: 4, cfg: func(c *Config) { c.Hosts, c.Ranks = []string{"10.0.0.0", "10.0.0.1", "10.0.0.2"}, 3 },
		agent: func(_ int, c *agent.Config) bool {
			c.Hello.Rank, c.Hello.Host = -1, "vm"
			return true
		},
	}.run(t)
	if err != nil || o.Fabric.Took() != 3 || o.host(1).Name != "10.0.0.1" || o.host(1).Address != "10.0.0.1" {
		t.Errorf("%v: %+v", err, o.Fabric.Hosts)
	}
	if told := strings.Join(o.notes, "; "); !strings.Contains(told, "refused a process on vm: "+want) ||
		!strings.Contains(fmt.Sprint(o.agents[3]), want) {
		t.Errorf("rank 0 says %q, the agent %v", told, o.agents[3])
	}
}

func TestStrangersStayOut(t *testing.T) {
	o, err := run{ranks: 4, agent: func(rank int, c *agent.Config) bool {
		if rank == 3 {
			c.Key, c.Wait = fabric.Key("job", "guess"), 3600*time.Millisecond
		}
		return true
	}}.run(t)
	if err != nil {
		t.Fatal(err)
	}
	if o.host(3).Cause != matrix.Absent || !strings.Contains(fmt.Sprint(o.agents[3]), sameSecret) ||
		!strings.Contains(o.host(3).Reason, "refused was 10.0.0.3: another secret") || o.Fabric.Judged.Tested != 3*2 {
		t.Errorf("%+v, %v", o.host(3), o.agents[3])
	}
	if told := strings.Join(o.notes, "; "); told != "refused 10.0.0.3: another secret, or another job: "+sameSecret+
		"; not there within 5s: rank 3" {
		t.Errorf("told: %s", told)
	}
}

func TestSilenceIsNoticedWithinThreeSecondsAndForgiven(t *testing.T) {
	var cut time.Time
	var noticed time.Duration
	o, err := run{
		ranks: 5,
		cfg: func(c *Config) {
			long(c)
			note := c.Note
			c.Note = func(s string) {
				note(s)
				if strings.Contains(s, "takes no part: silent") && noticed == 0 {
					noticed = time.Since(cut)
				}
			}
		},
		during: func(n *network) {
			time.Sleep(1500 * time.Millisecond)
			cut = time.Now()
			n.of(3).hold(true)
			time.Sleep(4500 * time.Millisecond)
			n.of(3).hold(false)
		},
	}.run(t)
	if err != nil {
		t.Fatal(err)
	}
	if noticed < Silence-heartbeat || noticed > Silence+2*look {
		t.Errorf("noticed after %v", noticed)
	}
	if h := o.host(3); h.Word != stats.Pass || len(h.Notes) != 1 || !strings.HasPrefix(h.Notes[0], "silent for ") {
		t.Errorf("%+v", h)
	}
	if got := findings(o.Fabric); len(got) > 0 {
		t.Errorf("accused: %q", got)
	}
}

// TestShortSilenceCostsNothing: a link that is silent for less than the limit is not even noted.
func TestShortSilenceCostsNothing(t *testing.T) {
	o, err := run{ranks: 5, cfg: long, during: func(n *network) {
		time.Sleep(1500 * time.Millisecond)
		n.of(3).hold(true)
		time.Sleep(Silence - 2*heartbeat)
		n.of(3).hold(false)
	}}.run(t)
	if err != nil {
		t.Fatal(err)
	}
	if h := o.host(3); h.Word != stats.Pass || len(h.Notes) != 0 || len(findings(o.Fabric)) > 0 {
		t.Errorf("%+v, findings %q", h, findings(o.Fabric))
	}
}

package coordinate

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/fabric/topology"
	"github.com/gobw/gobw/internal/fabric/wire"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

const (
	// Heartbeat is how often each end says that it lives.
	Heartbeat = 500 * time.Millisecond
	// Silence is how long an agent may be silent before it is lost.
	Silence = 3 * time.Second

	look        = 100 * time.Millisecond // how often the agents are looked after
	openWithin  = 30 * time.Second       // for devices to be opened
	readyWithin = 10 * time.Second       // for a round's objects to be made
	lateResult  = 10 * time.Second       // beyond the end of a round
)

// Config is one run.
type Config struct {
	Ranks   int
	Names   []string // host of each rank, where a host list says; empty: whatever each rank says
	Hosts   []string // hosts of the run, where the launcher tells, in no order of ranks: names those that never come
	Key     wire.Key
	Version string
	Wait    time.Duration // for agents to come

	Rails   []string // devices; one empty name: each agent chooses its own
	Plan    plan.Spec
	Leaf    map[string]string // by host; nil: what each rank says
	Judge   judge.Config      // Hosts, Leaf and Rails are filled in
	Choose  func(schedule.Options) (schedule.Schedule, error)
	Lead    time.Duration
	Measure time.Duration
	Tail    time.Duration

	// Progress is told before each round, Cells after it, Note whatever the user should read at once.
	Progress  func(Progress)
	Cells     func(hosts Named, round schedule.Round, load judge.Load, cells []judge.Cell) error
	Note      func(string)
	Snapshots <-chan struct{}
	Snapshot  func(Outcome)
}

// Named are the hosts that cells speak of.
type Named struct{ names []string }

// Name is the host of an index.
func (n Named) Name(i int) string { return n.names[i] }

// Progress is how far a run has come.
type Progress struct {
	Round, Rounds int // Rounds is what is scheduled; re-tests come on top
	Label         string
	Retest        bool
	Left          time.Duration // of the scheduled rounds
}

// State is what became of a host.
type State string

// States of a host.
const (
	Taking  State = "took part"
	Absent  State = "absent"  // it never came
	Unfit   State = "unfit"   // it came and could not take part
	Lost    State = "lost"    // it took part and went away
	waiting State = "waiting" // inside a run only
)

// Host is one rank's part in a run.
type Host struct {
	Rank    int         `json:"rank"`
	Name    string      `json:"host"`
	Leaf    string      `json:"leaf,omitempty"`
	Address string      `json:"address,omitempty"`
	State   State       `json:"state"`
	Reason  string      `json:"reason,omitempty"`
	Remedy  string      `json:"remedy,omitempty"`
	Round   int         `json:"lost_in_round,omitempty"` // from 1
	Silent  []Gap       `json:"silent,omitempty"`
	Facts   *wire.Facts `json:"facts,omitempty"`
	Notes   []string    `json:"notes,omitempty"`
}

// Gap is a time in which a host was not heard of and after which it came back.
type Gap struct {
	Round   int     `json:"round"`
	Seconds float64 `json:"seconds"`
}

// Outcome is what a run has brought so far.
type Outcome struct {
	Hosts       []Host
	Taking      []int // rank of each host that the cells speak of
	Leaves      []string
	Leaf        []int // of those that take part
	Schedule    schedule.Schedule
	Scheduled   int // rounds run
	Rounds      []RoundInfo
	Judge       *judge.Judge
	Verdict     judge.Verdict
	Reasons     map[[2]int]string // why some cells have no figure
	Interrupted error
	Seconds     float64
}

// RoundInfo is what was run in a round.
type RoundInfo struct {
	Label  string     `json:"label"`
	Load   judge.Load `json:"load"`
	Flows  int        `json:"flows"`
	Failed int        `json:"failed,omitempty"`
}

// coordinator is one run.
type coordinator struct {
	cfg      Config
	begun    time.Time
	events   chan event
	peers    map[int]*peer // by rank
	hosts    []Host
	part     []*peer // those that take part, in the order of the cells
	named    Named
	leaf     []int
	leaves   []string
	schedule schedule.Schedule
	done     int
	rounds   []RoundInfo
	judge    *judge.Judge
	reasons  map[[2]int]string
	cost     time.Duration
	lookedAt time.Time
	server   *server
}

// event is a message of an agent, or its end.
type event struct {
	peer *peer
	m    *wire.Message
	err  error
}

// Run coordinates a whole run over a listener, which it closes. The error is of this end; what became of the others is in the
// outcome, which holds what was measured in any case.
func Run(ctx context.Context, l net.Listener, cfg Config) (Outcome, error) {
	c := &coordinator{
		cfg: cfg, begun: time.Now(), events: make(chan event, 4096), peers: map[int]*peer{}, hosts: make([]Host, cfg.Ranks),
		reasons: map[[2]int]string{}, lookedAt: time.Now(),
	}
	for r := range c.hosts {
		c.hosts[r] = Host{Rank: r, State: waiting}
		if r < len(cfg.Names) {
			c.hosts[r].Name = cfg.Names[r]
		}
	}
	c.server = listen(l, c)
	err := c.run(ctx)
	why := "the run is over"
	if ctx.Err() != nil {
		why = "the run was stopped"
		c.settle(ctx)
	} else if err != nil {
		why = err.Error()
	}
	c.server.close()
	for _, p := range c.peers {
		p.bye(why)
	}
	for _, p := range c.peers {
		p.wait()
	}
	o := c.outcome()
	if ctx.Err() != nil {
		o.Interrupted = context.Cause(ctx)
		err = nil
	}
	return o, err
}

func (c *coordinator) run(ctx context.Context) error {
	if err := c.gather(ctx); err != nil {
		return err
	}
	if err := c.open(ctx); err != nil {
		return err
	}
	if err := c.plan(); err != nil {
		return err
	}
	for c.done < c.schedule.Rounds {
		r := c.schedule.At(c.done)
		load := judge.Load{FanIn: r.FanIn, OneWay: c.cfg.Judge.OneWay}
		left := time.Duration(c.schedule.Rounds-c.done) * (c.cfg.Lead + c.cfg.Measure + c.cfg.Tail + c.meanCost())
		c.tell(Progress{Round: c.done + 1, Rounds: c.schedule.Rounds, Label: r.Label, Left: left})
		if err := c.round(ctx, r, load, judge.AllRails); err != nil {
			return err
		}
		c.done++
		if c.living() < 2 {
			return fmt.Errorf("fewer than two hosts are left after round %d", c.done)
		}
	}
	for r, more := c.judge.Next(); more; r, more = c.judge.Next() {
		c.tell(Progress{Round: len(c.rounds) + 1, Rounds: c.schedule.Rounds, Label: r.Label, Retest: true})
		if err := c.round(ctx, r.Round, r.Load, r.Rail); err != nil {
			return err
		}
	}
	return nil
}

// settle hears what was under way when a run was stopped: a launcher that ends all ranks because one has died (srun -K) may tell this
// one sooner than the connection to the dead one does.
func (c *coordinator) settle(ctx context.Context) {
	const within = 250 * time.Millisecond
	_ = c.await(context.WithoutCancel(ctx), within, func() bool { return false })
}

func (c *coordinator) tell(p Progress) {
	if c.cfg.Progress != nil {
		c.cfg.Progress(p)
	}
}

func (c *coordinator) note(format string, args ...any) {
	if c.cfg.Note != nil {
		c.cfg.Note(fmt.Sprintf(format, args...))
	}
}

// meanCost is what a round takes beyond its measuring.
func (c *coordinator) meanCost() time.Duration {
	if len(c.rounds) == 0 {
		return 100 * time.Millisecond
	}
	return c.cost / time.Duration(len(c.rounds))
}

// plan chooses the rounds for the hosts that take part.
func (c *coordinator) plan() error {
	c.leaf, c.leaves = topology.Number(plain.Each(c.part, func(p *peer) string { return c.hosts[p.rank].Leaf }))
	o := schedule.Options{Hosts: len(c.part), OneWay: c.cfg.Judge.OneWay, Seed: c.cfg.Judge.Seed, Roster: make([]schedule.Member, len(c.hosts))}
	if len(c.leaves) > 1 {
		o.Leaf = c.leaf
	}
	var err error
	for r, h := range c.hosts {
		o.Roster[r] = schedule.Member{Host: h.Name, Place: -1}
	}
	for i, p := range c.part {
		c.named.names = append(c.named.names, c.hosts[p.rank].Name)
		o.Roster[p.rank].Place = i
	}
	if c.schedule, err = c.cfg.Choose(o); err != nil {
		return err
	}
	j := c.cfg.Judge
	j.Hosts, j.Leaf, j.Rails = len(c.part), o.Leaf, len(c.cfg.Rails)
	c.judge = judge.New(j)
	return nil
}

func (c *coordinator) living() int {
	n := 0
	for _, p := range c.part {
		if !p.lost {
			n++
		}
	}
	return n
}

// outcome is what there is now.
func (c *coordinator) outcome() Outcome {
	o := Outcome{
		Hosts: slices.Clone(c.hosts), Leaves: c.leaves, Leaf: c.leaf, Schedule: c.schedule, Scheduled: c.done, Rounds: c.rounds,
		Judge: c.judge, Reasons: c.reasons, Seconds: time.Since(c.begun).Seconds(),
	}
	for r := range o.Hosts {
		if o.Hosts[r].State == waiting {
			o.Hosts[r].State, o.Hosts[r].Reason = Absent, "it had not come when the run ended"
			if c.peers[r] != nil {
				o.Hosts[r].State, o.Hosts[r].Reason = Unfit, "it came, but the run ended before it could begin"
			}
		}
	}
	o.Taking = plain.Each(c.part, func(p *peer) int { return p.rank })
	if c.judge != nil {
		o.Verdict = c.judge.Conclude()
	}
	return o
}

// await handles events until ready says so, the time is up or the context ends.
func (c *coordinator) await(ctx context.Context, within time.Duration, ready func() bool) error {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !ready() {
		select {
		case e := <-c.events:
			c.handle(e)
			for n := len(c.events); n > 0; n-- { // ready may cost a look at every agent
				c.handle(<-c.events)
			}
		case p := <-c.server.met:
			c.comesLate(p)
		case <-tick.C:
			c.lookAfter(time.Now())
		case <-deadline.C:
			return nil
		case <-c.cfg.Snapshots:
			if c.cfg.Snapshot != nil {
				c.cfg.Snapshot(c.outcome())
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// lookAfter finds the agents that have fallen silent, and those that came back. A look that comes late judges nobody: this
// process had no CPU.
func (c *coordinator) lookAfter(now time.Time) {
	late := now.Sub(c.lookedAt) > Silence/3
	c.lookedAt = now
	if late {
		return
	}
	for _, p := range c.peers {
		silent := now.Sub(p.heardAt())
		switch {
		case p.gone || p.excluded:
		case !p.lost && silent > Silence:
			c.lose(p, fmt.Sprintf("not heard of for %.1f s", silent.Seconds()), "is the host up, and its agent running? look at its console and at the link")
		case p.lost && silent < Heartbeat*2:
			c.back(p)
		}
	}
}

// lose takes an agent out of the rounds.
func (c *coordinator) lose(p *peer, why, remedy string) {
	if p.lost {
		return
	}
	p.lost, p.lostAt = true, p.heardAt()
	h := &c.hosts[p.rank]
	if h.State == Taking || h.State == waiting {
		h.State, h.Reason, h.Remedy, h.Round = Lost, why, remedy, len(c.rounds)+1
		c.note("%s (rank %d) is lost: %s", h.Name, p.rank, why)
	}
	if p.index >= 0 && c.judge != nil {
		c.judge.Lost(p.index)
	}
}

// back takes an agent in again that was silent for a while.
func (c *coordinator) back(p *peer) {
	h := &c.hosts[p.rank]
	if h.State != Lost || p.index < 0 {
		return
	}
	p.lost = false
	gap := p.heardAt().Sub(p.lostAt)
	h.State, h.Reason, h.Remedy = Taking, "", ""
	h.Silent = append(h.Silent, Gap{Round: h.Round, Seconds: gap.Seconds()})
	h.Round = 0
	if c.judge != nil {
		c.judge.Back(p.index)
	}
	c.note("%s (rank %d) is back after %.1f s of silence", h.Name, p.rank, gap.Seconds())
}

// handle takes one event.
func (c *coordinator) handle(e event) {
	p := e.peer
	if e.err != nil {
		if !p.gone {
			p.gone = true
			c.lose(p, wire.Clean(e.err.Error()), "look at its own output and its kernel's log (dmesg): it was killed, or has crashed")
		}
		return
	}
	switch e.m.Kind {
	case wire.KindFacts:
		p.facts = e.m.Facts
	case wire.KindPrepared:
		p.prepared = e.m.Prepared
	case wire.KindResult:
		p.result = e.m.Result
	default: // a heartbeat; whatever else an agent may say has been refused by its reader
	}
}

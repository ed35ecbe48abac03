package rankzero

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/launch"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/verbs"
)

const (
	// Silence is how long an agent may be silent before it is lost.
	Silence = 3 * time.Second

	heartbeat = 500 * time.Millisecond // the session's, at the longest
	look      = 100 * time.Millisecond // how often the agents are looked after
	grace     = 2 * time.Second        // for an answer to come, beyond what its order may take
)

// How a round is spent beside its measuring.
const (
	lead     = 100 * time.Millisecond
	tail     = 50 * time.Millisecond
	perRound = 150 * time.Millisecond // expected for all else
)

// Config is one run.
type Config struct {
	Ranks int
	// Launcher is what started the ranks; empty: a list of hosts.
	Launcher string
	// hosts of the run, where a list or a launcher tells: names those that never come, and gives a rank to those without
	Hosts   []string
	Key     []byte
	Version string
	Wait    time.Duration // for agents to come
	// Lookup resolves a host's name; nil: as this host does.
	Lookup func(ctx context.Context, name string) ([]netip.Addr, error)

	Rails []string // devices; one empty name: each agent chooses its own
	// Software is whether these are software devices.
	Software bool
	Plan     plan.Spec
	// DataAllow is where data may go beside the addresses from which the hosts are connected.
	DataAllow []netip.Prefix
	Judge     judge.Config // Hosts, Leaf, Rails and Retests are filled in
	Pattern   schedule.Pattern
	Time      time.Duration // of all rounds
	Measure   time.Duration // of one

	// Progress is told how far the run has come, while ranks are waited for and before each
	// round; Note what should be read at once.
	Progress  func(string)
	Note      func(string)
	Snapshots <-chan os.Signal
	Snapshot  func(*report.Document)
	// Kept may take, after each round, what there is so far: what a kill of this process
	// may not take away. nil: nobody wants it.
	Kept func(soFar func() *report.Document)
}

// host is one rank's part in a run. Its verdict says nothing as long as it may still come.
type host struct {
	matrix.Host
	*peer // its agent; nil: has not come

	lost     bool // takes no part: silent, or gone
	gone     bool // for good
	mtu      verbs.MTU
	lostAt   time.Time
	lostIn   int              // round, from 1
	flows    []fabric.FlowEnd // of this round
	orders   *fabric.Orders   // the last
	answer   *fabric.Answer   // to these; nil: there is none yet
	answered time.Time        // when it came
	late     time.Duration    // for which the run has waited for this host
	failures int              // rounds that it failed by itself
	failedIn int              // the last of them
	// A process of another version came from it, when first, and what it is unless the right one comes.
	refusedAt time.Time
	asRefused stats.Verdict
}

// here tells whether a host's agent has come.
func (h *host) here() bool { return h.peer != nil }

// fit tells whether a host may take part, as far as is known.
func (h *host) fit() bool { return h.here() && !h.lost }

func which(hosts []*host, are func(*host) bool) []*host {
	return slices.DeleteFunc(slices.Clone(hosts), func(h *host) bool { return !are(h) })
}

// ask sends orders, to which there is no answer yet.
func (h *host) ask(o *fabric.Orders) {
	if h.orders, h.answer = o, nil; !h.gone {
		h.send(o)
	}
}

// coordinator is one run.
type coordinator struct {
	cfg      Config
	begun    time.Time
	until    time.Time   // when the time of all rounds is up
	events   chan func() // what agents have said, for the goroutine of the run
	hosts    []*host     // by rank
	members  []*host     // those that take part, in the order of the cells
	leaves   []string
	mtu      verbs.MTU // the smallest of all devices: all paths have it
	schedule schedule.Schedule
	done     int
	judge    *judge.Judge
	reasons  map[[2]int]string
	lookedAt time.Time
	listener *listener
}

// Coordinate runs a whole test over a listener, which it closes. The error is of this end; what became of the others is
// in the document, which holds what was measured in any case.
func Coordinate(ctx context.Context, l net.Listener, cfg Config) (*report.Document, error) {
	c := &coordinator{
		cfg: cfg, begun: time.Now(), events: make(chan func(), 4096), reasons: map[[2]int]string{}, lookedAt: time.Now(),
	}
	for r := range cfg.Ranks {
		c.hosts = append(c.hosts, &host{Host: matrix.Host{Rank: r}})
	}
	c.listener = listen(l, c)
	err := c.run(ctx)
	why := "the run is over"
	if ctx.Err() != nil {
		why, err = "the run was stopped", context.Cause(ctx)
		// What was under way is heard: a launcher that ends all ranks because one has died (srun -K) may tell this one sooner
		// than the connection to the dead one does.
		_ = c.await(context.WithoutCancel(ctx), 250*time.Millisecond, func() bool { return false })
	} else if err != nil {
		why = err.Error()
	}
	c.listener.close()
	var parting sync.WaitGroup
	for _, h := range which(c.hosts, (*host).here) {
		parting.Go(func() { h.end(frame.KindBye, why) })
	}
	parting.Wait()
	return c.document(err), err
}

func (c *coordinator) run(ctx context.Context) error {
	if err := c.gather(ctx); err != nil {
		return err
	}
	if err := c.open(ctx); err != nil {
		return err
	}
	c.plan()
	each := c.each()
	c.until = time.Now().Add(time.Minute + 2*max(c.cfg.Time, time.Duration(c.schedule.Rounds)*each))
	for began := time.Now(); c.done < c.schedule.Rounds; {
		r := c.schedule.At(c.done)
		if c.done > 0 {
			each = time.Since(began) / time.Duration(c.done)
		}
		left := time.Duration(c.schedule.Rounds-c.done) * each
		c.tell("round %d of %d (%s), %v left", c.done+1, c.schedule.Rounds, r.Label, left.Round(time.Second))
		if err := c.round(ctx, r, judge.AllRails); err != nil {
			return err
		}
		c.done++
		c.keep()
		if err := c.enough("are left after round %d", c.done); err != nil {
			return &control.LostError{Phase: "measuring", Cause: err}
		}
	}
	for r, more := c.judge.Next(); more; r, more = c.judge.Next() {
		c.tell("round %d (%s)", c.rounds()+1, r.Label)
		if err := c.round(ctx, r.Round, r.Rail); err != nil {
			return err
		}
		c.keep()
	}
	return nil
}

func (c *coordinator) keep() {
	if c.cfg.Kept != nil {
		c.cfg.Kept(func() *report.Document { return c.document(errSnapshot) })
	}
}

func (c *coordinator) tell(format string, args ...any) { fabric.Say(c.cfg.Progress, format, args...) }

func (c *coordinator) note(format string, args ...any) { fabric.Say(c.cfg.Note, format, args...) }

// rounds is how many have been run.
func (c *coordinator) rounds() int {
	if c.judge == nil {
		return 0
	}
	return len(c.judge.Rounds())
}

// each is what a round is expected to take.
func (c *coordinator) each() time.Duration { return lead + c.cfg.Measure + tail + perRound }

// plan chooses the rounds for the hosts that take part: seven tenths of the time are theirs, the rest is for re-tests.
func (c *coordinator) plan() {
	j := c.cfg.Judge
	slices.SortStableFunc(c.members, func(a, b *host) int { return cmp.Compare(a.Leaf, b.Leaf) })
	j.Leaf, c.leaves = launch.NumberLeaves(plain.Each(c.members, func(h *host) string { return h.Leaf }))
	rounds := int(c.cfg.Time / c.each())
	c.schedule = schedule.New(c.cfg.Pattern, len(c.members), rounds*7/10, j.Seed)
	j.Hosts, j.Rails, j.Retests = len(c.members), len(c.cfg.Rails), max(rounds*3/10, 12)
	c.judge = judge.New(j)
}

// await handles events until ready says so, the time is up or the context ends.
func (c *coordinator) await(ctx context.Context, within time.Duration, ready func() bool) error {
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for !ready() {
		select {
		case heard := <-c.events:
			heard()
			for n := len(c.events); n > 0; n-- { // ready may cost a look at every agent
				(<-c.events)()
			}
		case p := <-c.listener.met:
			c.comes(p)
		case <-tick.C:
			c.lookAfter(time.Now())
		case <-deadline.C:
			return nil
		case <-c.cfg.Snapshots:
			if c.judge == nil {
				c.note("%d of %d ranks have come, %.0f s", len(which(c.hosts, (*host).here)), c.cfg.Ranks,
					time.Since(c.begun).Seconds())
			} else if c.cfg.Snapshot != nil {
				c.cfg.Snapshot(c.document(errSnapshot))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// lookAfter finds the agents that have fallen silent, and those that came back. A look that comes late says nothing:
// this process had no CPU.
func (c *coordinator) lookAfter(now time.Time) {
	late := now.Sub(c.lookedAt) > Silence/3
	c.lookedAt = now
	if late {
		return
	}
	for _, h := range which(c.hosts, (*host).here) {
		silent := h.session.Silence()
		switch {
		case h.gone:
		case !h.lost && silent > Silence:
			c.lose(h, fmt.Sprintf("silent for %.1f s", silent.Seconds()),
				"type 'uptime' there: the host, its process or the link of rank 0's connection stood still")
		case h.lost && silent < heartbeat*2:
			c.back(h)
		}
	}
}

// lose takes a host out of the rounds.
func (c *coordinator) lose(h *host, why, remedy string) {
	if h.lost {
		return
	}
	h.lost, h.lostAt = true, h.heardAt()
	if h.Word == "" || h.Word == stats.Pass {
		h.lostIn = c.rounds() + 1
		if c.judge == nil {
			h.lostIn = 0
		}
		h.Verdict = stats.Failure(matrix.Lost, remedy, "%s%s", bounded(why),
			plain.When(h.lostIn > 0, " (round %d)", h.lostIn))
		c.note("%s (rank %d) takes no part: %s", h.Name, h.Rank, bounded(why))
	}
	if c.judge != nil && slices.Contains(c.members, h) {
		c.judge.Lost[slices.Index(c.members, h)] = true
	}
}

// back takes a host in again that was silent for a while.
func (c *coordinator) back(h *host) {
	if h.Cause != matrix.Lost || !slices.Contains(c.members, h) {
		return
	}
	h.lost = false
	gap := h.heardAt().Sub(h.lostAt).Seconds()
	h.Verdict = stats.Verdict{Word: stats.Pass}
	h.note("silent for %.1f s in round %d, then back", gap, h.lostIn)
	if c.judge != nil {
		c.judge.Lost[slices.Index(c.members, h)] = false
	}
	c.note("%s (rank %d) is back after %.1f s of silence", h.Name, h.Rank, gap)
}

// mostNotes is how many things are told of one host.
const mostNotes = 16

func (h *host) note(format string, args ...any) {
	if len(h.Notes) < mostNotes {
		h.Notes = append(h.Notes, bounded(fmt.Sprintf(format, args...)))
	}
}

// bounded makes one short line of what another host said.
func bounded(text string) string { return plain.Text(control.Bounded(text)) }

// hear takes an agent's answer to orders, or why it is gone.
func (c *coordinator) hear(h *host, o *fabric.Orders, a *fabric.Answer, gone error) {
	switch {
	case gone == nil && o == h.orders: // else it comes too late
		h.answer, h.answered = a, time.Now()
	case gone != nil && !h.gone:
		h.gone = true
		c.lose(h, gone.Error(), "the rank was killed, or crashed: look at the output of 'gobw fabric' there, "+
			"and at the kernel's log (dmesg). The host may be good")
	}
}

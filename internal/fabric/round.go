package fabric

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/verbs"
)

// end is a flow's place among those of one agent.
type end struct {
	peer  *peer
	place int
}

// flowEnds are both ends of a flow: who posts requests, and the other.
type flowEnds struct {
	schedule.Flow
	initiator, target end
	mirrored          bool // the ping-pong of the flow before: the same objects, seen from the other end
	dead              bool // an end was lost before the round
}

// round runs one round and hands its cells to the judge.
func (c *coordinator) round(ctx context.Context, r schedule.Round, rail int) error {
	begun := time.Now()
	if begun.After(c.until) {
		return fmt.Errorf("no time left after round %d: agents answered slowly", c.rounds())
	}
	number := c.judge.Round(r.Round)
	rails := c.rails(rail)
	flows := c.lay(r.Flows)
	if err := c.prepare(ctx, rails, flows); err != nil {
		return err
	}
	if err := c.start(ctx, rails, flows); err != nil {
		return err
	}
	if err := c.proveLife(ctx, flows); err != nil {
		return err
	}
	c.judge.Add(c.cells(number, rails, flows))
	c.cost += time.Since(begun) - lead - c.cfg.Measure - tail
	return nil
}

// rails are one rail, or all.
func (c *coordinator) rails(only int) []int {
	if only != judge.AllRails {
		return []int{only}
	}
	all := make([]int, len(c.cfg.Rails))
	for i := range all {
		all[i] = i
	}
	return all
}

// lay gives each flow its ends. In a latency test both directions of a pair are one ping-pong: each end has its own view.
func (c *coordinator) lay(flows []schedule.Flow) []flowEnds {
	for _, p := range c.part {
		p.flows, p.order, p.answer = nil, nil, nil
	}
	latency := c.cfg.Plan.Kind == plan.Latency
	fetches := plan.RowOf(c.cfg.Plan.Operation).Fetches()
	out := make([]flowEnds, 0, len(flows))
	known := map[schedule.Flow]int{}
	for _, f := range flows {
		e := flowEnds{Flow: f}
		from, to := c.part[f.From], c.part[f.To]
		if from.lost || to.lost {
			e.dead = true
			out = append(out, e)
			continue
		}
		if k, twin := known[schedule.Flow{From: f.To, To: f.From}]; twin && latency && !fetches {
			e.initiator, e.target, e.mirrored = out[k].target, out[k].initiator, true
			out = append(out, e)
			continue
		}
		if fetches { // whose data is read does not post
			from, to = to, from
		}
		label := c.flowLabel(f)
		e.initiator, e.target = ask(from, Part{Initiates: true, FlowLabel: label}), ask(to, Part{FlowLabel: label})
		known[f] = len(out)
		out = append(out, e)
	}
	return out
}

// flowLabel is that of a flow's first queue pair. It depends on how many places the receiver comes after the sender, so that a host's
// flows take different ways in a network with several equal ones; a flow that is tested again has the same again.
func (c *coordinator) flowLabel(f schedule.Flow) uint32 {
	n := len(c.part)
	distance := (f.To - f.From + n) % n
	return 1 + uint32(distance*max(c.cfg.Plan.QPs, 1))%verbs.MaxFlowLabel
}

// ask adds a flow to what an agent will be asked for.
func ask(p *peer, part Part) end {
	p.flows = append(p.flows, part)
	return end{p, len(p.flows) - 1}
}

// prepare lets the agents make their objects.
func (c *coordinator) prepare(ctx context.Context, rails []int, flows []flowEnds) error {
	mtu := c.mtu()
	var asked []*peer
	for _, p := range c.part {
		if n := len(p.flows); n > 0 {
			p.send(&Order{Rails: rails, Prepare: &PrepareOrder{mtu, p.flows}, most: mostAnswer + mostAddress*len(rails)*n*max(c.cfg.Plan.QPs, 1)})
			asked = append(asked, p)
		}
	}
	if err := c.await(ctx, prepareWithin+grace, answered(asked)); err != nil {
		return err
	}
	for k := range flows {
		f := &flows[k]
		for _, e := range []end{f.initiator, f.target} {
			for i := range rails {
				if f.dead || e.peer == nil {
					break
				}
				if why := e.peer.lacks(len(rails), i, func(r Rail) int { return len(r.Addresses) }); why != "" {
					f.dead = true
					c.failed(f, why)
					c.unready(e.peer, why)
				}
			}
		}
	}
	return nil
}

// lacks tells why an agent's answer says nothing of its flows on a rail, of which of counts what was answered; empty: it does.
func (p *peer) lacks(rails, rail int, of func(Rail) int) string {
	switch {
	case p.lost:
		return "lost"
	case p.answer == nil:
		return "no answer in time"
	case p.answer.Error != "":
		return bounded(p.answer.Error)
	case len(p.answer.Rails) != rails:
		return "it answered for the wrong rails"
	case p.answer.Rails[rail].Error != "":
		return bounded(p.answer.Rails[rail].Error)
	case of(p.answer.Rails[rail]) != len(p.flows):
		return "it answered for the wrong flows"
	}
	return ""
}

// mostFailures is in how many rounds an agent may fail before it is left out.
const mostFailures = 2

// unready counts the rounds in which an agent failed.
func (c *coordinator) unready(p *peer, why string) {
	if p.lost {
		return
	}
	if p.failedIn == c.rounds() {
		return
	}
	p.failedIn = c.rounds()
	c.hosts[p.rank].note("round %d: %s", p.failedIn, why)
	if p.failures++; p.failures >= mostFailures {
		c.lose(p, why, "run 'gobw doctor' there")
		p.excluded = true
	}
}

// start gives all ends their peers' addresses and waits for what they moved.
func (c *coordinator) start(ctx context.Context, rails []int, flows []flowEnds) error {
	messages := map[*peer]*GoOrder{}
	of := func(p *peer) *GoOrder {
		g := messages[p]
		if g == nil {
			g = &GoOrder{Lead: lead, Measure: c.cfg.Measure, Tail: tail, Addresses: make([][][]control.Address, len(rails))}
			for i := range g.Addresses {
				g.Addresses[i] = make([][]control.Address, len(p.flows))
			}
			messages[p] = g
		}
		return g
	}
	running := 0
	for k := range flows {
		f := &flows[k]
		if f.dead || f.mirrored {
			continue
		}
		running++
		for i := range rails {
			of(f.initiator.peer).Addresses[i][f.initiator.place] = f.target.peer.answer.Rails[i].Addresses[f.target.place]
			of(f.target.peer).Addresses[i][f.target.place] = f.initiator.peer.answer.Rails[i].Addresses[f.initiator.place]
		}
	}
	if running == 0 {
		return nil
	}
	in := 20*time.Millisecond + time.Duration(len(messages))*20*time.Microsecond
	var asked []*peer
	begun := time.Now()
	for p, g := range messages {
		g.In = max(in-time.Since(begun), 0)
		p.send(&Order{Rails: rails, Go: g, most: mostAnswer + mostFlow*len(rails)*len(p.flows)})
		asked = append(asked, p)
	}
	return c.await(ctx, in+lead+c.cfg.Measure+tail+beyondRun+grace, answered(asked))
}

// answered tells whether all agents have answered, or are lost. It is asked again and again: those who have stay so.
func answered(asked []*peer) func() bool {
	return func() bool {
		for n := len(asked); n > 0 && (asked[n-1].lost || asked[n-1].answer != nil); n = len(asked) {
			asked = asked[:n-1]
		}
		return len(asked) == 0
	}
}

// proveLife waits, after a flow has failed, until both its ends have been heard again: a partner's failure comes sooner
// than the news that it is dead.
func (c *coordinator) proveLife(ctx context.Context, flows []flowEnds) error {
	suspects := map[*peer]bool{}
	for k := range flows {
		f := &flows[k]
		if f.dead {
			continue
		}
		for _, e := range []end{f.initiator, f.target} {
			if a := e.peer.answer; a == nil || a.Error != "" || failedFlow(a, e.place) {
				suspects[f.initiator.peer], suspects[f.target.peer] = true, true
			}
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	since := time.Now()
	return c.await(ctx, Silence+time.Second, func() bool {
		for p := range suspects {
			if !p.lost && !p.heardAt().After(since) {
				return false
			}
		}
		return true
	})
}

func failedFlow(a *Answer, place int) bool {
	return slices.ContainsFunc(a.Rails, func(r Rail) bool { return place >= len(r.Flows) || r.Flows[place].Error != "" })
}

// cells reads the results.
func (c *coordinator) cells(number uint16, rails []int, flows []flowEnds) []judge.Cell {
	out := make([]judge.Cell, 0, len(flows)*len(rails))
	for k := range flows {
		f := &flows[k]
		for i, rail := range rails {
			x := judge.Cell{From: uint16(f.From), To: uint16(f.To), Round: number, Rail: uint8(rail)}
			c.fill(&x, f, len(rails), i)
			out = append(out, x)
		}
	}
	return out
}

// fill gives a cell its figure from the end that knows it.
func (c *coordinator) fill(x *judge.Cell, f *flowEnds, rails, rail int) {
	x.State = matrix.Void
	if f.dead || f.initiator.peer.lost || f.target.peer.lost {
		if !f.dead {
			c.failed(f, "an end was lost in this round")
		}
		return
	}
	var said [2]Flow
	for i, e := range []end{f.initiator, f.target} {
		why := e.peer.lacks(rails, rail, func(r Rail) int { return len(r.Flows) })
		if why == "" {
			said[i] = e.peer.answer.Rails[rail].Flows[e.place]
			why = said[i].impossible()
		}
		if why != "" {
			c.failed(f, why)
			c.unready(e.peer, why)
			return
		}
	}
	switch a, b := said[0], said[1]; {
	case a.Corrupt || b.Corrupt:
		x.State = matrix.Corrupted
		c.failed(f, bounded(cmp.Or(b.Error, a.Error)))
		return
	case a.Error != "" || b.Error != "":
		x.State = matrix.Missing
		c.failed(f, bounded(cmp.Or(a.Error, b.Error)))
		return
	case a.Unmeasured || c.receiverKnows() && b.Unmeasured:
		c.failed(f, "another flow of this host failed before this flow sent data")
		return
	}
	x.State = matrix.Measured
	if c.cfg.Plan.Kind == plan.Latency {
		for k, q := range said[0].Quantiles {
			x.Quantiles[k] = float32(q)
		}
		x.Value = x.Quantiles[2]
	} else if x.Value = float32(said[0].Bits); c.receiverKnows() {
		x.Value = float32(said[1].Bits)
	}
	if !(x.Value > 0) {
		x.State = matrix.Missing
		c.failed(f, "nothing arrived in the measured time")
	}
}

// receiverKnows tells transports in which a completion at the sender does not mean that anything arrived.
func (c *coordinator) receiverKnows() bool {
	return c.cfg.Plan.Transport == verbs.UC || c.cfg.Plan.Transport == verbs.UD
}

// mostReasons is how many cells have their failure told.
const mostReasons = 1000

func (c *coordinator) failed(f *flowEnds, why string) {
	if len(c.reasons) < mostReasons && why != "" {
		c.reasons[[2]int{f.From, f.To}] = why
	}
}

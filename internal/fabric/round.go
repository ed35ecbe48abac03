package fabric

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// end is a flow's place among those of one host.
type end struct {
	*host
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
	if time.Now().After(c.until) {
		return fmt.Errorf("no time left after round %d: agents answered slowly", c.rounds())
	}
	number := c.judge.Round(r.Round)
	rails := []int{rail}
	if rail == judge.AllRails {
		rails = plain.UpTo(0, len(c.cfg.Rails))
	}
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
	return nil
}

// lay gives each flow its ends. In a latency test both directions of a pair are one ping-pong: each end has its own view.
func (c *coordinator) lay(flows []schedule.Flow) []flowEnds {
	for _, h := range c.part {
		h.flows, h.orders, h.answer = nil, nil, nil
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
		e.initiator, e.target = from.takes(Part{Initiates: true, FlowLabel: label}), to.takes(Part{FlowLabel: label})
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

// takes adds a flow to what a host will be asked for.
func (h *host) takes(part Part) end {
	h.flows = append(h.flows, part)
	return end{h, len(h.flows) - 1}
}

// prepare lets the agents make their objects.
func (c *coordinator) prepare(ctx context.Context, rails []int, flows []flowEnds) error {
	mtu := c.mtu()
	asked := which(c.part, func(h *host) bool { return len(h.flows) > 0 })
	for _, h := range asked {
		o := &Orders{most: mostAnswer + mostAddress*len(rails)*len(h.flows)*max(c.cfg.Plan.QPs, 1)}
		for _, rail := range rails {
			o.Rails = append(o.Rails, Order{Rail: rail, Prepare: &PrepareOrder{mtu, h.flows}})
		}
		h.ask(o)
	}
	if err := c.await(ctx, prepareWithin+grace, answered(asked)); err != nil {
		return err
	}
	for k := range flows {
		f := &flows[k]
		for _, e := range []end{f.initiator, f.target} {
			for i := range rails {
				if f.dead || e.host == nil {
					break
				}
				if why := e.lacks(len(rails), i, func(r Rail) int { return len(r.Addresses) }); why != "" {
					f.dead = true
					c.blame(f, e.host, why)
				}
			}
		}
	}
	return nil
}

// lacks tells why a host's answer says nothing of its flows on a rail, of which of counts what was answered; empty: it does.
func (h *host) lacks(rails, rail int, of func(Rail) int) string {
	switch {
	case h.lost:
		return "lost"
	case h.answer == nil:
		return "no answer in time"
	case h.answer.Error != "":
		return bounded(h.answer.Error)
	case len(h.answer.Rails) != rails:
		return "it answered for the wrong rails"
	case h.answer.Rails[rail].Error != "":
		return bounded(h.answer.Rails[rail].Error)
	case of(h.answer.Rails[rail]) != len(h.flows):
		return "it answered for the wrong flows"
	}
	return ""
}

// mostFailures is in how many rounds an agent may fail before it is left out.
const mostFailures = 2

// blame says why a flow failed that a host has not done its part for, and counts the rounds in which it failed.
func (c *coordinator) blame(f *flowEnds, h *host, why string) {
	c.failed(f, why)
	if h.lost || h.failedIn == c.rounds() {
		return
	}
	h.failedIn = c.rounds()
	h.note("round %d: %s", h.failedIn, why)
	if h.failures++; h.failures >= mostFailures {
		c.lose(h, why, "run 'gobw doctor' there")
		h.gone = true
	}
}

// start gives all ends their peers' addresses and waits for what they moved.
func (c *coordinator) start(ctx context.Context, rails []int, flows []flowEnds) error {
	orders := map[*host]*Orders{}
	meet := func(e, other end) {
		o := orders[e.host]
		if o == nil {
			o = &Orders{most: mostAnswer + mostFlow*len(rails)*len(e.flows)}
			for _, rail := range rails {
				o.Rails = append(o.Rails, Order{Rail: rail, Go: &GoOrder{Lead: lead, Measure: c.cfg.Measure, Tail: tail, Addresses: make([][]control.Address, len(e.flows))}})
			}
			orders[e.host] = o
		}
		for i := range rails {
			o.Rails[i].Go.Addresses[e.place] = other.answer.Rails[i].Addresses[other.place]
		}
	}
	for k := range flows {
		if f := &flows[k]; !f.dead && !f.mirrored {
			meet(f.initiator, f.target)
			meet(f.target, f.initiator)
		}
	}
	if len(orders) == 0 {
		return nil
	}
	in := 20*time.Millisecond + time.Duration(len(orders))*20*time.Microsecond
	begun := time.Now()
	for h, o := range orders {
		for i := range o.Rails {
			o.Rails[i].Go.In = max(in-time.Since(begun), 0)
		}
		h.ask(o)
	}
	return c.await(ctx, in+lead+c.cfg.Measure+tail+beyondRun+grace, answered(slices.Collect(maps.Keys(orders))))
}

// answered tells whether all hosts have answered, or are lost. It is asked again and again: those who have stay so.
func answered(asked []*host) func() bool {
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
	suspects := map[*host]bool{}
	for k := range flows {
		f := &flows[k]
		if f.dead {
			continue
		}
		for _, e := range []end{f.initiator, f.target} {
			if a := e.answer; a == nil || a.Error != "" || failedFlow(a, e.place) {
				suspects[f.initiator.host], suspects[f.target.host] = true, true
			}
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	since := time.Now()
	return c.await(ctx, Silence+time.Second, func() bool {
		for h := range suspects {
			if !h.lost && !h.heardAt().After(since) {
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
	if f.dead || f.initiator.lost || f.target.lost {
		if !f.dead {
			c.failed(f, "an end was lost in this round")
		}
		return
	}
	var said [2]Flow
	for i, e := range []end{f.initiator, f.target} {
		why := e.lacks(rails, rail, func(r Rail) int { return len(r.Flows) })
		if why == "" {
			said[i] = e.answer.Rails[rail].Flows[e.place]
			why = said[i].impossible()
		}
		if why != "" {
			c.blame(f, e.host, why)
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

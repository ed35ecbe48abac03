package rankzero

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// round is one round on some rails.
type round struct {
	*coordinator
	rails []int
	flows []flowEnds
}

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
	dead              bool // an end was lost, or has failed to do its part
}

// round runs one round and hands its cells to the judge.
func (c *coordinator) round(ctx context.Context, scheduled schedule.Round, rail int) error {
	if time.Now().After(c.until) {
		return fmt.Errorf("no time left after round %d: agents answered slowly", c.rounds())
	}
	r := &round{coordinator: c, rails: []int{rail}}
	if rail == judge.AllRails {
		r.rails = plain.UpTo(0, len(c.cfg.Rails))
	}
	number := c.judge.Round(scheduled.Round)
	r.lay(scheduled.Flows)
	if err := r.prepare(ctx); err != nil {
		return err
	}
	if err := r.start(ctx); err != nil {
		return err
	}
	c.judge.Add(r.cells(number))
	return nil
}

// lay gives each flow its ends. In a latency test both directions of a pair are one ping-pong: each end has its own view.
func (r *round) lay(flows []schedule.Flow) {
	for _, h := range r.part {
		h.flows, h.orders, h.answer = nil, nil, nil
	}
	fetches := plan.RowOf(r.cfg.Plan.Operation).Fetches()
	known := map[schedule.Flow]int{}
	for _, f := range flows {
		e := flowEnds{Flow: f}
		from, to := r.part[f.From], r.part[f.To]
		if k, twin := known[schedule.Flow{From: f.To, To: f.From}]; from.lost || to.lost {
			e.dead = true
		} else if twin && r.cfg.Plan.Kind == plan.Latency && !fetches {
			e.initiator, e.target, e.mirrored = r.flows[k].target, r.flows[k].initiator, true
		} else {
			if fetches { // whose data is read does not post
				from, to = to, from
			}
			label := r.flowLabel(f)
			e.initiator, e.target = from.takes(fabric.Part{Initiates: true, FlowLabel: label}), to.takes(fabric.Part{FlowLabel: label})
			known[f] = len(r.flows)
		}
		r.flows = append(r.flows, e)
	}
}

// flowLabel is that of a flow's first queue pair. It depends on how many places the receiver comes after the sender, so that a host's
// flows take different ways in a network with several equal ones; a flow that is tested again has the same again.
func (c *coordinator) flowLabel(f schedule.Flow) uint32 {
	n := len(c.part)
	distance := (f.To - f.From + n) % n
	return 1 + uint32(distance*max(c.cfg.Plan.QPs, 1))%verbs.MaxFlowLabel
}

// takes adds a flow to what a host will be asked for.
func (h *host) takes(part fabric.Part) end {
	h.flows = append(h.flows, part)
	return end{h, len(h.flows) - 1}
}

// prepare lets the agents make their objects.
func (r *round) prepare(ctx context.Context) error {
	orders := map[*host]*fabric.Orders{}
	for _, h := range which(r.part, func(h *host) bool { return len(h.flows) > 0 }) {
		orders[h] = r.order(h, fabric.MostAddress*max(r.cfg.Plan.QPs, 1), func() fabric.Order { return fabric.Order{Prepare: &fabric.PrepareOrder{MTU: r.mtu, Flows: h.flows}} })
	}
	return r.turn(ctx, fabric.PrepareWithin, orders, func(rail fabric.Rail) int { return len(rail.Addresses) })
}

// start gives all ends their peers' addresses and waits for what they moved.
func (r *round) start(ctx context.Context) error {
	orders := map[*host]*fabric.Orders{}
	meet := func(e, other end) {
		if orders[e.host] == nil {
			orders[e.host] = r.order(e.host, fabric.MostFlow, func() fabric.Order {
				return fabric.Order{Go: &fabric.GoOrder{Lead: lead, Measure: r.cfg.Measure, Tail: tail, Addresses: make([][]control.Address, len(e.flows))}}
			})
		}
		for i, o := range orders[e.host].Rails {
			o.Go.Addresses[e.place] = other.answer.Rails[i].Addresses[other.place]
		}
	}
	for k := range r.flows {
		if f := &r.flows[k]; !f.dead && !f.mirrored {
			meet(f.initiator, f.target)
			meet(f.target, f.initiator)
		}
	}
	in := 20*time.Millisecond + time.Duration(len(orders))*20*time.Microsecond
	begin := time.Now().Add(in)
	for _, o := range orders {
		for _, rail := range o.Rails {
			rail.Go.In = max(time.Until(begin), 0)
		}
	}
	return r.turn(ctx, in+lead+r.cfg.Measure+tail+fabric.BeyondRun, orders, func(rail fabric.Rail) int { return len(rail.Flows) })
}

// order makes orders for all rails, whose answer has so many bytes for each flow.
func (r *round) order(h *host, perFlow int, of func() fabric.Order) *fabric.Orders {
	o := &fabric.Orders{Most: fabric.MostAnswer + perFlow*len(r.rails)*len(h.flows)}
	for _, rail := range r.rails {
		order := of()
		order.Rail = rail
		o.Rails = append(o.Rails, order)
	}
	return o
}

// turn lets hosts do one thing for their flows. Flows of which an end has not are dead. Once a flow has failed, both its ends must be
// heard again before one is blamed: a partner's failure comes sooner than the news that it is dead.
func (r *round) turn(ctx context.Context, within time.Duration, orders map[*host]*fabric.Orders, count func(fabric.Rail) int) error {
	for h, o := range orders {
		h.ask(o)
	}
	if err := r.await(ctx, within+grace, answered(slices.Collect(maps.Keys(orders)))); err != nil {
		return err
	}
	suspects := map[*host]bool{}
	for _, f := range r.flows {
		if !f.dead && (f.initiator.failed(len(r.rails), count) || f.target.failed(len(r.rails), count)) {
			suspects[f.initiator.host], suspects[f.target.host] = true, true
		}
	}
	since := time.Now()
	if err := r.await(ctx, Silence+time.Second, func() bool {
		maps.DeleteFunc(suspects, func(h *host, _ bool) bool { return h.lost || h.heardAt().After(since) })
		return len(suspects) == 0
	}); err != nil {
		return err
	}
	for k := range r.flows {
		f := &r.flows[k]
		for _, e := range []end{f.initiator, f.target} {
			if f.dead {
				break
			}
			if why := e.lacks(len(r.rails), count); why != "" {
				f.dead = true
				r.blame(f, e.host, why)
			}
		}
	}
	return nil
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

// lacks tells why a host's answer says nothing of its flows, of which count is how many a rail has; empty: it does.
func (h *host) lacks(rails int, count func(fabric.Rail) int) string {
	switch {
	case h.lost:
		return "an end was lost in this round"
	case h.answer == nil:
		return "no answer in time"
	case len(h.answer.Rails) != rails:
		return "it answered for the wrong rails"
	}
	for _, r := range h.answer.Rails {
		if r.Error != "" {
			return bounded(r.Error)
		}
		if count(r) != len(h.flows) {
			return "it answered for the wrong flows"
		}
	}
	return ""
}

// failed tells whether an end says nothing of its flow, or that it failed.
func (e end) failed(rails int, count func(fabric.Rail) int) bool {
	return e.lacks(rails, count) != "" || slices.ContainsFunc(e.answer.Rails, func(r fabric.Rail) bool { return len(r.Flows) > 0 && r.Flows[e.place].Error != "" })
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

// cells reads the results.
func (r *round) cells(number uint16) []judge.Cell {
	out := make([]judge.Cell, 0, len(r.flows)*len(r.rails))
	for k := range r.flows {
		f := &r.flows[k]
		for i, rail := range r.rails {
			x := judge.Cell{From: uint16(f.From), To: uint16(f.To), Round: number, Rail: uint8(rail), State: matrix.Void}
			if !f.dead {
				r.fill(&x, f, i)
			}
			out = append(out, x)
		}
	}
	return out
}

// fill gives a cell its figure from the end that knows it.
func (r *round) fill(x *judge.Cell, f *flowEnds, rail int) {
	var said [2]fabric.Flow
	for i, e := range []end{f.initiator, f.target} {
		said[i] = e.answer.Rails[rail].Flows[e.place]
		if why := said[i].Impossible(); why != "" {
			r.blame(f, e.host, why)
			return
		}
	}
	// In UC and UD a completion at the sender does not mean that anything arrived.
	receiverKnows := r.cfg.Plan.Transport == verbs.UC || r.cfg.Plan.Transport == verbs.UD
	switch a, b := said[0], said[1]; {
	case a.Corrupt || b.Corrupt:
		x.State = matrix.Corrupted
		r.failed(f, bounded(cmp.Or(b.Error, a.Error)))
		return
	case a.Error != "" || b.Error != "":
		x.State = matrix.Missing
		r.failed(f, bounded(cmp.Or(a.Error, b.Error)))
		return
	case a.Unmeasured || receiverKnows && b.Unmeasured:
		r.failed(f, "another flow of this host failed before this flow sent data")
		return
	}
	x.State = matrix.Measured
	if r.cfg.Plan.Kind == plan.Latency {
		for k, q := range said[0].Quantiles {
			x.Quantiles[k] = float32(q)
		}
		x.Value = x.Quantiles[2]
	} else if x.Value = float32(said[0].Bits); receiverKnows {
		x.Value = float32(said[1].Bits)
	}
	if !(x.Value > 0) {
		x.State = matrix.Missing
		r.failed(f, "nothing arrived in the measured time")
	}
}

// mostReasons is how many cells have their failure told.
const mostReasons = 1000

func (c *coordinator) failed(f *flowEnds, why string) {
	if len(c.reasons) < mostReasons && why != "" {
		c.reasons[[2]int{f.From, f.To}] = why
	}
}

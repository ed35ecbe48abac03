package rankzero

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
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

// end is an end of a flow, by its index among the flows of its host.
type end struct {
	*host
	index int
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

// lay gives each flow its ends. In a latency test both directions of a pair are one
// ping-pong: each end has its own view.
func (r *round) lay(flows []schedule.Flow) {
	for _, h := range r.members {
		h.flows, h.orders, h.answer = nil, nil, nil
	}
	fetches := plan.RowOf(r.cfg.Plan.Operation).Fetches()
	known := map[schedule.Flow]int{}
	for _, f := range flows {
		e := flowEnds{Flow: f}
		from, to := r.members[f.From], r.members[f.To]
		if k, twin := known[schedule.Flow{From: f.To, To: f.From}]; from.lost || to.lost {
			e.dead = true
		} else if twin && r.cfg.Plan.Kind == plan.Latency && !fetches {
			e.initiator, e.target, e.mirrored = r.flows[k].target, r.flows[k].initiator, true
		} else {
			if fetches { // whose data is read does not post
				from, to = to, from
			}
			label := r.flowLabel(f)
			e.initiator, e.target = from.takes(fabric.FlowEnd{Initiates: true, FlowLabel: label}),
				to.takes(fabric.FlowEnd{FlowLabel: label})
			known[f] = len(r.flows)
		}
		r.flows = append(r.flows, e)
	}
}

// flowLabel is the label of a flow's first queue pair. It depends on how far the receiver comes after
// the sender, so that a host's flows take different ways in a network with several equal ways. A flow
// that is tested again has the same label.
func (c *coordinator) flowLabel(f schedule.Flow) uint32 {
	n := len(c.members)
	distance := (f.To - f.From + n) % n
	return 1 + uint32(distance*max(c.cfg.Plan.QPs, 1))%verbs.MaxFlowLabel
}

// takes adds a flow to what a host will be asked for.
func (h *host) takes(of fabric.FlowEnd) end {
	h.flows = append(h.flows, of)
	return end{h, len(h.flows) - 1}
}

// prepare lets the agents make their objects.
func (r *round) prepare(ctx context.Context) error {
	orders := map[*host]*fabric.Orders{}
	for _, h := range which(r.members, func(h *host) bool { return len(h.flows) > 0 }) {
		orders[h] = r.order(h, fabric.MostAddress*max(r.cfg.Plan.QPs, 1),
			func() fabric.Order { return fabric.Order{Prepare: &fabric.PrepareOrder{MTU: r.mtu, Flows: h.flows}} })
	}
	return r.turn(ctx, fabric.PrepareWithin, orders, r.wrongAddresses)
}

// start gives all ends their peers' addresses and waits for what they moved.
func (r *round) start(ctx context.Context) error {
	orders := map[*host]*fabric.Orders{}
	meet := func(e, other end) {
		if orders[e.host] == nil {
			orders[e.host] = r.order(e.host, fabric.MostFlow, func() fabric.Order {
				return fabric.Order{
					Go: &fabric.GoOrder{
						Lead: lead, Measure: r.cfg.Measure, Tail: tail, Addresses: make([][]control.Address, len(e.flows)),
					},
				}
			})
		}
		for i, o := range orders[e.host].Rails {
			o.Go.Addresses[e.index] = other.answer.Rails[i].Addresses[other.index]
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
	return r.turn(ctx, in+lead+r.cfg.Measure+tail+fabric.BeyondRun, orders, wrongFlows)
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

// turn lets hosts do one thing for their flows. A flow is dead if one of its ends did not. Once a flow has failed, both
// its ends must be heard again before one is blamed: a partner's failure comes sooner than the news that it is dead.
func (r *round) turn(ctx context.Context, within time.Duration, orders map[*host]*fabric.Orders,
	wrong wrongAnswer,
) error {
	for h, o := range orders {
		h.ask(o)
	}
	if err := r.await(ctx, within+grace, answered(slices.Collect(maps.Keys(orders)))); err != nil {
		return err
	}
	r.noteLate()
	suspects := map[*host]bool{}
	for _, f := range r.flows {
		if !f.dead && (f.initiator.failed(len(r.rails), wrong) || f.target.failed(len(r.rails), wrong)) {
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
			if why := e.lacks(len(r.rails), wrong); why != "" {
				f.dead = true
				r.blame(f, e.host, why)
			}
		}
	}
	return nil
}

// The run waits so long for a host's answer before that counts: a worker waits for its first completion, and for the
// retries of a dead queue pair. And so long in all: then the host is left out.
const (
	lateAfter = 5 * time.Second
	mostLate  = 30 * time.Second
)

// noteLate notes how long the run has waited for single hosts after most others had answered.
func (r *round) noteLate() {
	all := which(r.members, func(h *host) bool { return !h.lost && h.answer != nil })
	slices.SortFunc(all, func(a, b *host) int { return a.answered.Compare(b.answered) })
	for _, h := range all {
		after := h.answered.Sub(all[(len(all)-1)/2].answered)
		if after < lateAfter {
			continue
		}
		if h.late += after; h.late > mostLate {
			r.expel(h, fmt.Sprintf("its answers came %.0f s after those of the others, in all", h.late.Seconds()))
		}
	}
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

// wrongAnswer tells what is wrong with what a rail of a host answers for its flows; empty: nothing.
type wrongAnswer func(h *host, rail fabric.Rail) string

// wrongFlows is the one of a round's figures.
func wrongFlows(h *host, rail fabric.Rail) string {
	return plain.When(len(rail.Flows) != len(h.flows), "it answered for the wrong flows")
}

// wrongAddresses is the one of what was prepared. The others send where these addresses say: only to where rank 0 sees
// the host, unless the user allows others.
func (c *coordinator) wrongAddresses(h *host, rail fabric.Rail) string {
	if len(rail.Addresses) != len(h.flows) || len(rail.Flows) > 0 {
		return "it answered for the wrong flows"
	}
	for _, flow := range rail.Addresses {
		if len(flow) != max(c.cfg.Plan.QPs, 1) {
			return fmt.Sprintf("it has %d queue pairs in a flow, want %d", len(flow), max(c.cfg.Plan.QPs, 1))
		}
		for _, a := range flow {
			if why := c.wrongAddress(h, a); why != "" {
				return why
			}
		}
	}
	return ""
}

func (c *coordinator) wrongAddress(h *host, a control.Address) string {
	if what := a.Impossible(); what != "" {
		return "its queue pairs are impossible: " + what
	}
	if !a.HasGID && a.GID.IsZero() { // a LID
		return ""
	}
	at := a.GID.Addr()
	if at.IsMulticast() || at.IsUnspecified() || at == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return fmt.Sprintf("its queue pairs are at %v, which is not the address of one host", at)
	}
	seen, err := netip.ParseAddr(h.Address)
	allowed := func(p netip.Prefix) bool { return p.Contains(at) }
	// data goes there before anybody answers
	freely := c.cfg.Software || c.cfg.Plan.Transport == verbs.UC || c.cfg.Plan.Transport == verbs.UD
	switch {
	case err != nil, at == seen, at.IsLoopback() && seen.IsLoopback(), slices.ContainsFunc(c.cfg.DataAllow, allowed):
	case freely, at.IsLoopback():
		return fmt.Sprintf("its queue pairs are at %v, and its host is at %v: choose another GID (-x), "+
			"or allow the address at rank 0: --data-allow %v", at, seen, at)
	}
	return ""
}

// lacks tells why a host's answer says nothing of its flows; empty: it does.
func (h *host) lacks(rails int, wrong wrongAnswer) string {
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
		if why := wrong(h, r); why != "" {
			return why
		}
	}
	return ""
}

// failed tells whether an end says nothing of its flow, or that it failed.
func (e end) failed(rails int, wrong wrongAnswer) bool {
	return e.lacks(rails, wrong) != "" ||
		slices.ContainsFunc(e.answer.Rails,
			func(r fabric.Rail) bool { return len(r.Flows) > 0 && r.Flows[e.index].Error != "" })
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
		c.expel(h, why)
	}
}

// expel leaves a host out for good.
func (c *coordinator) expel(h *host, why string) {
	c.lose(h, why, "run 'gobw doctor' there")
	h.gone = true
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
		all := e.answer.Rails[rail].Flows
		said[i] = all[e.index]
		why := said[i].Impossible()
		if said[i].Unmeasured && !slices.ContainsFunc(all, func(o fabric.Flow) bool { return o.Error != "" }) {
			why = "it says that another of its flows failed, and none did"
		}
		if why != "" {
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

package rankzero

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/launch"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// anotherWithin is how long a host has for the right process after a wrong one has come from it.
const anotherWithin = 5 * time.Second

// gather lets the agents come in, until all are there or the time is up.
func (c *coordinator) gather(ctx context.Context) error {
	missing := func(h *host) bool {
		refusedLong := !h.refusedAt.IsZero() && time.Since(h.refusedAt) > anotherWithin
		return h.Word == "" && !h.here() && !refusedLong
	}
	next := c.begun.Add(fabric.TellAfter)
	here := func() bool {
		absent := which(c.hosts, missing)
		if now := time.Now(); len(absent) > 0 && now.After(next) {
			next = now.Add(time.Second)
			c.tell("waiting for %s, %v left", plain.Few(c.called(absent), 8, ", "),
				(c.cfg.Wait - now.Sub(c.begun)).Round(time.Second))
		}
		return len(absent) == 0
	}
	err := c.await(ctx, c.cfg.Wait, here)
	absent := which(c.hosts, missing)
	names := c.called(absent)
	for i, name := range names {
		if slices.Contains(c.cfg.Hosts, name) {
			absent[i].Name = name
		}
	}
	if err != nil {
		return err
	}
	if len(names) > 0 {
		c.note("not there within %v: %s", c.cfg.Wait, plain.Few(names, 8, ", "))
	}
	ctx, cancel := context.WithTimeout(ctx, lookUpWithin)
	defer cancel()
	for _, h := range which(c.hosts, func(h *host) bool { return !h.here() && !h.refusedAt.IsZero() }) {
		h.Verdict = h.asRefused
	}
	for _, h := range which(absent, func(h *host) bool { return h.Word == "" }) {
		h.Verdict = c.whyAbsent(ctx, h.Name)
	}
	return c.enough("came")
}

func (c *coordinator) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	if c.cfg.Lookup != nil {
		return c.cfg.Lookup(ctx, name)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
}

// whyAbsent is the verdict on a host that has not come: its process was refused, its name has no address here, or
// nobody knows.
func (c *coordinator) whyAbsent(ctx context.Context, name string) stats.Verdict {
	const look = "look at the output of 'gobw fabric' there: it may not run, its --coordinator may be another, " +
		"or a firewall may close the port"
	if name != "" {
		at, err := c.lookup(ctx, name)
		if why := c.listener.refusal(at); why != nil {
			return stats.Failure(matrix.Unfit, "correct that, and start the run again: the host was not tested",
				"its process was refused: %s", bounded(why.Error()))
		}
		if unknown, is := errors.AsType[*net.DNSError](err); is && unknown.IsNotFound {
			return stats.Failure(matrix.Absent, "correct the name in --hosts, or in DNS or /etc/hosts",
				"did not come within %v; its name has no address on rank 0's host", c.cfg.Wait)
		}
	}
	if strangers := c.listener.strangers(); strangers != "" {
		return stats.Failure(matrix.Absent, look, "did not come within %v; refused was %s", c.cfg.Wait, bounded(strangers))
	}
	return stats.Failure(matrix.Absent, look, "did not come within %v", c.cfg.Wait)
}

// lookUpWithin bounds the search for the addresses of absent hosts.
const lookUpWithin = 2 * time.Second

// called are the names of the listed hosts from which no rank arrived. If there are several, which rank is which host
// is only likely (launchers count in the order of their lists); that these hosts are missing is certain.
func (c *coordinator) called(absent []*host) []string {
	var left, out []string
	known := map[string]bool{}
	for _, h := range c.hosts {
		known[h.Name] = true
	}
	for _, name := range c.cfg.Hosts {
		if !known[name] {
			left, known[name] = append(left, name), true
		}
	}
	for _, h := range absent {
		name := h.Called()
		if h.Name == "" && len(left) > 0 {
			name, left = left[0], left[1:]
		}
		out = append(out, name)
	}
	return out
}

// enough tells whether there are two hosts to test.
func (c *coordinator) enough(verb string, args ...any) error {
	if n := len(which(c.hosts, (*host).fit)); n < 2 {
		return fmt.Errorf("%d of %d ranks %s: a fabric test needs two", n, c.cfg.Ranks, fmt.Sprintf(verb, args...))
	}
	return nil
}

// rankOf is the rank of a host that says none, by its name or its address. Of hosts
// that call themselves alike each gets one.
func (c *coordinator) rankOf(host, address string) int {
	open := slices.Clone(c.cfg.Hosts)
	for i := range open {
		if c.hosts[i].here() {
			open[i] = ""
		}
	}
	if rank := launch.RankOf(open, host, address); rank >= 0 {
		return rank
	}
	return launch.RankOf(c.cfg.Hosts, host, address)
}

// comes gives an agent its rank, or sends it away. Once the rounds are planned it is too late.
func (c *coordinator) comes(p *peer) {
	said := p.hello
	said.Host, said.Leaf = bounded(said.Host), bounded(said.Leaf)
	if said.Rank < 0 {
		if said.Rank = c.rankOf(said.Host, p.remote().String()); said.Rank < 0 {
			c.refuse(p, fmt.Sprintf("host %s (%s) is not in --hosts: add its name or its address there, and start the run again",
				said.Host, p.remote()))
			return
		}
		said.Host = c.cfg.Hosts[said.Rank]
	}
	if said.Rank >= c.cfg.Ranks {
		c.refuse(p, fmt.Sprintf("there is no rank %d among %d ranks", said.Rank, c.cfg.Ranks))
		return
	}
	h := c.hosts[said.Rank]
	if h.here() {
		c.refuse(p, fmt.Sprintf("rank %d is already running on %s", h.Rank, h.Name))
		h.note("a second process said it was this rank, on %s", said.Host)
		return
	}
	if h.Cause == matrix.Absent {
		after := time.Since(c.begun).Seconds()
		h.note("the host came after %.0f s, when the run had begun", after)
		c.refuse(p, fmt.Sprintf("the host came %.0f s after rank 0 began, too late; give a longer --wait", after))
		return
	}
	h.Name, h.Leaf, h.CPUs = said.Host, said.Leaf, said.CPUs
	if p.program != c.cfg.Version {
		h.asRefused = stats.Failure(matrix.Unfit, "install the same version on all hosts", "%s, and rank 0 is %s",
			bounded(p.program), c.cfg.Version)
		if h.refusedAt.IsZero() {
			h.refusedAt = time.Now()
		}
		c.refuse(p, fmt.Sprintf("it is %s, rank 0 is %s: run the same on all hosts", bounded(p.program), c.cfg.Version))
		return
	}
	if said.CPUs > 0 && said.Load > float64(said.CPUs)+1 {
		h.note("%.0f threads used or waited for its %d CPUs when it came: stop other programs there (top), "+
			"or its figures vary",
			said.Load, said.CPUs)
	}
	if said.CPUs == 1 {
		h.note("this rank may run on one CPU only: give it more (srun -c 4, or --exclusive), or its own figures will suffer")
	}
	h.peer = p
	p.start(func(o *fabric.Orders, a *fabric.Answer, gone error) {
		select {
		case c.events <- func() { c.hear(h, o, a, gone) }:
		case <-c.listener.ctx.Done(): // the run is over
		}
	})
}

// refuse sends a process away that has proven itself.
func (c *coordinator) refuse(p *peer, why string) {
	c.note("refused a process on %s%s: %s", bounded(p.hello.Host),
		plain.When(p.hello.Rank >= 0, " (rank %d)", p.hello.Rank), why)
	c.listener.wg.Go(func() { p.end(frame.KindError, why) })
}

// oneRankAHost keeps the lowest of the ranks that share a host: two would measure each other's noise. They come from
// one address.
func (c *coordinator) oneRankAHost() {
	at := map[[2]string]*host{}
	for _, h := range which(c.hosts, (*host).fit) {
		place := [2]string{h.hello.Place, h.Address}
		switch first := at[place]; {
		case h.hello.Place == "":
		case first == nil:
			at[place] = h
		default:
			c.unfit(h, fmt.Sprintf("shares host %s with rank %d", h.Name, first.Rank),
				"start one rank per host: srun --ntasks-per-node=1, mpirun --map-by ppr:1:node")
		}
	}
}

// unfit takes a host out before the rounds begin.
func (c *coordinator) unfit(h *host, why, remedy string) {
	h.Verdict = stats.Failure(matrix.Unfit, bounded(remedy), "%s", bounded(why))
	h.lost, h.gone = true, true
	c.note("%s (rank %d) cannot take part: %s", h.Name, h.Rank, h.Reason)
	c.listener.wg.Go(func() { h.end(frame.KindError, "this host cannot take part: "+h.Reason) })
}

// open lets all agents open their devices and keeps those that can take part.
func (c *coordinator) open(ctx context.Context) error {
	mine := c.ownAddress()
	for _, h := range which(c.hosts, (*host).here) {
		at := h.remote()
		if at.IsLoopback() && mine.IsValid() { // rank 0's own host, or one whose name for it resolves to itself
			at = mine
		}
		h.Address = at.String()
	}
	c.oneRankAHost()
	asked := which(c.hosts, (*host).fit)
	for _, h := range asked {
		o := &fabric.Orders{Most: fabric.MostAnswer * len(c.cfg.Rails)}
		for i, device := range c.cfg.Rails {
			o.Rails = append(o.Rails,
				fabric.Order{Rail: i, Open: &fabric.OpenOrder{Address: h.Address, Device: device, Plan: c.cfg.Plan}})
		}
		h.ask(o)
	}
	if err := c.await(ctx, fabric.OpeningWithin+grace, answered(asked)); err != nil {
		return err
	}
	for _, h := range which(asked, (*host).fit) {
		if why, remedy := c.opened(h); why != "" {
			c.unfit(h, why, remedy)
			continue
		}
		h.Word = stats.Pass
		c.members = append(c.members, h)
	}
	c.chooseMTU()
	return c.enough("can take part")
}

// chooseMTU chooses the smallest MTU of all, and notes whose it is.
func (c *coordinator) chooseMTU() {
	known := which(c.members, func(h *host) bool { return h.mtu != 0 })
	if len(known) == 0 {
		return
	}
	slices.SortFunc(known, func(a, b *host) int { return cmp.Compare(a.mtu, b.mtu) })
	c.mtu = known[0].mtu
	most := known[len(known)-1].mtu
	for _, h := range known {
		if h.mtu == c.mtu && c.mtu < most {
			h.note("its MTU is %v, and others have %v: all flows use %[1]v", c.mtu, most)
		}
	}
}

// ownAddress is this host as other hosts reach it.
func (c *coordinator) ownAddress() netip.Addr {
	for _, h := range which(c.hosts, (*host).here) {
		if !h.remote().IsLoopback() {
			return h.session.LocalAddr().WithZone("")
		}
	}
	return netip.Addr{}
}

// opened tells why a host's devices cannot be used, and what to do; empty: they can.
func (c *coordinator) opened(h *host) (why, remedy string) {
	switch a := h.answer; {
	case a == nil:
		return fmt.Sprintf("its devices were not open within %v", fabric.OpeningWithin+grace), "run 'gobw doctor' there"
	case len(a.Rails) != len(c.cfg.Rails):
		return fmt.Sprintf("it opened %d of %d devices", len(a.Rails), len(c.cfg.Rails)), "run 'gobw devices' there"
	}
	for i, rail := range h.answer.Rails {
		device := bounded(cmp.Or(rail.Device, c.cfg.Rails[i], "device"))
		if rail.Error != "" {
			return device + ": " + rail.Error, plain.When(rail.Remedy != "", "the rank advises: %s", control.Quoted(rail.Remedy))
		}
		if rail.MTU != 0 && rail.MTU.Bytes() == 0 {
			return fmt.Sprintf("%s: its MTU is %d, which is none", device, rail.MTU), "run 'gobw devices' there"
		}
		h.Devices = append(h.Devices, device)
		if h.mtu == 0 || rail.MTU != 0 && rail.MTU < h.mtu {
			h.mtu = rail.MTU
		}
	}
	return "", ""
}

// errSnapshot is why a document of a run that goes on is not complete.
var errSnapshot = errors.New("a snapshot, the run goes on")

package coordinate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/fabric/wire"
	"github.com/gobw/gobw/verbs"
)

// gather lets the agents come in, until all are there or the time is up.
func (c *coordinator) gather(ctx context.Context) error {
	deadline := time.NewTimer(c.cfg.Wait)
	defer deadline.Stop()
	tick := time.NewTicker(look)
	defer tick.Stop()
	for c.waitingFor() > 0 {
		select {
		case p := <-c.server.met:
			c.admit(p)
		case e := <-c.events:
			c.handle(e)
		case <-tick.C:
			c.lookAfter(time.Now())
		case <-c.cfg.Snapshots:
			c.note("%d of %d ranks have come, %.0f s", len(c.peers), c.cfg.Ranks, time.Since(c.begun).Seconds())
		case <-deadline.C:
			c.giveUpWaiting()
			return c.enough("came")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return c.enough("came")
}

func (c *coordinator) waitingFor() int {
	n := 0
	for r := range c.hosts {
		if c.hosts[r].State == waiting && c.peers[r] == nil {
			n++
		}
	}
	return n
}

func (c *coordinator) giveUpWaiting() {
	for r := range c.hosts {
		if h := &c.hosts[r]; h.State == waiting && c.peers[r] == nil {
			h.State, h.Reason = Absent, fmt.Sprintf("did not come within %v", c.cfg.Wait)
			h.Remedy = "look at its own output: the host may be down, its name for rank 0 may not resolve or be another host's, or a firewall may close the port"
		}
	}
	c.nameAbsent()
}

// nameAbsent names the ranks that did not come by the hosts that none came from. Of several, which rank is which host is only
// likely (launchers count in the order of their lists), but that these hosts are missing is certain.
func (c *coordinator) nameAbsent() {
	var left []string
	for _, name := range c.cfg.Hosts {
		if !slices.ContainsFunc(c.hosts, func(h Host) bool { return h.Name == name }) && !slices.Contains(left, name) {
			left = append(left, name)
		}
	}
	for r := range c.hosts {
		if h := &c.hosts[r]; h.State == Absent && h.Name == "" && len(left) > 0 {
			h.Name, left = left[0], left[1:]
		}
	}
}

func (c *coordinator) enough(verb string) error {
	n := 0
	for _, p := range c.peers {
		if !p.lost && !p.excluded {
			n++
		}
	}
	if n < 2 {
		return fmt.Errorf("%d of %d ranks %s: a fabric test needs two%s", n, c.cfg.Ranks, verb, c.reasonsOfHosts())
	}
	return nil
}

// reasonsOfHosts lists the first few hosts that cannot take part.
func (c *coordinator) reasonsOfHosts() string {
	var b strings.Builder
	n := 0
	for _, h := range c.hosts {
		if h.Reason != "" && n < 8 {
			fmt.Fprintf(&b, "\n  rank %d %s: %s", h.Rank, h.Name, h.Reason)
			n++
		}
	}
	return b.String()
}

// admit gives an agent its rank, or sends it away.
func (c *coordinator) admit(p *peer) {
	h := p.hello
	if h.Rank < 0 {
		h.Rank = c.rankByName(h.Host)
	}
	p.rank = h.Rank
	refuse := func(format string, args ...any) { c.refuse(p, fmt.Sprintf(format, args...)) }
	if h.Rank < 0 || h.Rank >= c.cfg.Ranks {
		refuse("there is no rank %d among %d ranks, or its host is not in the host list", h.Rank, c.cfg.Ranks)
		return
	}
	host := &c.hosts[h.Rank]
	if before := c.peers[h.Rank]; before != nil {
		refuse("rank %d is there already, on %s", h.Rank, host.Name)
		host.Notes = append(host.Notes, fmt.Sprintf("a second process said it was this rank, on %s", wire.Clean(h.Host)))
		return
	}
	host.Name, host.Leaf = wire.Clean(h.Host), wire.Clean(h.Leaf)
	if leaf, known := c.cfg.Leaf[host.Name]; known {
		host.Leaf = leaf
	}
	if p.excluded { // another version, which was told so
		host.State, host.Reason = Unfit, fmt.Sprintf("gobw %s, and rank 0 is %s", wire.Clean(h.Version), c.cfg.Version)
		host.Remedy = "install the same version on all hosts"
		_ = p.conn.Close()
		return
	}
	if off := time.Since(h.Now); math.Abs(off.Seconds()) > 2 {
		host.Notes = append(host.Notes, fmt.Sprintf("its clock is %.1f s off rank 0's; rounds do not depend on it, but logs will not match", -off.Seconds()))
	}
	c.peers[h.Rank] = p
	p.start(c.events)
}

// refuse sends a process away that has proven itself.
func (c *coordinator) refuse(p *peer, why string) {
	c.note("refused a process on %s (rank %d): %s", wire.Clean(p.hello.Host), p.hello.Rank, why)
	_ = p.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_ = wire.Write(p.conn, &wire.Message{Kind: wire.KindRefused, Text: why})
	_ = p.conn.Close()
}

// comesLate refuses an agent once the gathering is over, so that it does not wait for a run that has begun without it.
func (c *coordinator) comesLate(p *peer) {
	after := time.Since(c.begun).Seconds()
	c.refuse(p, fmt.Sprintf("it came %.0f s after rank 0 began, which had gone on without it; a longer --wait waits for it", after))
	if r := p.hello.Rank; r >= 0 && r < len(c.hosts) && len(c.hosts[r].Notes) < mostNotes {
		c.hosts[r].Notes = append(c.hosts[r].Notes, fmt.Sprintf("it came after %.0f s, when the run had begun", after))
	}
}

// oneRankAHost keeps the lowest of the ranks that share a host: two would measure each other's noise.
func (c *coordinator) oneRankAHost() {
	at := map[string]int{}
	for r := range c.cfg.Ranks {
		p := c.peers[r]
		if p == nil || p.lost || p.excluded || p.hello.Place == "" {
			continue
		}
		first, taken := at[p.hello.Place]
		if !taken {
			at[p.hello.Place] = r
			continue
		}
		c.unfit(p, fmt.Sprintf("shares host %s with rank %d", c.hosts[r].Name, first), "start one rank a host: srun --ntasks-per-node=1, mpirun --map-by ppr:1:node")
	}
}

// unfit takes a host out that cannot take part.
func (c *coordinator) unfit(p *peer, why, remedy string) {
	h := &c.hosts[p.rank]
	h.State, h.Reason, h.Remedy = Unfit, wire.Clean(why), wire.Clean(remedy)
	p.excluded = true
	c.note("%s (rank %d) cannot take part: %s", h.Name, p.rank, h.Reason)
	p.send(&wire.Message{Kind: wire.KindRefused, Text: "this host cannot take part: " + h.Reason})
}

// mostNotes is how many things are told of one host.
const mostNotes = 16

// rankByName is the rank of an agent that has none, from the host list; -1: it is not in it.
func (c *coordinator) rankByName(host string) int {
	short, _, _ := strings.Cut(host, ".")
	for r, n := range c.cfg.Names {
		name, _, _ := strings.Cut(n, ".")
		if (n == host || name == short) && c.peers[r] == nil {
			return r
		}
	}
	if len(c.cfg.Names) == 0 { // no list: as they come
		for r := range c.cfg.Ranks {
			if c.peers[r] == nil && r > 0 {
				return r
			}
		}
	}
	return -1
}

// open lets all agents open their devices and keeps those that can take part.
func (c *coordinator) open(ctx context.Context) error {
	c.oneRankAHost()
	mine := c.ownAddress()
	for r, p := range c.peers {
		if p.excluded {
			continue
		}
		at := p.remote()
		if at.IsLoopback() && mine.IsValid() { // rank 0's own host, or one whose name for it resolves to itself
			at = mine
		}
		c.hosts[r].Address = at.String()
		p.send(&wire.Message{Kind: wire.KindOpen, Open: &wire.Open{Ranks: c.cfg.Ranks, Address: at.String(), Rails: c.cfg.Rails, Plan: c.cfg.Plan}})
	}
	if err := c.await(ctx, openWithin, func() bool {
		for _, p := range c.peers {
			if p.facts == nil && !p.lost && !p.excluded {
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	for r := range c.cfg.Ranks {
		if p := c.peers[r]; p != nil && !p.lost && !p.excluded {
			c.judgeFacts(p)
		}
	}
	for r := range c.cfg.Ranks {
		if p := c.peers[r]; p != nil && !p.lost && !p.excluded {
			c.hosts[r].State, p.index = Taking, len(c.part)
			c.part = append(c.part, p)
		}
	}
	return c.enough("can take part")
}

// ownAddress is this host as other hosts reach it.
func (c *coordinator) ownAddress() netip.Addr {
	for _, p := range c.peers {
		if !p.remote().IsLoopback() {
			return addrOf(p.conn.LocalAddr())
		}
	}
	return netip.Addr{}
}

// judgeFacts takes a host out whose devices do not work.
func (c *coordinator) judgeFacts(p *peer) {
	h := &c.hosts[p.rank]
	h.Facts = p.facts
	switch {
	case p.facts == nil:
		c.unfit(p, fmt.Sprintf("its devices were not open within %v", openWithin), "run 'gobw doctor' there")
		return
	case len(p.facts.Rails) != len(c.cfg.Rails):
		c.unfit(p, fmt.Sprintf("it opened %d of %d devices", len(p.facts.Rails), len(c.cfg.Rails)), "run 'gobw devices' there")
		return
	}
	for i, rail := range p.facts.Rails {
		if rail.Error != "" {
			c.unfit(p, fmt.Sprintf("%s: %s", cmp.Or(rail.Device, c.cfg.Rails[i], "device"), rail.Error), rail.Remedy)
			return
		}
	}
	for _, w := range p.facts.Warnings {
		if len(h.Notes) < mostNotes {
			h.Notes = append(h.Notes, wire.Clean(w))
		}
	}
}

// mtu is the smallest of a rail's MTUs: all paths have it.
func (c *coordinator) mtu() verbs.MTU {
	var all []verbs.MTU
	for _, p := range c.part {
		for _, r := range p.facts.Rails {
			if r.MTU != 0 {
				all = append(all, r.MTU)
			}
		}
	}
	if len(all) == 0 {
		return 0
	}
	return slices.Min(all)
}

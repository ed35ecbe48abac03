package fabric

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/verbs"
)

// tellAfter is how long a wait lasts before the user is told: ranks that a launcher starts need a moment.
const tellAfter = 2 * time.Second

// gather lets the agents come in, until all are there or the time is up.
func (c *coordinator) gather(ctx context.Context) error {
	missing := func() []int {
		var out []int
		for r := range c.hosts {
			if c.hosts[r].Word == "" && c.peers[r] == nil {
				out = append(out, r)
			}
		}
		return out
	}
	next := c.begun.Add(tellAfter)
	here := func() bool {
		absent := missing()
		if now := time.Now(); len(absent) > 0 && now.After(next) {
			next = now.Add(time.Second)
			c.tell(Progress{Waiting: c.called(absent), Left: c.cfg.Wait - now.Sub(c.begun)})
		}
		return len(absent) == 0
	}
	if err := c.await(ctx, c.cfg.Wait, here); err != nil {
		return err
	}
	absent := missing()
	look := "look at the output of 'gobw fabric' there: the host may be down, its name for rank 0 may be wrong, or a firewall may close the port"
	c.listener.mu.Lock()
	if from := c.listener.keyless; len(from) > 0 {
		look = fmt.Sprintf("%s: %s had another", sameSecret, strings.Join(from, ", "))
	}
	c.listener.mu.Unlock()
	for i, name := range c.called(absent) {
		h := &c.hosts[absent[i]]
		if slices.Contains(c.cfg.Hosts, name) {
			h.Name = name
		}
		h.Verdict = stats.Failure(matrix.Absent, look, "did not come within %v", c.cfg.Wait)
	}
	return c.enough("came")
}

// called are the names of ranks that have not come: those of the hosts that none came from. Of several, which rank is which host is only
// likely (launchers count in the order of their lists), but that these hosts are missing is certain.
func (c *coordinator) called(absent []int) []string {
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
	for _, r := range absent {
		name := c.hosts[r].Name
		if name == "" && len(left) > 0 {
			name, left = left[0], left[1:]
		}
		out = append(out, cmp.Or(name, fmt.Sprintf("rank %d", r)))
	}
	return out
}

// enough tells whether there are two hosts to test; if not, why the first few others cannot take part.
func (c *coordinator) enough(verb string) error {
	n := 0
	for _, p := range c.peers {
		if p.fit() {
			n++
		}
	}
	if n >= 2 {
		return nil
	}
	var b strings.Builder
	told := 0
	for _, h := range c.hosts {
		if h.Reason != "" && told < 8 {
			fmt.Fprintf(&b, "\n  rank %d %s: %s", h.Rank, h.Name, h.Reason)
			told++
		}
	}
	return fmt.Errorf("%d of %d ranks %s: a fabric test needs two%s", n, c.cfg.Ranks, verb, b.String())
}

// fit tells whether an agent may take part, as far as is known.
func (p *peer) fit() bool { return !p.lost && !p.excluded }

// comes gives an agent its rank, or sends it away. Once the rounds are planned it is too late.
func (c *coordinator) comes(p *peer) {
	h := p.hello
	h.Host, h.Leaf = bounded(h.Host), bounded(h.Leaf)
	if h.Rank < 0 {
		h.Rank = c.rankByName(h.Host)
	}
	p.rank = h.Rank
	if h.Rank < 0 || h.Rank >= c.cfg.Ranks {
		c.refuse(p, fmt.Sprintf("there is no rank %d among %d ranks, or its host is not in the host list", h.Rank, c.cfg.Ranks))
		return
	}
	host := &c.hosts[h.Rank]
	if before := c.peers[h.Rank]; before != nil {
		c.refuse(p, fmt.Sprintf("rank %d is already running on %s", h.Rank, host.Name))
		host.note("a second process said it was this rank, on %s", h.Host)
		return
	}
	if host.Cause == matrix.Absent {
		after := time.Since(c.begun).Seconds()
		host.note("the host came after %.0f s, when the run had begun", after)
		c.refuse(p, fmt.Sprintf("the host came %.0f s after rank 0 began, too late; give a longer --wait", after))
		return
	}
	host.Name, host.Leaf = h.Host, h.Leaf
	if p.program != c.cfg.Version {
		host.Verdict = stats.Failure(matrix.Unfit, "install the same version on all hosts", "%s, and rank 0 is %s", bounded(p.program), c.cfg.Version)
		c.refuse(p, fmt.Sprintf("it is %s, rank 0 is %s: run the same on all hosts", bounded(p.program), c.cfg.Version))
		return
	}
	if off := time.Since(h.Now).Seconds(); math.Abs(off) > 2 {
		host.note("its clock differs from rank 0's by %.1f s; only the times in logs are wrong", -off)
	}
	c.peers[h.Rank] = p
	p.start(c.events, c.over)
}

// refuse sends a process away that has proven itself.
func (c *coordinator) refuse(p *peer, why string) {
	c.note("refused a process on %s (rank %d): %s", bounded(p.hello.Host), p.hello.Rank, why)
	c.listener.wg.Go(func() { p.end(frame.KindError, why) })
}

// oneRankAHost keeps the lowest of the ranks that share a host: two would measure each other's noise.
func (c *coordinator) oneRankAHost() {
	at := map[string]int{}
	for r := range c.cfg.Ranks {
		p := c.peers[r]
		if p == nil || !p.fit() || p.hello.Place == "" {
			continue
		}
		first, taken := at[p.hello.Place]
		if !taken {
			at[p.hello.Place] = r
			continue
		}
		c.unfit(p, fmt.Sprintf("shares host %s with rank %d", c.hosts[r].Name, first), "start one rank per host: srun --ntasks-per-node=1, mpirun --map-by ppr:1:node")
	}
}

// unfit takes a host out that cannot take part.
func (c *coordinator) unfit(p *peer, why, remedy string) {
	h := &c.hosts[p.rank]
	h.Verdict = stats.Failure(matrix.Unfit, bounded(remedy), "%s", bounded(why))
	p.excluded = true
	c.note("%s (rank %d) cannot take part: %s", h.Name, p.rank, h.Reason)
	c.listener.wg.Go(func() { p.end(frame.KindError, "this host cannot take part: "+h.Reason) })
}

// rankByName is the rank of an agent that has none, from the host list; -1: it is not in it.
func (c *coordinator) rankByName(host string) int {
	short, _, _ := strings.Cut(host, ".")
	for r, n := range c.cfg.Names {
		name, _, _ := strings.Cut(n, ".")
		if (n == host || name == short) && c.peers[r] == nil {
			return r
		}
	}
	return -1
}

// open lets all agents open their devices and keeps those that can take part.
func (c *coordinator) open(ctx context.Context) error {
	c.oneRankAHost()
	mine := c.ownAddress()
	for r, p := range c.peers {
		if !p.fit() {
			continue
		}
		at := p.remote()
		if at.IsLoopback() && mine.IsValid() { // rank 0's own host, or one whose name for it resolves to itself
			at = mine
		}
		c.hosts[r].Address = at.String()
		p.send(&Order{Rails: c.rails(judge.AllRails), Open: &OpenOrder{Address: at.String(), Devices: c.cfg.Rails, Plan: c.cfg.Plan}, most: mostFacts})
	}
	opened := func() bool {
		for _, p := range c.peers {
			if p.answer == nil && p.fit() {
				return false
			}
		}
		return true
	}
	if err := c.await(ctx, openingWithin+grace, opened); err != nil {
		return err
	}
	for r := range c.cfg.Ranks {
		p := c.peers[r]
		if p == nil || !p.fit() {
			continue
		}
		if why, remedy := c.judgeFacts(p); why != "" {
			c.unfit(p, why, remedy)
			continue
		}
		c.hosts[r].Word, p.index = stats.Pass, len(c.part)
		c.part = append(c.part, p)
	}
	return c.enough("can take part")
}

// ownAddress is this host as other hosts reach it.
func (c *coordinator) ownAddress() netip.Addr {
	for _, p := range c.peers {
		if !p.remote().IsLoopback() {
			return p.session.LocalAddr().WithZone("")
		}
	}
	return netip.Addr{}
}

// judgeFacts tells why a host's devices cannot be used, and what to do; empty: they can.
func (c *coordinator) judgeFacts(p *peer) (why, remedy string) {
	h := &c.hosts[p.rank]
	switch a := p.answer; {
	case a == nil:
		return fmt.Sprintf("its devices were not open within %v", openingWithin+grace), "run 'gobw doctor' there"
	case a.Error != "":
		return a.Error, ""
	case len(a.Rails) != len(c.cfg.Rails):
		return fmt.Sprintf("it opened %d of %d devices", len(a.Rails), len(c.cfg.Rails)), "run 'gobw devices' there"
	}
	h.CPUs, p.rails = p.answer.CPUs, p.answer.Rails
	for i, rail := range p.rails {
		device := bounded(cmp.Or(rail.Device, c.cfg.Rails[i], "device"))
		if rail.Error != "" {
			return device + ": " + rail.Error, rail.Remedy
		}
		h.Devices, h.software = append(h.Devices, device), h.software || rail.Software
	}
	for _, w := range p.answer.Warnings {
		h.note("%s", w)
	}
	return "", ""
}

// mtu is the smallest of a rail's MTUs: all paths have it.
func (c *coordinator) mtu() verbs.MTU {
	least := verbs.MTU(0)
	for _, p := range c.part {
		for _, r := range p.rails {
			if r.MTU != 0 && (least == 0 || r.MTU < least) {
				least = r.MTU
			}
		}
	}
	return least
}

// errSnapshot is why a document of a run that goes on is not complete.
var errSnapshot = errors.New("a snapshot, the run goes on")

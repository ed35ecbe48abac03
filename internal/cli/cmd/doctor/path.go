package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// route is the way to a peer, and how to try it.
type route struct {
	ctx    context.Context
	out    output.Streams
	tool   string
	device opendevice.Config
	host   measure.PeerConfig
	name   string // of the host, for a person
}

// try runs a short test. With an MTU the control connection has small segments, so that only the packets of the test
// are large.
func (p *route) try(s plan.Spec) (*report.Document, error) {
	s.Iterations, s.NoPeak, s.Timeout = 16, true, ackTimeout
	host := p.host
	if s.MTU != 0 {
		host.SegmentBytes = 536 // every path of IPv4 carries these
	}
	return measure.Run(p.ctx, p.out, measure.Config{
		Tool: p.tool, Command: measure.CommandLine(p.tool), Device: p.device, Peer: host,
		Output: output.Config{Quiet: true}, Plan: s,
	})
}

// ackTimeout makes a queue pair give up after about a second of silence (4.096 us * 2^15, eight times): no path is
// longer.
const ackTimeout = 15

// write is a test that needs packets in both directions: the data and what acknowledges it.
func (p *route) write(bytes int, mtu verbs.MTU) (*report.Document, error) {
	return p.try(plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{bytes}, MTU: mtu, Verify: "ends",
	})
}

// arrives tells whether datagrams get to the peer, or from there to this end.
func (p *route) arrives(fromPeer bool) bool {
	doc, err := p.try(plan.Spec{
		Operation: plan.Send, Kind: plan.Bandwidth, Transport: verbs.UD, Sizes: []int{64}, MTU: verbs.MTU256,
		Reversed: fromPeer,
	})
	if err != nil || doc == nil || len(doc.Records) == 0 {
		return false
	}
	delivered := doc.Records[0].Delivered
	return delivered != nil && *delivered > 0
}

// tryPath connects to the peer and sends a few messages.
func (f *findings) tryPath(p route, mine end) {
	p.name = cmp.Or(p.host.Host, "the other end")
	doc, err := p.write(4096, 0)
	where := thisEnd + " and " + p.name
	unanswered := errors.Is(err, verbs.RetryExceeded)
	switch {
	case err == nil:
		f.bothEnds(doc, p.name)
		f.smallerMTU(mine, doc.Client, p.name)
		f.add("path", passed, where, "16 messages of 4 KiB arrived, and their data is right")
	case errors.Is(err, syscall.ECONNREFUSED):
		f.add("path/refused", problem, where, fmt.Sprintf("nobody serves on %s, TCP port %d", p.host.Host, p.host.Port),
			"REMEDY", p.host.Serve(p.tool))
	case unanswered || errors.Is(err, control.ErrSilent):
		if !f.whyBlocked(&p, where, unanswered) {
			f.add("path", problem, where, err.Error(), "REMEDY", cmp.Or(verbs.RemedyOf(err), serverLog(p.name)))
		}
	default:
		f.add("path", problem, where, err.Error(), "REMEDY",
			cmp.Or(verbs.RemedyOf(err), plain.When(errors.Is(err, control.ErrPeerLost), "%s", serverLog(p.name))))
	}
}

// serverLog is where the server's own words are.
func serverLog(name string) string {
	return "on " + name + ": journalctl -u gobw-serve -n 20   # or look at what 'serve' wrote there"
}

// whyBlocked finds why a test gets no answer: this host refuses its own packets, large packets do not pass, or packets
// of one direction do not arrive. It returns false if it cannot tell. unanswered: the control connection worked.
func (f *findings) whyBlocked(p *route, where string, unanswered bool) bool { //nolint:revive // what is known
	if refused := sendRefused(p.host.Host); refused != nil {
		f.add("firewall/own", problem, thisEnd,
			fmt.Sprintf("this host does not let its own packets to UDP port %d out: %v", roce.Port, refused))
		return true
	}
	if _, err := p.write(64, verbs.MTU256); err == nil {
		f.pathMTU(p, where)
		return true
	}
	if !unanswered {
		return false
	}
	switch there, back := p.arrives(false), p.arrives(true); {
	case there && back: // and yet no acknowledgement: nothing is certain
		return false
	case there:
		f.add("firewall/back", problem, where,
			fmt.Sprintf("RoCE packets from %s do not arrive here, those from here arrive there", p.name), "HOST", p.name)
	case back:
		f.add("firewall/there", problem, where,
			fmt.Sprintf("RoCE packets from here do not arrive at %s, those from there arrive here", p.name), "HOST", p.name)
	default:
		f.add("firewall/both", problem, where, "no RoCE packet arrives, in neither direction, not even a small one")
	}
	return true
}

// pathMTU finds the largest MTU whose packets pass.
func (f *findings) pathMTU(p *route, where string) {
	largest := verbs.MTU256
	for m := verbs.MTU512; m <= verbs.MTU4096; m++ {
		if _, err := p.write(4096, m); err != nil {
			break
		}
		largest = m
	}
	f.add("path-mtu", problem, where,
		fmt.Sprintf("packets of %d bytes pass, larger ones are lost on the way", largest.Bytes()),
		"TOOL", p.tool, "HOST", p.host.Host, "BYTES", largest.String())
}

// sendRefused tries to send an empty datagram to the port of RoCE, and tells why this host does not let it out.
func sendRefused(host string) error {
	c, err := net.Dial("udp", control.HostPort(host, roce.Port))
	if err == nil {
		_, err = c.Write(nil)
		_ = c.Close()
	}
	for _, no := range []syscall.Errno{syscall.EPERM, syscall.EACCES} {
		if errors.Is(err, no) {
			return no
		}
	}
	return nil
}

// bothEnds describes both ends, and warns if their versions differ.
func (f *findings) bothEnds(doc *report.Document, name string) {
	there := report.Environment{}
	if doc.Server != nil {
		there = *doc.Server
	}
	for i, e := range []report.Environment{doc.Client, there} {
		where := []string{thisEnd, name}[i]
		quota, locked := "none", "unlimited"
		if e.CPUQuota > 0 {
			quota = fmt.Sprintf("%.3g CPUs", e.CPUQuota)
			f.quota(where, e.CPUQuota)
		}
		if e.LockedBytes >= 0 {
			locked = plain.Bytes(float64(e.LockedBytes))
		}
		f.add("end", passed, where, strings.Join([]string{
			"gobw " + cmp.Or(e.Version, "unknown"), e.Device, fmt.Sprintf("path MTU %d", e.MTU), "CPU quota " + quota,
			"locked memory " + locked,
		}, ", "))
	}
	if here := doc.Client.Version; here != there.Version && there.Version != "" {
		f.add("version", warning, thisEnd+" and "+name, fmt.Sprintf("gobw is %s here and %s there", here, there.Version))
	}
}

// quota warns of a quota that cannot carry a test.
func (f *findings) quota(where string, cpus float64) {
	if cpus < 2 && !f.has("cpu-quota", where) {
		f.add("cpu-quota", warning, where, fmt.Sprintf("the CPU quota of its control group is %.3g CPUs", cpus))
	}
}

// smallerMTU warns if the path's MTU is smaller than that of this end's port.
func (f *findings) smallerMTU(mine end, used report.Environment, host string) {
	here := 0
	for _, d := range mine.devices {
		for _, p := range d.Ports {
			if d.Info.Name == used.Device && p.Number == used.Port && !used.Software { // whose port has the MTU of its address
				here = p.ActiveMTUBytes
			}
		}
	}
	if here > used.MTU {
		f.add("mtu-mismatch", warning, thisEnd+" and "+host,
			fmt.Sprintf("active MTUs differ: %d bytes here, %d there; tests use %d", here, used.MTU, used.MTU), "HOST", host)
	}
}

package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/verbs"
)

// checkOperation refuses what the operation does not have.
func (s *Settled) checkOperation(wrong *Faults) {
	p, r := &s.spec, s.row
	wrong.If(!r.Supports(p.Transport), "%v has no %s: use %s", p.Transport, r.Text, r.TransportText())
	wrong.If(p.InlineBytes > 0 && !r.MayInline(), "--inline (-I) %d: %v cannot be inline", p.InlineBytes, r.Opcode)
	wrong.If(p.Outstanding > 0 && !r.Responded,
		"--outs (-o) %d: only READs and atomics are limited by it, %s is not", p.Outstanding, r.Text)
	if p.Kind == Latency {
		s.checkLatency(wrong)
	} else if p.Gap > 0 {
		wrong.Add("--gap %v: it is for latency tests; --rate paces a bandwidth test", p.Gap)
	}
	if p.Timestamps == DeviceClock {
		s.checkTimestamps(wrong)
	}
	wrong.If(p.Burst > 1 && p.RateBits == 0, "--burst_size %d: it needs --rate_limit", p.Burst)
	wrong.If(p.Vector > 0 && !p.Events, "--vector (-X) %d: it needs --events (-e)", p.Vector)
	wrong.If(p.RDMACM && p.Transport == verbs.UC, "--rdma-cm (-R): RDMA CM connects RC and UD, not UC")
	wrong.If(p.TOS != nil && !p.RDMACM, "--tos (-T): it needs --rdma-cm (-R); --tclass works without")
}

func (s *Settled) checkLatency(wrong *Faults) {
	p := &s.spec
	wrong.If(p.Bidirectional, "--bidirectional (-b): a latency test has both directions already")
	wrong.If(p.QPs != 1, "--qp (-q) %d: a latency test has one queue pair", p.QPs)
	wrong.If(p.Infinite, "--run_infinitely: it is for bandwidth tests")
	wrong.If(p.Events && s.row.ByLastByte, "--events (-e): a WRITE makes no event at the peer; use --imm, or golat send")
}

// checkTimestamps refuses what no completion tells.
func (s *Settled) checkTimestamps(wrong *Faults) {
	const name = "--timestamps device"
	switch {
	case s.spec.Kind != Latency:
		wrong.Add(name + ": it is for latency tests (golat)")
	case s.row.ByLastByte:
		wrong.Add(name + ": no completion shows when the peer's WRITE has arrived; use --imm, or golat send, read, atomic or flush")
	case s.spec.Gap > 0:
		wrong.Add(name + " with --gap: the pause would be part of the time from one completion to the next")
	}
	if l := &s.limits; l.known() && s.StampedByDevice() && l.Device.Clock.IsZero() {
		wrong.Add(name+": %s reports no clock that stamps completions (ibv_query_device_ex); use --timestamps host", l.Device.Name)
	}
}

// checkParts refuses what parts of a test exclude. The limits of multicast are perftest's.
func (s *Settled) checkParts(wrong *Faults) {
	p, l := &s.spec, &s.limits
	latency := p.Kind == Latency
	var no func(is bool, why string, args ...any)
	if p.Multicast {
		no = wrong.Of("--mcg (-g)")
		no(s.row.Operation != Send || p.Transport != verbs.UD, "only send over UD has multicast")
		no(p.Bidirectional, "it and --bidirectional (-b) exclude each other")
		no(p.QPs != 1, "it and --qp (-q) above 1 exclude each other")
		no(p.RDMACM, "it and --rdma-cm (-R) exclude each other")
		no(l.known() && l.Port.LinkLayer == verbs.LinkInfiniBand, "on InfiniBand the subnet manager must be asked for the group, by libibumad, which is not there: use stock perftest, or a RoCE port")
	}
	if p.MGID != nil {
		wrong.If(!p.Multicast, "--MGID (-M): it names the group of --mcg (-g)")
		wrong.If(p.Multicast && !p.MGID.IsMulticast(), "--MGID (-M) %v: that is no multicast address: want ff00::/8, or 224.0.0.0/4", p.MGID.Addr())
	}
	wrong.If(l.Rails > 0 && p.Rails > l.Rails,
		"the test runs on %d devices at once, this end has %d: name as many with -d here, as in -d mlx5_0,mlx5_1", p.Rails, l.Rails)
	if p.Rails > 1 {
		no = wrong.Of(fmt.Sprintf("%d devices (-d) at once", p.Rails))
		no(latency, "a latency test has one queue pair, on one device")
		no(!latency && p.QPs < p.Rails, "each needs its own queue pair: give --qp (-q) %d or more", p.Rails)
		no(p.Threads%p.Rails != 0, "--threads %d is not a multiple of the number of devices", p.Threads)
		no(p.SRQ, "--srq is one receive queue on one device")
		no(p.RDMACM, "--rdma-cm (-R) finds one path, which leads through one device")
		no(s.peer.Perftest, "a perftest at the other end has one; run gobw at both ends, or a test for each device")
	}
	if p.Threads > 1 {
		s.checkThreads(wrong)
	}
	if p.Verify != VerifyNothing {
		no = wrong.Of("--verify=" + string(p.Verify))
		no(s.row.Traceless, "%v leaves nothing to compare; use FETCH_AND_ADD", s.row.Opcode)
		no(p.Verify == VerifyAll && latency, "is for bandwidth tests; --verify alone checks the first and the last message")
		no(p.Verify == VerifyAll && p.Duration > 0, "needs --iters (-n) in place of --duration (-D); --verify alone works with both")
		no(p.QPs > 1 && s.point == nil && (p.Duration > 0 || p.SRQ || p.Transport != verbs.RC), "several queue pairs need RC, --iters (-n) and no --srq: else nobody knows which message is where")
		no(s.peer.Perftest, "data verification needs gobw at the other end: perftest sends random bytes")
	}
}

// checkThreads refuses threads that could not work apart from each other.
func (s *Settled) checkThreads(wrong *Faults) {
	p, l := &s.spec, &s.limits
	name, works := fmt.Sprintf("--threads %d", p.Threads), s.Sends() || s.Receives()
	most := l.Device.Limits.Threads
	switch {
	case most > 0 && p.Threads > most*p.Rails && works:
		names := slices.Repeat([]string{l.Device.Name}, min(p.Threads, max(l.CPUs, 2)))
		wrong.Add("%s: %s works for one thread at a time; name it once for each thread: -d %s --threads %d", name, l.Device.Name,
			strings.Join(names, ","), len(names))
	case p.Threads == p.Rails: // one a device, which has been looked at
		name = fmt.Sprintf("%d devices (-d) at once", p.Rails)
	case p.SRQ:
		wrong.Add("%s with --srq: all threads would wait for one receive queue", name)
	case p.Threads > p.QPs && l.Device.Name != "": // what the device takes is told first
		wrong.Add("%s of %d queue pairs: each thread needs its own: give --qp (-q) %d or more", name, p.QPs, p.Threads)
	}
	wrong.If(works && l.CPUs > 0 && p.Threads > l.CPUs && !p.Events,
		"%s: this end may run on %d CPUs, and each thread needs one: use at most %[2]d, or add --events (-e)", name, l.CPUs)
}

func (s *Settled) checkSizes(wrong *Faults) {
	p, port := &s.spec, s.limits.Port
	wrong.If(s.row.Counter && !slices.Equal(p.Sizes, []int{counterBytes}), "--size (-s): %s change %d bytes", s.row.Text, counterBytes)
	if pause := s.PauseNs(slices.Max(p.Sizes)) / 1e9; pause > maxSeconds {
		wrong.Add("--rate %g: a message of %d bytes would take %.3g s, want at most %d", p.RateBits, slices.Max(p.Sizes), pause, maxSeconds)
	}
	for _, size := range p.Sizes {
		name := fmt.Sprintf("--size (-s) %d", size)
		if len(p.Mix) > 0 {
			name = fmt.Sprintf("--mix %v", p.Mix)
		}
		switch {
		case p.Transport == verbs.UD && s.mtu != 0 && s.point == nil && size > s.mtu.Bytes():
			wrong.Add("%s: a UD message is one packet, at most the MTU of %d bytes", name, s.mtu.Bytes())
			return
		case s.point != nil && s.point.Listed(): // which is as many messages as it needs
		case port.MaxMessage != 0 && uint64(size) > port.MaxMessage:
			wrong.Add("%s: the port carries %d bytes at most", name, port.MaxMessage)
			return
		}
	}
}

func (s *Settled) checkLength(wrong *Faults) {
	p := &s.spec
	switch {
	case p.Iterations != 0 && p.Duration != 0:
		wrong.Add("--iters (-n) %d and --duration (-D) %v exclude each other", p.Iterations, p.Duration)
	case p.Margin != 0 && p.Duration == 0:
		wrong.Add("--margin (-f) %v: it needs --duration (-D)", p.Margin)
	case p.Duration != 0 && p.Duration <= 2*p.Margin:
		wrong.Add("--duration (-D) %v: want more than two margins (-f) of %v", p.Duration, p.Margin)
	case p.Infinite && p.Duration == 0:
		wrong.Add("--run_infinitely: it needs --duration (-D), the time of a row")
	case p.Infinite && (p.Runs > 1 || len(p.Sizes) > 1):
		wrong.Add("--run_infinitely: want one size and one run")
	}
}

func (s *Settled) checkDevice(wrong *Faults) {
	if !s.limits.known() {
		return
	}
	p, info, port := &s.spec, s.limits.Device, s.limits.Port
	lim := info.Limits
	if info.IWARP() {
		s.checkIWARP(wrong)
	}
	atMost := func(name string, v, limit int) {
		wrong.If(limit > 0 && v > limit, "%s %d: want 1 to %d", name, v, limit)
	}
	atMost("--qp (-q)", p.QPs, lim.MaxQP)
	if s.point == nil { // what a point needs is told as its refusal
		atMost("--tx-depth (-t)", p.TxDepth, lim.MaxQPWR/len(s.row.Requests()))
		atMost("--rx-depth (-r)", p.RxDepth, lim.MaxQPWR)
	} else {
		for _, r := range refusals(p, s.point, lim, s.mtu.Bytes()) {
			wrong.Note(r)
		}
	}
	wrong.If(p.InlineBytes > 0 && lim.MaxInline >= 0 && p.InlineBytes > lim.MaxInline,
		"--inline (-I) %d: %s has %d bytes at most", p.InlineBytes, info.Name, lim.MaxInline)
	if p.Outstanding > 0 {
		atMost("--outs (-o)", p.Outstanding, max(min(lim.MaxRDAtomic, lim.MaxInitRDAtomic), 1))
	}
	wrong.If(p.MTU != 0 && port.ActiveMTU != 0 && p.MTU > port.ActiveMTU,
		"--mtu (-m) %v: port %d of %s has %v%s", p.MTU, port.Number, info.Name, port.ActiveMTU, hintOfMTU(p.MTU, port))
	wrong.If(s.row.Counter && !lim.Atomic && !info.IWARP(), "%s has no atomics", info.Name)
}

// checkIWARP refuses what a stream of RFC 5040 and 5041 does not carry.
func (s *Settled) checkIWARP(wrong *Faults) {
	p, name := &s.spec, s.limits.Device.Name
	switch {
	case p.Transport != verbs.RC:
		wrong.Add("%v: %s is an iWARP device, which has only RC", p.Transport, name)
	case s.point != nil:
		wrong.Add("%s is an iWARP device, which needs RDMA CM: the non-contiguous experiment does not use RDMA CM", name)
	case !p.RDMACM:
		wrong.Add("%s is an iWARP device, which needs RDMA CM: give --rdma-cm (-R)", name)
	}
	wrong.If(s.row.Opcode.HasImmediate(), "%s: iWARP has no immediate data, and %s is an iWARP device", s.row.Text, name)
	wrong.If(s.row.Counter, "%s: iWARP has none before RFC 7306, and %s is an iWARP device", s.row.Text, name)
	wrong.If(s.row.NeedsReceive() && p.Kind == Bandwidth,
		"%s: over iWARP a SEND that finds no receive ends the connection (RFC 5041, 7.1), and %s is an iWARP device: measure write or read, or send with golat", s.row.Text, name)
}

// hintOfMTU says which network interface bounds a RoCE port's MTU, and what it would need, as the kernel and roce0 count it.
func hintOfMTU(want verbs.MTU, port verbs.PortInfo) string {
	if port.LinkLayer != verbs.LinkEthernet || port.NetInterface == "" {
		return ""
	}
	const headers = 104 // at most 96; 4200 is what everybody sets for 4096
	needed := want.Bytes() + headers
	return fmt.Sprintf(", the most that interface %s carries: with an MTU of %d there (ip link set %s mtu %d), at the other end and on the way it is %v",
		port.NetInterface, needed, port.NetInterface, needed, want)
}

// checkOnDemand refuses memory that the device would need in place, operation by operation as perftest does.
func (s *Settled) checkOnDemand(wrong *Faults) {
	p, name, has := &s.spec, s.limits.Device.Name, s.limits.Device.Limits.OnDemand
	switch {
	case !p.OnDemand || !s.limits.known():
		return
	case !has.Supported:
		wrong.Add("--odp: %s has no on-demand paging (ibv_query_device_ex: odp_caps): leave it out", name)
		return
	case p.Transport == verbs.UD: // some devices do it and do not say so: registering tells
		return
	}
	can := has.RC
	if p.Transport == verbs.UC {
		can = has.UC
	}
	for _, o := range s.row.Requests() {
		need := verbs.PagedOperations(o)
		wrong.If(need&^can != 0 && (need != verbs.PagedSend || s.Sends()), "--odp: %s has no on-demand paging for %v over %v", name, need, p.Transport)
	}
	wrong.If(s.Receives() && can&(verbs.PagedReceive|verbs.PagedSharedReceive) == 0,
		"--odp: %s has no on-demand paging for receives over %v", name, p.Transport)
}

// checkPerftest refuses what no perftest can run with us.
func (s *Settled) checkPerftest(wrong *Faults) {
	p := &s.spec
	both := "run gobw at both ends"
	if s.limits.Dialled {
		both += "; a perftest server has ended now: start it again"
	}
	wrong.If(!s.row.PerftestHas(), "perftest has no %s: %s", s.row.Operation, both)
	wrong.If(p.Noncontig != nil, "perftest has no non-contiguous messages: %s", both)
	wrong.If(p.Runs > 1, "perftest runs a test once per connection, not %d times: %s", p.Runs, both)
	wrong.If(!p.AllSizes && len(p.Sizes) != 1, "perftest runs one size, or all powers of two (-a), not %d sizes: %s", len(p.Sizes), both)
}

// note names what was asked for and has no effect at this end.
func (s *Settled) note() {
	p := &s.spec
	add := func(is bool, format string, args ...any) { //nolint:revive // whether there is something to tell
		if is {
			s.notes = append(s.notes, fmt.Sprintf(format, args...))
		}
	}
	add(p.Warmup > 0 && s.peer.Perftest && !s.warmsAlone(),
		"a warm-up of %d messages has no effect at this end: perftest at the other does not wait for it", p.Warmup)
	if peer := s.peer.Outstanding; s.row.Responded && peer > 0 && p.Outstanding > peer {
		add(true, "--outs (-o) %d: the other end's device has %d, which is in force", p.Outstanding, peer)
	}
	add(p.MTU > s.mtu, "--mtu (-m) %v: the other end's port has %v, which is in force", p.MTU, s.mtu)
	add(s.row.NeedsReceive() && s.point == nil && p.RxDepth == 0 && s.mostCompletions() < defaultRxDepth,
		"%d receives per queue pair in place of %d: a completion queue of %s holds no more", s.mostCompletions(), defaultRxDepth, s.limits.Device.Name)
	if s.point != nil && s.point.cut(p.Noncontig.Footprint) {
		add(true, "a footprint of %d bytes: %d layouts are walked, of %d bytes in all", p.Noncontig.Footprint, s.point.Near.Place.Places, s.point.Near.Place.Places*s.point.Near.Place.Stride)
	}
	if !s.limits.Device.Software {
		return
	}
	name := s.limits.Device.Name
	add(s.StampedByDevice(), "--timestamps device: the clock of %s is the host's, read when a packet is handled", name)
	add(p.Vector > 0, "--vector (-X) %d has no effect on %s: it has one", p.Vector, name)
	add(p.SL > 0, "--sl (-S) %d has no effect on %s: a service level needs a VLAN or InfiniBand", p.SL, name)
	add(p.OnDemand, "--odp has no effect on %s: its memory is never pinned, the kernel brings a page when it is touched", name)
	add(p.StrictOrdering, "--disable_pcie_relaxed has no effect on %s: a software device writes in order", name)
}

package plan

import (
	"fmt"
	"slices"

	"github.com/gobw/gobw/verbs"
)

// checkOperation refuses what the operation does not have.
func (s *Settled) checkOperation(bad func(string, ...any)) {
	p, r := &s.spec, s.row
	if !r.Supports(p.Transport) {
		bad("%v has no %s: use %s", p.Transport, r.Text, r.TransportText())
	}
	if p.RxDepth != 0 && !r.NeedsReceive() {
		bad("--rx-depth (-r): %s takes no receive%s", r.Text, hintOfImmediate(r))
	}
	if p.RecvList > 1 && !r.NeedsReceive() {
		bad("--recv_post_list: only operations that consume receives have it, %v does not", r.Opcode)
	} else if n := s.receiveDepth(); p.RecvList > n {
		bad("--recv_post_list %d: want 1 to %d, the receives that each queue pair has posted (--rx-depth, -r)", p.RecvList, n)
	}
	if p.RNRTimer != 0 && (!r.NeedsReceive() || p.Transport != verbs.RC) {
		hint := ""
		if !r.NeedsReceive() {
			hint = hintOfImmediate(r)
		}
		bad("--rnr-timer: only who sends over RC to receives waits for them%s", hint)
	}
	if p.InlineBytes > 0 && !r.MayInline() {
		bad("--inline (-I) %d: %v cannot be inline", p.InlineBytes, r.Opcode)
	}
	if p.Outstanding > 0 && !r.Responded {
		bad("--outs (-o) %d: only READs and atomics are limited by it, %s is not", p.Outstanding, r.Text)
	}
	if p.SRQ && (!r.NeedsReceive() || r.Addressed()) {
		bad("--srq: only send uses receives")
	} else if n := s.printedReceives(); p.SRQ && n < p.QPs {
		bad("--rx-depth (-r) %d: the %d queue pairs share them with --srq, and each needs one", n, p.QPs)
	}
	if p.Kind == Latency {
		s.checkLatency(bad)
	} else if p.Gap > 0 {
		bad("--gap %v: it is for latency tests; --rate paces a bandwidth test", p.Gap)
	}
	if p.Timestamps == DeviceClock {
		s.checkTimestamps(bad)
	}
	if p.Burst > 1 && p.RateBits == 0 {
		bad("--burst_size %d: without --rate_limit messages follow each other at once anyway", p.Burst)
	}
	if p.Vector > 0 && !p.Events {
		bad("--vector (-X) %d: it needs --events (-e)", p.Vector)
	}
	if p.RDMACM && p.Transport == verbs.UC {
		bad("--rdma-cm (-R): RDMA CM connects RC and UD, not UC")
	}
	if p.TOS != nil && !p.RDMACM {
		bad("--tos (-T): it needs --rdma-cm (-R); --tclass works without")
	}
	if p.PostList > p.TxDepth {
		bad("--post-list (-l) %d: want 1 to %d, the tx depth", p.PostList, p.TxDepth)
	}
	if p.PostList > 1 && p.Iterations%uint64(p.PostList) != 0 {
		bad("--iters (-n) %d is not a multiple of --post-list (-l) %d", p.Iterations, p.PostList)
	}
}

func hintOfImmediate(r Row) string {
	for _, other := range rows() {
		if other.Operation == r.Operation && other.NeedsReceive() {
			return "; it does with --" + string(r.Operation) + "-imm"
		}
	}
	return ""
}

func (s *Settled) checkLatency(bad func(string, ...any)) {
	p := &s.spec
	if p.Bidirectional {
		bad("--bidirectional (-b): a latency test has both directions already")
	}
	if p.QPs != 1 {
		bad("--qp (-q) %d: a latency test has one queue pair", p.QPs)
	}
	if p.PostList > 1 {
		bad("--post-list (-l) %d: a latency test posts message by message", p.PostList)
	}
	if p.Infinite {
		bad("--run_infinitely: it is for bandwidth tests")
	}
	if p.Events && s.row.ByLastByte {
		bad("--events (-e): a WRITE makes no event at the peer; use --write-imm, or golat send")
	}
}

// checkTimestamps refuses what no completion tells.
func (s *Settled) checkTimestamps(bad func(string, ...any)) {
	const name = "--timestamps device"
	switch {
	case s.spec.Kind != Latency:
		bad(name + ": it is for latency tests (golat)")
	case s.row.ByLastByte:
		bad(name + ": no completion tells when the peer's WRITE is there; it does with --write-imm, and of golat send, read and atomic")
	case s.spec.Gap > 0:
		bad(name + " with --gap: the pause would be part of the time from one completion to the next")
	}
	if l := &s.limits; l.known() && s.StampedByDevice() && l.Device.Clock.IsZero() {
		bad(name+": %s tells of no clock that stamps completions (ibv_query_device_ex); use --timestamps host", l.Device.Name)
	}
}

// checkMulticast refuses what a group of receivers cannot do. The limits are perftest's.
func (s *Settled) checkMulticast(bad func(string, ...any)) {
	p := &s.spec
	if !p.Multicast {
		if p.MGID != nil {
			bad("--MGID (-M): it names the group of --mcg (-g)")
		}
		return
	}
	if s.row.Operation != Send || p.Transport != verbs.UD {
		bad("--mcg (-g): only send over UD has multicast")
	}
	if p.MGID != nil && !p.MGID.IsMulticast() {
		bad("--MGID (-M) %v: that is no multicast address: want ff00::/8, or 224.0.0.0/4", p.MGID.Addr())
	}
	for _, no := range []struct {
		is   bool
		what string
	}{{p.Bidirectional, "--bidirectional (-b)"}, {p.QPs != 1, "--qp (-q) above 1"}, {p.RDMACM, "--rdma-cm (-R)"}, {p.DualPort, "--dualport (-O)"}} {
		if no.is {
			bad("--mcg (-g) and %s exclude each other", no.what)
		}
	}
	if s.limits.known() && s.limits.Port.LinkLayer == verbs.LinkInfiniBand {
		bad("--mcg (-g): on InfiniBand the subnet manager must be asked for the group, by libibumad, which is not there: use stock perftest, or a RoCE port")
	}
}

// checkDualPort refuses what two ports of a device cannot share. The limits are perftest's.
func (s *Settled) checkDualPort(bad func(string, ...any)) {
	p, info := &s.spec, s.limits.Device
	if !p.DualPort {
		return
	}
	if p.Kind != Bandwidth || p.Noncontig != nil {
		bad("--dualport (-O): only bandwidth tests have queue pairs on two ports")
	}
	if p.QPs%2 != 0 {
		bad("--dualport (-O): %d queue pairs (-q): want an even number, half of them for each port", p.QPs)
	}
	if p.RDMACM {
		bad("--dualport (-O) and --rdma-cm (-R) exclude each other")
	}
	if p.Rails > 1 {
		bad("--dualport (-O) and several devices (-d) exclude each other")
	}
	if s.limits.known() && info.Ports < 2 {
		bad("--dualport (-O): %s has one port; two devices at once are gobw's --device A,B", info.Name)
	}
}

// checkOnDemand refuses memory that the device would need in place, operation by operation as perftest does.
func (s *Settled) checkOnDemand(bad func(string, ...any)) {
	p, name, has := &s.spec, s.limits.Device.Name, s.limits.Device.Limits.OnDemand
	if !p.OnDemand || !s.limits.known() {
		return
	}
	if !has.Supported {
		bad("--odp: %s has no on-demand paging (ibv_query_device_ex: odp_caps): leave it out", name)
		return
	}
	var can verbs.PagedOperation
	switch p.Transport {
	case verbs.UC:
		can = has.UC
	case verbs.UD: // some devices do it and do not say so: registering tells
		return
	default:
		can = has.RC
	}
	for _, o := range s.row.Requests() {
		need := verbs.PagedOperations(o)
		if need == verbs.PagedSend && !s.Sends() {
			need = 0
		}
		if need&^can != 0 {
			bad("--odp: %s has no on-demand paging for %v over %v", name, need, p.Transport)
		}
	}
	if s.Receives() && can&(verbs.PagedReceive|verbs.PagedSharedReceive) == 0 {
		bad("--odp: %s has no on-demand paging for receives over %v", name, p.Transport)
	}
}

// checkRails refuses devices that could not work beside each other.
func (s *Settled) checkRails(bad func(string, ...any)) {
	p, have := &s.spec, s.limits.Rails
	if have > 0 && p.Rails > have {
		bad("the test runs on %d devices at once, this end has %d: name as many with -d here, as in -d mlx5_0,mlx5_1", p.Rails, have)
	}
	if p.Rails <= 1 {
		return
	}
	no := func(why string) { bad("%d devices (-d) at once: %s", p.Rails, why) }
	switch {
	case p.Kind == Latency:
		no("a latency test has one queue pair, on one device")
	case p.Noncontig != nil:
		no("the non-contiguous experiment has one queue pair, on one device")
	case p.QPs < p.Rails:
		no(fmt.Sprintf("each needs a queue pair of its own, give --qp (-q) %d or more", p.Rails))
	}
	if p.Threads%p.Rails != 0 {
		no(fmt.Sprintf("--threads %d is not a multiple of them, and each has as many threads", p.Threads))
	}
	if p.SRQ {
		no("--srq is one receive queue on one device")
	}
	if p.RDMACM {
		no("--rdma-cm (-R) finds one path, which leads through one device")
	}
	if s.peer.Perftest {
		no("a perftest at the other end has one; run gobw at both ends, or a test for each device")
	}
}

// checkThreads refuses threads that could not work apart from each other.
func (s *Settled) checkThreads(bad func(string, ...any)) {
	p := &s.spec
	if p.Threads <= 1 {
		return
	}
	name := fmt.Sprintf("--threads %d", p.Threads)
	switch {
	case p.Threads == p.Rails: // one a device, which checkRails has looked at
		name = fmt.Sprintf("%d devices (-d) at once", p.Rails)
	case p.Kind == Latency:
		bad("%s: a latency test has one queue pair, and one thread", name)
	case p.Noncontig != nil:
		bad("%s: the non-contiguous experiment has one queue pair, and one thread", name)
	case p.SRQ:
		bad("%s with --srq: all threads would wait for one receive queue", name)
	case p.Threads > p.QPs:
		bad("%s of %d queue pairs: each thread needs one of its own, give --qp (-q) %d or more", name, p.QPs, p.Threads)
	}
	if !s.Sends() && !s.Receives() {
		return
	}
	l := &s.limits
	if most := l.Device.Limits.Threads; most > 0 && p.Threads > most*p.Rails {
		bad("%s: the queue pairs of %s share one engine, which works for one thread at a time", name, l.Device.Name)
	}
	if l.CPUs > 0 && p.Threads > l.CPUs && !p.Events {
		bad("%s: this end may run on %d CPUs, and each thread needs one of its own (with -e it sleeps)", name, l.CPUs)
	}
}

func (s *Settled) checkSizes(bad func(string, ...any)) {
	p, port := &s.spec, s.limits.Port
	if s.row.Counter && !slices.Equal(p.Sizes, []int{counterBytes}) {
		bad("--size (-s): %s change %d bytes", s.row.Text, counterBytes)
	}
	for _, size := range p.Sizes {
		switch {
		case p.Transport == verbs.UD && s.mtu != 0 && size > s.mtu.Bytes():
			bad("--size (-s) %d: a UD message is one packet, at most the MTU of %d bytes", size, s.mtu.Bytes())
		case port.MaxMessage != 0 && uint64(size) > port.MaxMessage:
			bad("--size (-s) %d: the port carries %d bytes at most", size, port.MaxMessage)
		}
	}
}

func (s *Settled) checkLength(bad func(string, ...any)) {
	p := &s.spec
	switch {
	case p.Iterations != 0 && p.Duration != 0:
		bad("--iters (-n) %d and --duration (-D) %v exclude each other", p.Iterations, p.Duration)
	case p.Margin != 0 && p.Duration == 0:
		bad("--margin (-f) %v: it needs --duration (-D)", p.Margin)
	case p.Duration != 0 && p.Duration <= 2*p.Margin:
		bad("--duration (-D) %v: want more than two margins (-f) of %v", p.Duration, p.Margin)
	case p.Infinite && p.Duration == 0:
		bad("--run_infinitely: it needs --duration (-D), the time of a row")
	case p.Infinite && (p.Runs > 1 || len(p.Sizes) > 1):
		bad("--run_infinitely: one size and one run are enough for ever")
	}
}

func (s *Settled) checkDevice(bad func(string, ...any)) {
	if !s.limits.known() {
		return
	}
	p, info, port := &s.spec, s.limits.Device, s.limits.Port
	lim := info.Limits
	if info.IWARP() {
		s.checkIWARP(bad)
	}
	atMost := func(name string, v, limit int) {
		if limit > 0 && v > limit {
			bad("%s %d: want 1 to %d", name, v, limit)
		}
	}
	atMost("--qp (-q)", p.QPs, lim.MaxQP)
	if s.point == nil { // what a point needs is told as its refusal
		atMost("--tx-depth (-t)", p.TxDepth, lim.MaxQPWR/len(s.row.Requests()))
		atMost("--rx-depth (-r)", p.RxDepth, lim.MaxQPWR)
	} else {
		for _, r := range refusals(p, s.point.Strategy, s.point.Layout, lim, s.mtu.Bytes()) {
			bad("%w", r)
		}
	}
	if p.InlineBytes > 0 && lim.MaxInline >= 0 && p.InlineBytes > lim.MaxInline {
		bad("--inline (-I) %d: %s has %d bytes at most", p.InlineBytes, info.Name, lim.MaxInline)
	}
	if p.Outstanding > 0 {
		atMost("--outs (-o)", p.Outstanding, max(min(lim.MaxRDAtomic, lim.MaxInitRDAtomic), 1))
	}
	if p.MTU != 0 && port.ActiveMTU != 0 && p.MTU > port.ActiveMTU {
		bad("--mtu (-m) %v: port %d of %s has %v%s", p.MTU, port.Number, info.Name, port.ActiveMTU, hintOfMTU(p.MTU, port))
	}
	if s.row.Counter && !lim.Atomic && !info.IWARP() {
		bad("%s has no atomics", info.Name)
	}
}

// checkIWARP refuses what a stream of RFC 5040 and 5041 does not carry.
func (s *Settled) checkIWARP(bad func(string, ...any)) {
	p, name := &s.spec, s.limits.Device.Name
	switch {
	case p.Transport != verbs.RC:
		bad("%v: %s is an iWARP device, which has RC alone", p.Transport, name)
	case s.point != nil:
		bad("%s is an iWARP device, whose connections RDMA CM makes: the non-contiguous experiment does not use it", name)
	case !p.RDMACM:
		bad("%s is an iWARP device, whose connections RDMA CM makes: give --rdma-cm (-R)", name)
	}
	if s.row.Opcode.HasImmediate() {
		bad("%s: iWARP has no immediate data, and %s is an iWARP device", s.row.Text, name)
	}
	if s.row.Counter {
		bad("%s: iWARP has none before RFC 7306, and %s is an iWARP device", s.row.Text, name)
	}
	if s.ByCredit() && p.PostList > s.receiveDepth() {
		bad("--post-list (-l) %d: the other end has %d receives (--rx-depth, -r), and over iWARP a SEND must find one", p.PostList, s.receiveDepth())
	}
	if s.ByCredit() && p.Infinite && s.peer.Perftest {
		bad("--run_infinitely of SENDs over iWARP: perftest's credits count from its first row on; run gobw at both ends")
	}
}

// hintOfMTU says which network interface bounds a RoCE port's MTU, and what it would need: room for every header, as the
// kernel and roce0 count it.
func hintOfMTU(want verbs.MTU, port verbs.PortInfo) string {
	if port.LinkLayer != verbs.LinkEthernet || port.NetInterface == "" {
		return ""
	}
	needed := (want.Bytes()/100 + 2) * 100
	if want.Bytes()%100+96 <= 100 {
		needed -= 100
	}
	return fmt.Sprintf(", the most that interface %s carries: with an MTU of %d there (ip link set %s mtu %d), at the other end and on the way it is %v",
		port.NetInterface, needed, port.NetInterface, needed, want)
}

// checkVerify refuses comparisons that would compare nothing, or the wrong thing.
func (s *Settled) checkVerify(bad func(string, ...any)) {
	p := &s.spec
	if p.Verify == VerifyNothing {
		return
	}
	if s.row.Traceless {
		bad("--verify: %v leaves nothing to compare; FETCH_AND_ADD does, it counts", s.row.Opcode)
	}
	if p.Verify == VerifyAll && (p.Duration > 0 || p.Kind == Latency) {
		bad("--verify all: works for bandwidth tests with --iters (-n); --verify ends works for all")
	}
	if p.QPs > 1 && (p.Duration > 0 || p.SRQ || p.Transport != verbs.RC) {
		bad("--verify with several queue pairs needs RC, --iters (-n) and no --srq: else nobody knows which message is where")
	}
	if s.peer.Perftest {
		bad("data verification needs gobw at the other end: perftest sends random bytes")
	}
}

// checkPerftest refuses what no perftest can run with us.
func (s *Settled) checkPerftest(bad func(string, ...any)) {
	p := &s.spec
	const both = "run gobw at both ends"
	if !s.row.PerftestHas() {
		bad("perftest has no %s: %s", s.row.Operation, both)
	}
	if p.Noncontig != nil {
		bad("perftest has no non-contiguous messages: " + both)
	}
	if p.Runs > 1 {
		bad("perftest runs a test once per connection, not %d times: %s", p.Runs, both)
	}
	if !p.AllSizes && len(p.Sizes) != 1 {
		bad("perftest runs one size, or all powers of two (-a), not %d sizes: %s", len(p.Sizes), both)
	}
	if p.AllSizes && p.Transport != verbs.UD && !slices.Equal(p.Sizes, AllSizes()) {
		bad("perftest's -a runs 2, 4, … %d bytes; the plan has other sizes", AllSizesBytes)
	}
}

// note names what was asked for and has no effect at this end.
func (s *Settled) note() {
	p := &s.spec
	add := func(format string, args ...any) { s.notes = append(s.notes, fmt.Sprintf(format, args...)) }
	if p.Warmup > 0 && s.peer.Perftest && !s.warmsAlone() {
		add("--warmup %d has no effect here: perftest at the other end does not wait for it", p.Warmup)
	}
	if peer := s.peer.Outstanding; s.row.Responded && peer > 0 && p.Outstanding > peer {
		add("--outs (-o) %d: the other end's device has %d, which is in force", p.Outstanding, peer)
	}
	if p.MTU > s.mtu {
		add("--mtu (-m) %v: the other end's port has %v, which is in force", p.MTU, s.mtu)
	}
	if s.row.NeedsReceive() && s.point == nil && p.RxDepth == 0 && s.mostCompletions() < defaultRxDepth {
		add("%d receives per queue pair in place of %d: a completion queue of %s holds no more", s.mostCompletions(), defaultRxDepth, s.limits.Device.Name)
	}
	if s.point != nil && s.point.cut(p.Noncontig.Footprint) {
		add("a footprint of %d bytes: %d layouts are walked, of %d bytes in all", p.Noncontig.Footprint, s.point.Places, s.point.Places*s.point.Pitch)
	}
	if !s.limits.Device.Software {
		return
	}
	name := s.limits.Device.Name
	if s.StampedByDevice() {
		add("--timestamps device: the clock of %s is the host's, read when a packet is handled", name)
	}
	if p.Vector > 0 {
		add("--vector (-X) %d has no effect on %s: it has one", p.Vector, name)
	}
	if p.SL > 0 {
		add("--sl (-S) %d has no effect on %s: a service level needs a VLAN or InfiniBand", p.SL, name)
	}
	if p.OnDemand {
		add("--odp has no effect on %s: its memory is never pinned, the kernel brings a page when it is touched", name)
	}
	if p.StrictOrdering {
		add("--disable_pcie_relaxed has no effect on %s: a software device writes in order", name)
	}
}

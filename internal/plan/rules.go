package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/verbs"
)

// rule takes a row of the rules of a plan: when the rule is broken, and what is told then. All broken rules are told at
// once.
type rule func(broken bool, text string, args ...any)

// rules are all rows of a test whose open fields are filled.
func (s *Settled) rules(no rule) {
	s.rulesOfOperation(no)
	s.rulesOfQueues(no)
	s.rulesOfSizes(no)
	s.rulesOfFeatures(no)
	s.rulesOfThreads(no)
	s.rulesOfPerftest(no)
	if s.limits.known() {
		s.rulesOfDevice(no)
		s.rulesOfPaging(no)
		s.rulesOfIWARP(no)
	}
}

// rulesOfNumbers are those of numbers and words alone. Filling in what is open counts with them.
func (s *Settled) rulesOfNumbers(no rule) {
	p := &s.Spec
	outside := func(d time.Duration) bool { return d < 0 || d > maxSeconds*time.Second }
	noPower := func(n, most int) bool { return n < 0 || n > most || n&(n-1) != 0 }
	const seconds = " %v: want 0 to %d seconds"
	const power = " of %d bytes: want a power of two up to %d"

	no(len(p.FlowLabels) > maxQueuePairs, "--flow_label: %d labels, the limit is %d", len(p.FlowLabels), maxQueuePairs)
	label := slices.Max(append([]uint32{0}, p.FlowLabels...))
	no(label > verbs.MaxFlowLabel, "--flow_label %d: want 0 to %d", label, verbs.MaxFlowLabel)
	no(len(p.Sizes) > maxSizes, "%d message sizes, the limit is %d", len(p.Sizes), maxSizes)
	no(slices.ContainsFunc(p.Sizes, func(size int) bool { return size < 1 || size > MaxMessage }),
		"--size (-s): want 1 to %d bytes", MaxMessage)
	no(outside(p.Duration), "--duration (-D)"+seconds, p.Duration, maxSeconds)
	no(outside(p.Margin), "--margin (-f)"+seconds, p.Margin, maxSeconds)
	no(outside(p.Gap), "--gap"+seconds, p.Gap, maxSeconds)
	no(!(p.RateBits >= 0) || p.RateBits > 1e18, "--rate %g: want a positive number of bits per second", p.RateBits)
	no(!slices.Contains([]verbs.Transport{0, verbs.RC, verbs.UC, verbs.UD}, p.Transport),
		"transport %v: want RC, UC or UD", p.Transport)
	no(!slices.Contains([]Verify{VerifyNothing, VerifyEnds, VerifyAll}, p.Verify),
		"--verify %q: want ends or all", p.Verify)
	no(p.Timestamps != HostClock && p.Timestamps != DeviceClock, "--timestamps %q: want host or device", p.Timestamps)
	no(noPower(s.peer.PageBytes, maxPageBytes), "the peer's page"+power, s.peer.PageBytes, maxPageBytes)
	no(s.peer.MTU > verbs.MTU4096, "the peer's MTU has the code %d: want 1 to %d", uint8(s.peer.MTU), uint8(verbs.MTU4096))
	no(noPower(s.peer.LineBytes, maxLineBytes), "the peer's cache line"+power, s.peer.LineBytes, maxLineBytes)

	no(p.Iterations != 0 && p.Duration != 0,
		"--iters (-n) %d and --duration (-D) %v exclude each other", p.Iterations, p.Duration)
	no(p.Margin != 0 && p.Duration == 0, "--margin (-f) %v: it needs --duration (-D)", p.Margin)
	no(p.Duration != 0 && p.Duration <= 2*p.Margin,
		"--duration (-D) %v: want more than two margins (-f) of %v", p.Duration, p.Margin)
	no(p.Infinite && p.Duration == 0, "--run_infinitely: it needs --duration (-D), the time of a row")
	no(p.Infinite && (p.Runs > 1 || len(p.Sizes) > 1), "--run_infinitely: want one size and one run")
}

func (s *Settled) rulesOfOperation(no rule) {
	p, r := &s.Spec, s.Row
	latency := p.Kind == Latency

	no(!r.Supports(p.Transport), "%v has no %s: use %s", p.Transport, r.Text, r.TransportText())
	no(p.InlineBytes > 0 && !r.MayInline(), "--inline (-I) %d: %v cannot be inline", p.InlineBytes, r.Opcode)
	no(p.Outstanding > 0 && !r.Responded,
		"--outs (-o) %d: only READs and atomics are limited by it, %s is not", p.Outstanding, r.Text)
	no(p.Burst > 1 && p.RateBits == 0, "--burst_size %d: it needs --rate_limit", p.Burst)
	no(p.Vector > 0 && !p.Events, "--vector (-X) %d: it needs --events (-e)", p.Vector)
	no(p.RDMACM && p.Transport == verbs.UC, "--rdma-cm (-R): RDMA CM connects RC and UD, not UC")
	no(p.TOS != nil && !p.RDMACM, "--tos (-T): it needs --rdma-cm (-R); --tclass works without")

	no(!latency && p.Gap > 0, "--gap %v: it is for latency tests; --rate paces a bandwidth test", p.Gap)
	no(latency && p.Bidirectional, "--bidirectional (-b): a latency test has both directions already")
	no(latency && p.QPs != 1, "--qp (-q) %d: a latency test has one queue pair", p.QPs)
	no(latency && p.Infinite, "--run_infinitely: it is for bandwidth tests")
	no(latency && p.Events && r.ByLastByte,
		"--events (-e): a WRITE makes no event at the peer; use --imm, or golat send")

	const stamps = "--timestamps device"
	stamped, d := p.Timestamps == DeviceClock, &s.limits.Device
	no(stamped && !latency, stamps+": it is for latency tests (golat)")
	no(stamped && latency && r.ByLastByte, stamps+": no completion shows when the peer's WRITE has arrived; "+
		"use --imm, or golat send, read, atomic or flush")
	no(stamped && latency && p.Gap > 0,
		stamps+" with --gap: the pause would be part of the time from one completion to the next")
	no(s.StampedByDevice() && s.limits.known() && d.Clock.IsZero(),
		stamps+": %s reports no clock that stamps completions (ibv_query_device_ex); use --timestamps host", d.Name)
}

// rulesOfQueues are those of depths and lists, which must fit each other and the operation.
func (s *Settled) rulesOfQueues(no rule) {
	p, r := &s.Spec, s.Row
	receives := r.NeedsReceive()
	hint := map[Operation]string{Write: "; it does with --imm"}[p.Operation]

	no(p.RxDepth != 0 && !receives, "--rx-depth (-r): %s takes no receive%s", r.Text, hint)
	no(p.RecvList > 1 && !receives,
		"--recv_post_list: only operations that consume receives have it, %v does not", r.Opcode)
	no(receives && p.RecvList > s.receiveDepth(),
		"--recv_post_list %d: want 1 to %d, the receives that each queue pair has posted (--rx-depth, -r)",
		p.RecvList, s.receiveDepth())
	no(p.SRQ && p.Operation != Send, "--srq: only send uses receives")
	no(p.SRQ && p.Operation == Send && s.printedReceives() < p.QPs,
		"--rx-depth (-r) %d: %d queue pairs share the receives (--srq): want at least one each",
		s.printedReceives(), p.QPs)
	no(p.PostList > p.TxDepth, "--post-list (-l) %d: want 1 to %d, the tx depth", p.PostList, p.TxDepth)
	no(p.Iterations != p.WholeBatches(p.Iterations),
		"--iters (-n) %d is not a multiple of --post-list (-l) %d", p.Iterations, p.PostList)
	no(p.PostList > 1 && p.Kind == Latency,
		"--post-list (-l) %d: a latency test posts message by message", p.PostList)
}

func (s *Settled) rulesOfSizes(no rule) {
	p, largest := &s.Spec, s.LargestSize()
	name := fmt.Sprintf("--size (-s) %d", largest)
	if len(p.Mix) > 0 {
		name = fmt.Sprintf("--mix %v", p.Mix)
	}
	datagram, port := s.MTU.Bytes(), s.limits.Port.MaxMessage
	tooLong := p.Transport == verbs.UD && datagram != 0 && s.Point == nil && largest > datagram
	listed := s.Point != nil && s.Point.Listed() // a list is as many messages as it needs
	pause := s.PauseNs(largest) / 1e9

	no(s.Row.Counter && !slices.Equal(p.Sizes, []int{counterBytes}),
		"--size (-s): %s change %d bytes", s.Row.Text, counterBytes)
	no(pause > maxSeconds, "--rate %g: a message of %d bytes would take %.3g s, want at most %d",
		p.RateBits, largest, pause, maxSeconds)
	no(tooLong, "%s: a UD message is one packet, at most the MTU of %d bytes", name, datagram)
	no(!tooLong && !listed && port != 0 && uint64(largest) > port, "%s: the port carries %d bytes at most", name, port)
	if len(p.Mix) > 0 {
		s.rulesOfMix(no, name)
	}
}

func (s *Settled) rulesOfMix(no rule, name string) {
	p, most := &s.Spec, s.limits.Device.Limits.MaxSGE
	largest, entries, same := p.Mix.largest()
	tooMany := slices.IndexFunc(p.Mix, func(e MixEntry) bool { return e.SGEs > e.Bytes })

	no(p.AllSizes || len(p.Sizes) != 1 || p.Sizes[0] != largest,
		"%s: it names the sizes: leave out --size (-s) and --all (-a)", name)
	no(p.Noncontig != nil, "%s: the layout of a non-contiguous message is its own list", name)
	no(s.Row.Counter, "%s: %s change %d bytes", name, s.Row.Text, counterBytes)
	no(!same && p.Kind == Latency,
		"%s: golat measures one size at a time: give several sizes to --size (-s)", name)
	no(!same && p.Verify != VerifyNothing, "%s: --verify works with one size only, as in --mix 4Kx4", name)
	no(s.peer.Perftest, "%s: perftest has none: run gobw at both ends", name)
	no(tooMany >= 0, "%s: each of %d entries needs a byte", name, p.Mix[max(tooMany, 0)].SGEs)
	no(s.limits.known() && entries > most, "%s: %s takes lists of 1 to %d entries", name, s.limits.Device.Name, most)
}

// rulesOfFeatures are those of features that exclude others. The limits of multicast are perftest's.
func (s *Settled) rulesOfFeatures(no rule) {
	p, l := &s.Spec, &s.limits
	latency := p.Kind == Latency

	const mcg = "--mcg (-g): it and %s exclude each other"
	group, infiniBand := p.Multicast, l.known() && l.Port.LinkLayer == verbs.LinkInfiniBand
	no(group && (p.Operation != Send || p.Transport != verbs.UD), "--mcg (-g): only send over UD has multicast")
	no(group && p.Bidirectional, mcg, "--bidirectional (-b)")
	no(group && p.QPs != 1, mcg, "--qp (-q) above 1")
	no(group && p.RDMACM, mcg, "--rdma-cm (-R)")
	no(group && infiniBand, "--mcg (-g): on InfiniBand the subnet manager must be asked for the group, by libibumad, "+
		"which is not there: use stock perftest, or a RoCE port")
	no(p.MGID != nil && !group, "--MGID (-M): it names the group of --mcg (-g)")
	if p.MGID != nil {
		no(group && !p.MGID.IsMulticast(),
			"--MGID (-M) %v: that is no multicast address: want ff00::/8, or 224.0.0.0/4", p.MGID.Addr())
	}

	no(l.Rails > 0 && p.Rails > l.Rails, "the test runs on %d devices at once, this end has %d: "+
		"name as many with -d here, as in -d mlx5_0,mlx5_1", p.Rails, l.Rails)
	const rails = "%d devices (-d) at once: "
	several := p.Rails > 1
	no(several && latency, rails+"a latency test has one queue pair, on one device", p.Rails)
	no(several && !latency && p.QPs < p.Rails,
		rails+"each needs its own queue pair: give --qp (-q) %[1]d or more", p.Rails)
	no(several && p.Threads%p.Rails != 0,
		rails+"--threads %d is not a multiple of the number of devices", p.Rails, p.Threads)
	no(several && p.SRQ, rails+"--srq is one receive queue on one device", p.Rails)
	no(several && p.RDMACM, rails+"--rdma-cm (-R) finds one path, which leads through one device", p.Rails)
	no(several && s.peer.Perftest,
		rails+"a perftest at the other end has one; run gobw at both ends, or a test for each device", p.Rails)

	verify, all := "--verify="+string(p.Verify), p.Verify == VerifyAll
	ordered := p.Duration == 0 && !p.SRQ && p.Transport == verbs.RC || p.QPs == 1 || s.Point != nil
	if p.Verify != VerifyNothing {
		no(s.Row.Traceless, "%s: %v leaves nothing to compare; use FETCH_AND_ADD", verify, s.Row.Opcode)
		no(all && latency,
			"%s: is for bandwidth tests; --verify alone checks the first and the last message", verify)
		no(all && p.Duration > 0,
			"%s: needs --iters (-n) in place of --duration (-D); --verify alone works with both", verify)
		no(!ordered, "%s: several queue pairs need RC, --iters (-n) and no --srq: "+
			"else nobody knows which message is where", verify)
		no(s.peer.Perftest,
			"%s: data verification needs gobw at the other end: perftest sends random bytes", verify)
	}
}

// rulesOfThreads are those of threads, which work apart from each other. With one
// thread a device, rulesOfFeatures says all.
func (s *Settled) rulesOfThreads(no rule) {
	p, l := &s.Spec, &s.limits
	name, works := fmt.Sprintf("--threads %d", p.Threads), s.Sends() || s.Receives()
	each := p.Threads == p.Rails
	if each {
		name = fmt.Sprintf("%d devices (-d) at once", p.Rails)
	}
	most := l.Device.Limits.Threads
	crowded := works && most > 0 && p.Threads > most*p.Rails
	fits := min(p.Threads, max(l.CPUs, 2))
	no(p.Threads > 1 && crowded,
		"--threads %d: %s works for one thread at a time; name it once for each thread: -d %s --threads %d",
		p.Threads, l.Device.Name, strings.Join(slices.Repeat([]string{l.Device.Name}, fits), ","), fits)
	no(p.Threads > 1 && !crowded && !each && p.SRQ,
		"%s with --srq: all threads would wait for one receive queue", name)
	// What the device takes is told first.
	no(p.Threads > p.QPs && !crowded && !each && !p.SRQ && l.known(),
		"%s of %d queue pairs: each thread needs its own: give --qp (-q) %d or more", name, p.QPs, p.Threads)
	no(p.Threads > 1 && works && l.CPUs > 0 && p.Threads > l.CPUs && !p.Events,
		"%s: this end may run on %d CPUs, and each thread needs one: use at most %[2]d, or add --events (-e)",
		name, l.CPUs)
}

// rulesOfPerftest are those of a test with a perftest.
func (s *Settled) rulesOfPerftest(no rule) {
	p, perftest := &s.Spec, s.peer.Perftest
	both := "run gobw at both ends"
	if s.limits.Dialled {
		both += "; a perftest server has ended now: start it again"
	}
	no(perftest && !s.Row.PerftestHas(), "perftest has no %s: %s", s.Row.Operation, both)
	no(perftest && p.Noncontig != nil, "perftest has no non-contiguous messages: %s", both)
	no(perftest && p.Runs > 1, "perftest runs a test once per connection, not %d times: %s", p.Runs, both)
	no(perftest && !p.AllSizes && len(p.Sizes) != 1,
		"perftest runs one size, or all powers of two (-a), not %d sizes: %s", len(p.Sizes), both)
}

func (s *Settled) rulesOfDevice(no rule) {
	p, d, port := &s.Spec, &s.limits.Device, s.limits.Port
	lim := &d.Limits
	atMost := func(name string, v, limit int) {
		no(limit > 0 && v > limit, "%s %d: want 1 to %d", name, v, limit)
	}
	atMost("--qp (-q)", p.QPs, lim.MaxQP)
	if s.Point == nil { // what a point needs is told as its refusal
		atMost("--tx-depth (-t)", p.TxDepth, lim.MaxQPWR/len(s.Row.Requests()))
		atMost("--rx-depth (-r)", p.RxDepth, lim.MaxQPWR)
	}
	atMost("--outs (-o)", p.Outstanding, max(min(lim.MaxRDAtomic, lim.MaxInitRDAtomic), 1))
	no(p.InlineBytes > 0 && lim.MaxInline >= 0 && p.InlineBytes > lim.MaxInline,
		"--inline (-I) %d: %s has %d bytes at most", p.InlineBytes, d.Name, lim.MaxInline)
	no(p.MTU != 0 && port.ActiveMTU != 0 && p.MTU > port.ActiveMTU, "--mtu (-m) %v: port %d of %s has %v%s",
		p.MTU, port.Number, d.Name, port.ActiveMTU, hintOfMTU(p.MTU, port))
	no(port.State == verbs.PortActive && port.ActiveMTU == 0, "port %d of %s has no MTU: its network interface needs one "+
		"of 1024 bytes or more ('ip link set %s mtu 1500')", port.Number, d.Name, cmp.Or(port.NetInterface, "NAME"))
	no(s.Row.Counter && !lim.Atomic && !d.IWARP(), "%s has no atomics", d.Name)
}

// hintOfMTU says which network interface bounds a RoCE port's MTU, and what it would
// need, as the kernel and roce0 count it.
func hintOfMTU(want verbs.MTU, port verbs.PortInfo) string {
	if port.LinkLayer != verbs.LinkEthernet || port.NetInterface == "" {
		return ""
	}
	const headers = 104 // at most 96; 4200 is what everybody sets for 4096
	return fmt.Sprintf(", the most that interface %s carries: with an MTU of %d there (ip link set %[1]s mtu %[2]d), "+
		"at the other end and on the way it is %[3]v", port.NetInterface, want.Bytes()+headers, want)
}

// rulesOfPaging are those of memory that is not pinned, operation by operation as in perftest. Some devices page for UD
// and do not say so: registering the memory tells.
func (s *Settled) rulesOfPaging(no rule) {
	p, name, has := &s.Spec, s.limits.Device.Name, s.limits.Device.Limits.OnDemand
	pages := has.RC
	if p.Transport == verbs.UC {
		pages = has.UC
	}
	asked := p.OnDemand && has.Supported && p.Transport != verbs.UD
	no(p.OnDemand && !has.Supported,
		"--odp: %s has no on-demand paging (ibv_query_device_ex: odp_caps): leave it out", name)
	for _, o := range s.Row.Requests() {
		need := verbs.PagedOperations(o)
		no(asked && need&^pages != 0 && (need != verbs.PagedSend || s.Sends()),
			"--odp: %s has no on-demand paging for %v over %v", name, need, p.Transport)
	}
	no(asked && s.Receives() && pages&(verbs.PagedReceive|verbs.PagedSharedReceive) == 0,
		"--odp: %s has no on-demand paging for receives over %v", name, p.Transport)
}

// rulesOfIWARP are those of RFC 5040 and 5041.
func (s *Settled) rulesOfIWARP(no rule) {
	p, r, name, is := &s.Spec, s.Row, s.limits.Device.Name, s.limits.Device.IWARP()
	no(is && p.Transport != verbs.RC, "%v: %s is an iWARP device, which has only RC", p.Transport, name)
	no(is && s.Point != nil, "%s is an iWARP device, which needs RDMA CM: "+
		"the non-contiguous experiment does not use RDMA CM", name)
	no(is && s.Point == nil && p.Transport == verbs.RC && !p.RDMACM,
		"%s is an iWARP device, which needs RDMA CM: give --rdma-cm (-R)", name)
	no(is && r.Opcode.HasImmediate(), "%s: iWARP has no immediate data, and %s is an iWARP device", r.Text, name)
	no(is && r.Counter, "%s: iWARP has none before RFC 7306, and %s is an iWARP device", r.Text, name)
	no(is && r.NeedsReceive() && p.Kind == Bandwidth,
		"%s: over iWARP a SEND that finds no receive ends the connection (RFC 5041, 7.1), and %s is an iWARP device: "+
			"measure write or read, or send with golat", r.Text, name)
}

// rulesOfRoom are those of completion queues: requests for which they have no room are lost.
func (s *Settled) rulesOfRoom(no rule) {
	most, q := s.mostCompletions(), s.Queues
	const text = "%s: %d on each of %d queue pairs are more than a completion queue of %s holds, %d: at most %d"
	d := &s.limits.Device
	no(q.SendWRs > most, text, "--tx-depth (-t)", q.SendWRs, s.Spec.QPs, d.Name, d.Limits.MaxCQE,
		most/max(q.SendWRs/s.Spec.TxDepth, 1))
	no(s.Receives() && q.RecvWRs > most, text, "--rx-depth (-r)", q.RecvWRs, s.Spec.QPs, d.Name, d.Limits.MaxCQE, most)
}

// notesOf are rows of another kind: what was asked for and has no effect at this end.
func (s *Settled) notesOf(note rule) {
	p, d := &s.Spec, &s.limits.Device
	note(p.Warmup > 0 && s.peer.Perftest && !s.warmsAlone(), "a warm-up of %d messages has no effect at this end: "+
		"perftest at the other does not wait for it", p.Warmup)
	theirs := s.peer.Outstanding
	note(s.Row.Responded && theirs > 0 && p.Outstanding > theirs,
		"--outs (-o) %d: the other end's device has %d, which is in force", p.Outstanding, theirs)
	note(p.MTU > s.MTU, "--mtu (-m) %v: the other end's port has %v, which is in force", p.MTU, s.MTU)
	note(s.Row.NeedsReceive() && s.Point == nil && p.RxDepth == 0 && s.mostCompletions() < defaultRxDepth,
		"%d receives per queue pair in place of %d: a completion queue of %s holds no more",
		s.mostCompletions(), defaultRxDepth, d.Name)
	if s.Point != nil && s.Point.cut(p.Noncontig.Footprint) {
		place := s.Point.Near.Place
		note(true, "a footprint of %d bytes: %d layouts are walked, of %d bytes in all",
			p.Noncontig.Footprint, place.Places, place.Places*place.Stride)
	}
	const none = " has no effect on %s: "
	note(d.Software && s.StampedByDevice(),
		"--timestamps device: the clock of %s is the host's, read when a packet is handled", d.Name)
	note(d.Software && p.Vector > 0, "--vector (-X) %d"+none+"it has one", p.Vector, d.Name)
	note(d.Software && p.SL > 0, "--sl (-S) %d"+none+"a service level needs a VLAN or InfiniBand", p.SL, d.Name)
	note(d.Software && p.OnDemand,
		"--odp"+none+"its memory is never pinned, the kernel brings a page when it is touched", d.Name)
	note(d.Software && p.StrictOrdering,
		"--disable_pcie_relaxed"+none+"a software device writes in order", d.Name)
}

// rulesOf are what a policy does not grant.
func (p Policy) rulesOf(s *Settled, no rule) {
	need, length, rounds, records := s.Memory.Total(), s.Length(), s.RoundCount(), s.RecordCount()
	if s.Spec.Infinite { // without an end these have no figure
		no(p.Duration > 0 || p.Rounds > 0 || p.Records > 0, "--run_infinitely: the test runs until it is stopped; "+
			"this server takes only tests that end; start ib_write_bw at both ends")
		need, length, rounds, records = 0, 0, 0, 0
	}
	const setUp = 2 * time.Minute // granted beside what is measured, as a server does
	giveUp := s.giveUp()
	no(p.Bytes > 0 && need > p.Bytes, "the test needs %s of memory (%s); the limit is %s (--max-memory)",
		mebibytes(need), s.Memory, mebibytes(p.Bytes))
	no(p.Duration > 0 && length > p.Duration, "the test takes %v; the limit is %v (--max-duration)", length, p.Duration)
	no(p.Duration > 0 && giveUp > p.Duration+setUp, "--qp-timeout (-u) %d with %d retries: "+
		"a queue pair gives up after %v; the limit is %v (--max-duration and 2 minutes)",
		s.Spec.Timeout, s.Spec.Retries, giveUp.Round(time.Second), p.Duration+setUp)
	no(p.QueuePairs > 0 && s.Spec.QPs > p.QueuePairs, "%d queue pairs; the limit is %d", s.Spec.QPs, p.QueuePairs)
	no(p.Rounds > 0 && rounds > p.Rounds, "%d rounds; the limit is %d", rounds, p.Rounds)
	no(p.Records > 0 && records > p.Records, "%d records; the limit is %d", records, p.Records)
	if len(p.Operations) > 0 {
		no(!slices.Contains(p.Operations, s.Spec.Operation),
			"operation %s; want %s", s.Spec.Operation, alternatives(p.Operations))
	}
}

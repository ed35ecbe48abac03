package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// Values in force where a spec says nothing.
const (
	bandwidthBytes    = 65536
	latencyBytes      = 2
	counterBytes      = 8
	latencyIterations = 1000
	defaultTimeout    = 14
	softwareTimeout   = 16 // 268 ms: a software device that is off the processor for a while has not gone
	defaultRetries    = 7
	defaultQKey       = 0x11111111

	warmupWhenVerifying = 256 // messages
	verifyBytes         = 64 << 20
)

// RNRTimer is how long an end without a receive asks senders to wait, as the code of
// IBTA table 46: 0.64 ms, as perftest asks.
const RNRTimer = 12

// RNRRetries is how often a sender tries again then: for ever.
const RNRRetries = 7

// AllSizesBytes is the largest size of -a.
const AllSizesBytes = 8 << 20

// Bounds of a test on any device that no field of [Spec] names.
const (
	maxQueuePairs  = 16384
	maxOutstanding = 255     // a queue pair's attribute has eight bits
	maxPageBytes   = 1 << 16 // the largest that Linux has on any architecture
	maxLineBytes   = 1 << 12
)

// Settle makes of a spec the test that this end runs, or names everything that stands against it. The peer's facts may
// still be unknown: see [Peer].
func Settle(spec Spec, limits Limits, peer Peer, policy Policy) (*Settled, error) {
	s := &Settled{Spec: spec, limits: limits, peer: peer}
	s.Spec.Sizes = slices.Clone(spec.Sizes)
	for _, stage := range []func(*Faults){
		s.read, s.examine, s.layOut, func(wrong *Faults) { policy.rulesOf(s, wrong.If) },
	} {
		var wrong Faults
		if stage(&wrong); len(wrong) > 0 { // what follows would only repeat them
			return nil, &Error{wrong}
		}
	}
	s.notesOf(func(is bool, format string, args ...any) {
		if is {
			s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
		}
	})
	return s, nil
}

// read takes what the spec says by itself: its numbers, its point, its operation.
func (s *Settled) read(wrong *Faults) {
	checkNumbers(table, &s.Spec, wrong)
	s.rulesOfNumbers(wrong.If)
	if s.Spec.Noncontig != nil && !s.choosePoint(wrong) { // which knows the operation
		return
	}
	var err error
	s.Row, err = s.Spec.Row()
	wrong.Note(err)
	wrong.If(s.Spec.Kind != Bandwidth && s.Spec.Kind != Latency, "kind %q: want bandwidth or latency", s.Spec.Kind)
}

// examine fills in what is open, and holds the whole against the rules.
func (s *Settled) examine(wrong *Faults) {
	s.fill()
	s.rules(wrong.If)
	if s.Point != nil && s.limits.known() {
		*wrong = append(*wrong, refusals(&s.Spec, s.Point, s.limits.Device.Limits, s.MTU.Bytes())...)
	}
}

// fill chooses what the spec left open.
func (s *Settled) fill() {
	p := &s.Spec
	p.Rails, p.Runs = max(p.Rails, 1), max(p.Runs, 1)
	if p.Threads = cmp.Or(p.Threads, p.Rails); p.Kind == Bandwidth {
		p.QPs = cmp.Or(p.QPs, p.Rails)
	}
	p.QPs = max(p.QPs, 1)
	p.MRPerQP = p.MRPerQP || p.Rails > 1 // memory is registered with the device that uses it
	p.Transport = cmp.Or(p.Transport, verbs.RC)
	p.Choose(s.Row)
	s.Role = Target
	if s.limits.Dialled != p.Reversed {
		s.Role = Initiator
	}
	s.MTU = cmp.Or(p.MTU, s.limits.Port.ActiveMTU)
	if s.peer.MTU != 0 && (s.MTU == 0 || s.peer.MTU < s.MTU) {
		s.MTU = s.peer.MTU
	}
	s.fillSizes()
	s.fillLength()
	s.fillDepths()
	if p.Verify != VerifyNothing && p.QPs > 1 && p.WarmupSteady {
		// Which receive takes which message is known only where each queue pair's share is: a warm-up by count.
		p.WarmupSteady, p.Warmup = false, warmupWhenVerifying
	}
	if s.limits.Device.Software {
		p.Timeout = cmp.Or(p.Timeout, softwareTimeout)
	}
	p.Timeout, p.Retries, p.QKey = cmp.Or(p.Timeout, defaultTimeout), cmp.Or(p.Retries, defaultRetries), cmp.Or(p.QKey,
		defaultQKey)
	if s.peer.Perftest { // it knows no warm-up that ends by itself
		p.WarmupSteady = false
	}
}

// fillSizes chooses the sizes. Those of UD depend on the path's MTU.
func (s *Settled) fillSizes() {
	p := &s.Spec
	datagram := cmp.Or(s.MTU, verbs.MTU4096).Bytes()
	switch ud := p.Transport == verbs.UD; {
	case p.AllSizes && ud:
		p.Sizes, s.openSizes = PowersOfTwo(2, datagram), true
	case p.AllSizes:
		p.Sizes = AllSizes()
	case len(p.Sizes) > 0:
	case len(p.Mix) > 0:
		largest, _, _ := p.Mix.largest()
		p.Sizes = []int{largest}
	case ud && p.Kind == Bandwidth:
		p.Sizes, s.openSizes = []int{datagram}, true
	default:
		p.Sizes = []int{DefaultBytes(s.Row, p.Kind)}
	}
}

// DefaultBytes is the size of a message where a test is not told; on UD a bandwidth test has the path's MTU.
func DefaultBytes(r Row, k Kind) int {
	switch {
	case r.Counter:
		return counterBytes
	case k == Latency:
		return latencyBytes
	}
	return bandwidthBytes
}

// AllSizes is the ladder of -a.
func AllSizes() []int { return PowersOfTwo(2, AllSizesBytes) }

// fillLength chooses a count or a time: perftest's count where perftest expects it.
func (s *Settled) fillLength() {
	p := &s.Spec
	if p.Iterations != 0 || p.Duration != 0 {
		return
	}
	s.openLength = true
	p.Iterations = DefaultIterations(s.Row, p.Kind)
	largest := s.LargestSize()
	switch {
	case s.peer.Perftest:
	case p.Verify == VerifyAll: // wants a count: no more bytes than the default size has
		const most, least = 5000 << 16, 16
		p.Iterations = max(min(p.Iterations, most/uint64(largest)), least)
	case len(p.Sizes) > 1 && (p.Kind == Bandwidth || largest > 1<<16): // a sweep: the same time for each
		p.Iterations, p.Duration = 0, 500*time.Millisecond
	case p.Kind == Bandwidth && largest > 1<<16:
		p.Iterations, p.Duration = 0, time.Second
	case p.Kind == Bandwidth:
		p.Iterations = max(p.Iterations, 5000)
	case largest <= 1<<16:
		p.Iterations = 10000 // enough for p99.9
	}
	p.Iterations = p.WholeBatches(p.Iterations)
}

// DefaultIterations is how many messages perftest sends where it is not told.
func DefaultIterations(r Row, k Kind) uint64 {
	if k == Bandwidth {
		return r.Iterations
	}
	return latencyIterations
}

// layOut computes the memory of this end.
func (s *Settled) layOut(wrong *Faults) {
	p, lim := &s.Spec, s.limits.Device.Limits
	s.page = max(s.limits.PageBytes, s.peer.PageBytes, 4096)
	s.line = max(s.limits.LineBytes, s.peer.LineBytes, 64)
	s.rxDepth = s.receiveDepth()
	s.Outstanding = 1
	if s.Row.Responded {
		s.Outstanding = max(min(lim.MaxRDAtomic, lim.MaxInitRDAtomic, maxOutstanding), 1)
		for _, n := range []int{p.Outstanding, s.peer.Outstanding} {
			if n > 0 {
				s.Outstanding = min(s.Outstanding, n)
			}
		}
	}
	s.largest = s.LargestSize()
	if p.AllSizes && p.Transport != verbs.UD {
		s.largest = max(s.largest, AllSizesBytes)
	}
	send, recv, lead := s.slots()
	total := sum(product(uint64(p.QPs), sum(send, recv)), lead)
	switch {
	case s.Point != nil && s.Point.Listed(): // one memory for all queue pairs
		total = sum(send, recv)
	case p.MRPerQP:
		total = product(uint64(p.QPs), sum(send, recv, lead))
	}
	if total > mostBytes {
		wrong.Add("the test needs %d bytes of buffers: no memory holds that", total)
		return
	}
	s.Buffers = Buffers{
		qps: p.QPs, shared: s.Point != nil && s.Point.Listed(), perQP: p.MRPerQP, SendBytes: int(send), RecvBytes: int(recv),
		lead: int(lead),
	}
	s.countMemory(total)
	s.rulesOfRoom(wrong.If)
}

// slots are the bytes of a queue pair's two slots, and those before the first receive slot.
func (s *Settled) slots() (send, recv, lead uint64) {
	p := &s.Spec
	if s.Point != nil {
		send, recv = s.layOutPoint()
		s.Queues = s.Point.queuesOf(p.Transport)
		if s.places = s.Point.Window; s.Point.Listed() {
			s.places = 1
		}
		if s.Role == Initiator { // each end has the data of its side
			return send, 0, 0
		}
		return 0, recv, 0
	}
	largest, line := uint64(s.largest), uint64(s.line)
	message := align(largest+verbs.GRHBytes, line)
	slot := max(largest, uint64(s.page))
	s.places = int(max(min(uint64(p.TxDepth), verifyBytes/message/uint64(p.QPs)), 1))
	if p.Verify == VerifyAll {
		s.spread = s.places
		slot = max(slot, uint64(s.spread)*message)
	}
	send, recv = slot, slot
	if p.Transport == verbs.UD {
		lead, recv = line, align(max(largest+verbs.GRHBytes, slot), line)
	}
	_, entries, _ := p.Mix.largest()
	s.Queues = Queues{
		SendWRs: p.TxDepth * len(s.Row.Requests()), RecvWRs: s.rxDepth, SendSGEs: entries, RecvSGEs: 1, Inline: s.inline(),
	}
	return send, recv, lead
}

// inline is how much perftest would send inline; negative means "try, and take less where the device has less".
func (s *Settled) inline() int {
	switch p := &s.Spec; {
	case p.InlineBytes >= 0:
		return p.InlineBytes
	case p.Kind == Bandwidth:
		return 0
	case p.Transport == verbs.UD:
		return -s.Row.InlineUD
	default:
		return -s.Row.Inline
	}
}

// countMemory adds up what is needed.
func (s *Settled) countMemory(buffers uint64) {
	p := &s.Spec
	qps := uint64(p.QPs)
	s.Memory = Memory{Buffers: buffers, Queues: s.Queues.bytes(qps, uint64(p.Threads))}
	messages, receives := s.Rings()
	if s.Point != nil {
		s.Memory.Requests = s.Point.requestBytes(messages, receives)
		if !s.Point.Listed() {
			s.Memory.Requests = product(qps, s.Memory.Requests)
		}
	} else {
		s.Memory.Requests = product(qps,
			sum(product(uint64(messages), ringBytes(len(s.Row.Requests()), uint64(s.Queues.SendSGEs))),
				product(uint64(receives), receiveBytes(1))))
	}
	raw := uint64(job.RawSamples)
	if n := p.Iterations; n > 0 {
		raw = min(raw, product(n, qps))
	}
	recorders := product(8*job.HistogramCounts, uint64(p.Threads))
	if p.Threads > 1 { // the whole's beside those of the threads
		recorders, raw = sum(recorders, 8*job.HistogramCounts), product(2, raw)
	}
	s.Memory.Records = sum(recorders, product(8, raw), product(recordBytes, min(s.RecordCount(), 1<<32)))
}

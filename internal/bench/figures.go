package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sort"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// Samples are a record's samples as the recorder kept them, for renderings that want each one.
func Samples(rec *job.Recorder, ticksPerNs float64, half HalfTrip) report.Samples {
	scale := 1 / ticksPerNs
	if half {
		scale /= 2
	}
	raw := make([]int64, rec.RawLen)
	for i, t := range rec.Raw[:rec.RawLen] {
		raw[i] = int64(t)
	}
	return report.Samples{
		Counts: rec.Counts, Raw: raw, N: rec.N, Min: int64(rec.Min), Max: int64(rec.Max), Sum: rec.Sum, SumSq: rec.SumSq,
		Shift: int64(rec.Shift), Clipped: rec.Clipped, Scale: scale,
	}
}

// HalfTrip tells that a latency is half of what was stamped: send and write, where the peer answers.
type HalfTrip bool

// record makes the record of one measured round from this end's view.
func (r *run) record(rd plan.Round, t *trace, rec *job.Recorder, d disturbance) report.Record {
	p, size := &r.spec, r.spec.Sizes[rd.Size]
	s, row := r.plan.Lane(size, 0), r.plan.Row()
	out := report.Record{
		Operation: string(p.Operation), Kind: string(p.Kind), Transport: p.Transport.String(), Direction: direction(r.plan),
		SizeBytes: uint64(size), QPs: p.QPs, Run: rd.Run, TxDepth: s.Window, CQMod: s.Signal, PostList: s.Batch,
		Events: p.Events, MTU: r.end.mtu.Bytes(), DurationTest: s.Count == 0, RoundTripHalf: r.plan.Answers(),
		Immediate: row.Opcode.HasImmediate(), SRQ: p.SRQ, RateLimitBitsPerS: p.RateBits, GapNs: float64(p.Gap),
	}
	if p.Threads > 1 {
		out.Threads = p.Threads
	}
	if t.threads != nil && (r.plan.Sends() || r.plan.Receives()) { // an end that only serves counts nothing
		out.PerThread = r.shares(t, uint64(size), p.Threads)
		if p.Rails > 1 {
			out.PerRail = r.shares(t, uint64(size), p.Rails)
		}
	}
	if p.Rails > 1 {
		out.Rails = p.Rails
	}
	if row.Responded {
		out.Outstanding = r.plan.Outstanding()
	}
	if row.Counter {
		out.Atomic = "fetch-and-add"
		if row.Opcode == verbs.OpCompareSwap {
			out.Atomic = "compare-and-swap"
		}
	}
	if size <= r.end.inline {
		out.InlineBytes = r.end.inline
	}
	m := t.measured(r.perNs, uint64(size), r.plan.Sends())
	if r.ours && r.plan.Answers() {
		m = t.exchanges(m, rec, r.perNs, uint64(size), p.Gap > 0)
	}
	out.Messages, out.Iterations, out.Bytes, out.Seconds = m.messages, m.messages, m.bytes, m.seconds
	if m.seconds > 0 {
		out.Bandwidth.AverageBitsPerS = float64(m.bytes) * 8 / m.seconds
		out.MessagesPerS = float64(m.messages) / m.seconds
	}
	if rec.PeakTicks > 0 && !p.NoPeak {
		// The runner looks at what was in flight at once; the whole run is a span between two stamps as well.
		best := float64(rec.PeakBytes) * 8 / (float64(rec.PeakTicks) / r.perNs / 1e9)
		out.Bandwidth.PeakBitsPerS = max(best, out.Bandwidth.AverageBitsPerS)
	}
	if rec.N > 0 {
		samples := Samples(rec, r.perNs, HalfTrip(r.plan.Answers()))
		l := report.NewLatency(samples)
		out.Latency = &l
		h, err := report.NewHistogram(samples)
		if err != nil {
			out.Warnings = append(out.Warnings, err.Error())
		}
		out.Histogram = h
	}
	out.Series = t.series.report(r.perNs)
	out.Counters = t.counters
	if p.CPU || p.Events {
		out.CPU = cpuFigures(rec, r.perNs, m.messages, d)
	}
	out.Verified = string(p.Verify)
	out.Warnings = append(out.Warnings, r.conditions(&out, t, d).Warnings()...)
	return out
}

// shares is what each of n did of a round: the threads, or the rails to which they are dealt out.
func (r *run) shares(t *trace, size uint64, n int) []report.Share {
	out, of := make([]report.Share, n), names(r.rails)
	for i := range out {
		m := t.share(i, n).measured(r.perNs, size, r.plan.Sends())
		s := report.Share{CPU: -1, Messages: m.messages, Bytes: m.bytes, Seconds: m.seconds}
		if m.seconds > 0 {
			s.AverageBitsPerS, s.MessagesPerS = float64(m.bytes)*8/m.seconds, float64(m.messages)/m.seconds
		}
		if len(of) > 1 {
			s.Device = of[i%len(of)]
		}
		if r.quiet.pins != nil && n == len(r.quiet.pins) {
			s.CPU = r.quiet.pins[i]
		}
		for q := range r.end.qps {
			if r.end.thread(q)%n == i {
				s.QPs++
			}
		}
		out[i] = s
	}
	return out
}

func (r *run) conditions(rec *report.Record, t *trace, d disturbance) figure.Conditions {
	c := figure.Conditions{Seconds: rec.Seconds, Messages: rec.Messages, Counters: t.counters}
	if info, _ := common(r.rails); info.Software { // it asks for a late acknowledgement within 100 us: a request that comes again is no loss
		c.Counters = maps.Clone(t.counters)
		delete(c.Counters, "duplicate_request")
	}
	d.fill(&c)
	if rec.Kind == string(plan.Latency) {
		c.ClockCostNs = r.clockCostNs
		if rec.Latency != nil {
			c.MedianNs = rec.Latency.P50Ns
		}
	} else {
		c.InFlight = uint64(rec.TxDepth * rec.QPs)
		if rates := rec.Rates(); rates != nil {
			c.SeriesValues = steadyPart(rates.Bytes)
		}
	}
	return c
}

// steadyPart leaves out the first and the last interval, which are not whole.
func steadyPart(v []float64) []float64 {
	if len(v) < 3 {
		return nil
	}
	return v[1 : len(v)-1]
}

func cpuFigures(rec *job.Recorder, perNs float64, messages uint64, d disturbance) *report.CPU {
	per := func(t job.Ticks) float64 {
		if messages == 0 {
			return 0
		}
		return float64(t) / perNs / float64(messages)
	}
	c := &report.CPU{
		PackNsPerMessage: per(rec.PackTicks), UnpackNsPerMessage: per(rec.UnpackTicks), PostNsPerMessage: per(rec.PostTicks),
		PollNsPerMessage: per(rec.PollTicks), ProcessSeconds: d.ProcessCPU.Seconds(),
	}
	if d.Wall > 0 {
		c.SystemUtilization = d.ProcessCPU.Seconds() / d.Wall.Seconds() / float64(runtime.NumCPU())
	}
	return c
}

func direction(p *plan.Settled) string {
	s := p.Spec()
	switch {
	case s.Bidirectional || p.Answers():
		return "both"
	case s.Reversed != (p.Row().Fetches() && !p.Row().Counter):
		return "in"
	default:
		return "out"
	}
}

// endReport is what the ends tell each other after a round, inside [control.Figures].Record.
type endReport struct {
	Record   report.Record `json:"record"`
	Received uint64        `json:"received"`
	Whole    uint64        `json:"whole,omitempty"` // messages compared and found whole
	Corrupt  string        `json:"corrupt,omitempty"`
	// Environment is the end's, now that it is known where and how it measures.
	Environment *report.Environment `json:"environment,omitempty"`
}

func (r *run) figuresOf(rec report.Record, x *outcome) control.Figures {
	f := control.Figures{
		Size: rec.SizeBytes, Iterations: rec.Iterations, PeakBits: rec.Bandwidth.PeakBitsPerS,
		AverageBits: rec.Bandwidth.AverageBitsPerS, MessagesPerS: rec.MessagesPerS,
	}
	env := *r.local()
	env.TicksPerNs, env.PreemptSignal = r.perNs, !r.quiet.blocked
	e := endReport{Record: rec, Received: x.received, Whole: x.whole, Environment: &env}
	if x.corrupt != nil {
		e.Corrupt = x.corrupt.Error()
	}
	if b, err := json.Marshal(e); err == nil {
		f.Record = b
	}
	return f
}

// remoteReport reads the peer's figures; in perftest's dialect only the numbers come.
func (r *run) remoteReport(f control.Figures, local report.Record) (endReport, error) {
	var e endReport
	if len(f.Record) > 0 {
		if err := json.Unmarshal(f.Record, &e); err != nil {
			return e, fmt.Errorf("the peer's record: %w", err)
		}
		if theirs := r.remote(); theirs != nil && e.Environment != nil {
			*theirs = *e.Environment
		}
		return e, nil
	}
	e.Record = local
	e.Record.Latency, e.Record.Histogram, e.Record.Series, e.Record.CPU, e.Record.Counters, e.Record.Warnings = nil, nil, nil, nil, nil, nil
	e.Record.PerThread, e.Record.PerRail = nil, nil
	e.Record.Iterations, e.Record.Messages = f.Iterations, f.Iterations
	e.Record.Bytes = f.Iterations * local.SizeBytes
	e.Record.Bandwidth = report.Bandwidth{AverageBitsPerS: f.AverageBits, PeakBitsPerS: f.PeakBits}
	e.Record.MessagesPerS = f.MessagesPerS
	if f.MessagesPerS > 0 {
		e.Record.Seconds = float64(f.Iterations) / f.MessagesPerS
	}
	return e, nil
}

// merge makes the one record of a round from both ends' views; both ends come to the same.
func (r *run) merge(local, remote report.Record, here, there arrival) report.Record {
	from, to, atFrom, atTo := local, remote, here, there
	if r.plan.Role() == plan.Target {
		from, to, atFrom, atTo = remote, local, there, here
	}
	out := from
	out.PeerCPU, out.PeerCounters, out.PeerThreads, out.PeerRails = to.CPU, to.Counters, to.PerThread, to.PerRail
	for _, w := range to.Warnings {
		out.Warnings = append(out.Warnings, "peer: "+w)
	}
	// A perftest does not tell how much it received: its figures, and ours beside them, are of what was sent.
	lossy := r.ours && r.spec.Transport != verbs.RC && r.spec.Kind == plan.Bandwidth
	counted := r.plan.Row().NeedsReceive()
	if r.spec.Bidirectional {
		a, b := local.Bandwidth, remote.Bandwidth
		out.Local, out.Remote = &a, &b
		out.Messages, out.Bytes = from.Messages+to.Messages, from.Bytes+to.Bytes
		out.Iterations = out.Messages
		out.Seconds = max(from.Seconds, to.Seconds)
		out.Bandwidth = report.Bandwidth{
			AverageBitsPerS: a.AverageBitsPerS + b.AverageBitsPerS, PeakBitsPerS: a.PeakBitsPerS + b.PeakBitsPerS,
		}
		out.MessagesPerS = from.MessagesPerS + to.MessagesPerS
		if lossy && counted {
			deliver(&out, float64(atFrom.received+atTo.received)/float64(max(out.Messages, 1)))
		} else if lossy {
			r.deliverUncounted(&out, atFrom.whole+atTo.whole)
		}
		return out
	}
	if lossy && !counted {
		r.deliverUncounted(&out, atFrom.whole+atTo.whole)
	}
	if lossy && counted && to.Messages+from.Messages > 0 && from.Messages > 0 {
		share := min(float64(atTo.received)/float64(from.Messages), 1)
		out.Delivered = &share
		out.Bandwidth, out.MessagesPerS = report.Bandwidth{}, 0
		// A receiver that was off the processor finds many at once: nothing arrives faster than it was sent.
		out.Bytes, out.Messages, out.Seconds = to.Bytes, to.Messages, max(to.Seconds, from.Seconds)
		if out.Seconds > 0 {
			out.Bandwidth.AverageBitsPerS = float64(out.Bytes) * 8 / out.Seconds
			out.MessagesPerS = float64(out.Messages) / out.Seconds
		}
		if to.Series != nil {
			out.Series = to.Series
		}
	}
	return out
}

// deliver makes the figures of what left those of the share that arrived.
func deliver(out *report.Record, share float64) {
	share = min(share, 1)
	out.Delivered = &share
	out.Bandwidth = report.Bandwidth{AverageBitsPerS: out.Bandwidth.AverageBitsPerS * share}
	out.MessagesPerS *= share
}

// deliverUncounted makes the figures of a WRITE that may be lost, of which no completion tells at the peer: where every
// message was compared, by those found whole; else nobody knows what arrived, and there are none.
func (r *run) deliverUncounted(out *report.Record, whole uint64) {
	if r.spec.Verify == plan.VerifyAll {
		deliver(out, float64(whole)/float64(max(out.Messages, 1)))
		return
	}
	if r.plan.Point() != nil { // a grid compares what the initiator's requests take
		out.Warnings = append(out.Warnings, "this is what left: nobody counts what of a WRITE arrives over "+r.spec.Transport.String())
		return
	}
	out.Bandwidth, out.MessagesPerS, out.Latency, out.Histogram = report.Bandwidth{}, 0, nil, nil
	out.Local, out.Remote, out.PerThread, out.PerRail = nil, nil, nil, nil
	out.Warnings = append(out.Warnings, fmt.Sprintf("no bandwidth: %v does not tell what of a WRITE arrived; --verify=all counts it, and so do the receives of --write-imm",
		r.spec.Transport))
}

// arrival is what an end knows of what arrived there.
type arrival struct {
	received uint64 // completions of receives
	whole    uint64 // messages compared and found whole
}

func (e *endReport) arrival() arrival { return arrival{e.Received, e.Whole} }

// exchanges is the amount of a ping-pong between ends of ours: its samples lie end to end, unless a gap is kept between them.
func (t *trace) exchanges(m amount, rec *job.Recorder, perNs float64, size uint64, gap bool) amount {
	if t.from != nil || rec.N == 0 {
		return m
	}
	m.messages, m.bytes = rec.N, rec.N*size
	if !gap {
		m.seconds = rec.Sum / perNs / 1e9
	}
	return m
}

// dropFirst takes the first sample out of a recorder that has more.
func dropFirst(rec *job.Recorder) {
	if rec.N < 2 || rec.RawLen == 0 {
		return
	}
	first := rec.Raw[0]
	place := min(max(first, 0), job.HistogramHighest)
	if first > job.HistogramHighest {
		rec.Clipped--
	}
	rec.Counts[job.HistogramIndex(uint64(place))]--
	copy(rec.Raw, rec.Raw[1:rec.RawLen])
	rec.RawLen--
	rec.N--
	if rec.RawLen == rec.N {
		rec.Min, rec.Max, rec.Shift, rec.Sum, rec.SumSq = rec.Raw[0], rec.Raw[0], rec.Raw[0], 0, 0
		for _, t := range rec.Raw[:rec.RawLen] {
			rec.Min, rec.Max = min(rec.Min, t), max(rec.Max, t)
			d := float64(t - rec.Shift)
			rec.Sum += float64(t)
			rec.SumSq += d * d
		}
		return
	}
	rec.Sum -= float64(first) // and nothing of SumSq: the first sample is the shift
	if first < rec.Max {
		return
	}
	for i, n := range slices.Backward(rec.Counts) {
		if n > 0 { // the largest value that is counted there
			beyond := sort.Search(job.HistogramHighest, func(v int) bool { return job.HistogramIndex(uint64(v)) > i })
			rec.Max = job.Ticks(beyond - 1)
			return
		}
	}
}

// series is bytes and messages per interval in constant memory: when it is full, neighbours join.
type series struct {
	interval job.Ticks
	start    job.Ticks
	bytes    []float64
	messages []float64
}

const seriesLength = 1024

func newSeries(interval job.Ticks) series {
	return series{interval: max(interval, 1), bytes: make([]float64, 0, seriesLength), messages: make([]float64, 0, seriesLength)}
}

func (s *series) add(now job.Ticks, bytes, messages float64) {
	if s.start == 0 {
		s.start = now
	}
	i := int((now - s.start) / s.interval)
	for i >= seriesLength {
		s.fold()
		i = int((now - s.start) / s.interval)
	}
	for len(s.bytes) <= i {
		s.bytes, s.messages = append(s.bytes, 0), append(s.messages, 0)
	}
	s.bytes[i] += bytes
	s.messages[i] += messages
}

func (s *series) fold() {
	n := (len(s.bytes) + 1) / 2
	for i := range n {
		b, m := s.bytes[2*i], s.messages[2*i]
		if 2*i+1 < len(s.bytes) {
			b, m = b+s.bytes[2*i+1], m+s.messages[2*i+1]
		}
		s.bytes[i], s.messages[i] = b, m
	}
	s.bytes, s.messages = s.bytes[:n], s.messages[:n]
	s.interval *= 2
}

func (s *series) report(perNs float64) *report.Series {
	if len(s.bytes) == 0 {
		return nil
	}
	return &report.Series{IntervalS: float64(s.interval) / perNs / 1e9, Bytes: s.bytes, Messages: s.messages}
}

// amount is what was moved in the measured interval.
type amount struct {
	messages, bytes uint64
	seconds         float64
}

// trace is what the driving of one round saw.
type trace struct {
	last       job.Progress
	threads    []job.Progress // of each thread, where there are several
	from, to   *mark          // ends of the sampling window of a duration test with margins
	firstIn    job.Ticks      // just before the first receive was seen
	firstStep  job.Ticks      // ping-pong with a perftest peer: when the first exchange was seen to be over
	skipped    uint64         // messages complete by then
	lastChange job.Ticks
	series     series
	counters   map[string]int64
}

type mark struct {
	at      job.Ticks
	p       job.Progress
	threads []job.Progress
}

// share is the trace of every n-th thread from number i on.
func (t *trace) share(i, n int) *trace {
	add := func(threads []job.Progress) job.Progress {
		all := threads[i]
		for k := i + n; k < len(threads); k += n {
			all.Add(threads[k])
		}
		return all
	}
	of := func(m *mark) *mark {
		if m == nil {
			return nil
		}
		return &mark{at: m.at, p: add(m.threads)}
	}
	return &trace{last: add(t.threads), from: of(t.from), to: of(t.to), firstIn: t.firstIn}
}

// measured is the round's amount: what was sent, or at an end that does not send, what was received.
func (t *trace) measured(perNs float64, size uint64, sending bool) amount {
	seconds := func(d job.Ticks) float64 { return float64(d) / perNs / 1e9 }
	count := func(p job.Progress) uint64 {
		if sending {
			return p.Completed
		}
		return p.Received
	}
	if t.from != nil && t.to != nil {
		n := count(t.to.p) - count(t.from.p)
		return amount{messages: n, bytes: n * size, seconds: seconds(t.to.at - t.from.at)}
	}
	n := count(t.last)
	begin := t.last.FirstPost
	if !sending {
		begin = t.firstIn
	}
	if t.firstStep > 0 && n > t.skipped {
		begin, n = t.firstStep, n-t.skipped
	}
	if n == 0 || begin == 0 || t.last.LastDone <= begin {
		return amount{messages: n, bytes: n * size}
	}
	return amount{messages: n, bytes: n * size, seconds: seconds(t.last.LastDone - begin)}
}

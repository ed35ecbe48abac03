package bench

import (
	"maps"
	"math"
	"runtime"

	"github.com/gobw/gobw/internal/bench/drive"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// samples are the recorder's, for renderings that want each one, in the time of the clock that they are of.
func (r *run) samples(rec *job.Recorder, clock *report.Clock) report.Samples {
	scale := 1 / float64(r.perNs)
	if clock != nil {
		scale = 1e9 / clock.Hz
	}
	if r.plan.Answers() { // half of what was stamped
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

// record makes the record of one measured round from this end's view.
func (r *run) record(rd plan.Round, x *outcome, rec *job.Recorder, clock *report.Clock) report.Record {
	t := &x.trace
	p, size := &r.spec, r.spec.Sizes[rd.Size]
	lane := r.plan.Lane(size, 0)
	out := report.Record{
		Plan: r.recordedPlan(size, lane), Run: rd.Run + r.o.After, DurationTest: lane.Count == 0, Clock: clock,
	}
	if t.Threads != nil && (r.plan.Sends() || r.plan.Receives()) { // an end that only serves counts nothing
		out.PerThread = r.shares(t)
	}
	m := t.Measured(r.perNs, r.plan.Sends())
	if r.plan.Ours() && r.plan.Answers() {
		m = t.Exchanges(m, rec, r.perNs, uint64(size), p.Gap > 0)
	}
	out.Messages, out.Iterations, out.Bytes, out.Seconds = m.Messages, m.Messages, m.Bytes, m.Seconds
	setRates(&out)
	if rec.PeakTicks > 0 && !p.NoPeak {
		// The runner looks at what was in flight at once; the whole run is a span between two stamps as well.
		best := float64(rec.PeakBytes) * 8 / r.perNs.Seconds(rec.PeakTicks)
		out.Bandwidth.PeakBitsPerS = max(best, out.Bandwidth.AverageBitsPerS)
	}
	if rec.N > 0 {
		samples := r.samples(rec, clock)
		out.Latency = new(report.NewLatency(samples))
		h, err := report.NewHistogram(samples)
		if err != nil {
			out.Warnings = append(out.Warnings, err.Error())
		}
		out.Histogram = h
	}
	out.Series = t.Series.Report(r.perNs)
	out.Counters = t.Counters
	if p.CPU || p.Events {
		out.CPU = cpuFigures(rec, r.perNs, m.Messages, x.hurt)
	}
	out.Warnings = append(out.Warnings, r.conditions(&out, x).Warnings()...)
	return out
}

// recordedPlan is the settled plan as a record holds it: what both call by the same name, and what
// follows from the operation and the ends.
func (r *run) recordedPlan(size int, lane plan.Lane) report.Plan {
	p, row := &r.spec, r.plan.Row
	out, err := report.NewPlan(p, lane)
	if err != nil {
		panic(err) // two of our own types disagree
	}
	out.Direction, out.SizeBytes, out.MTU = direction(r.plan), uint64(math.Round(p.MeanBytes(size))), r.end.MTU.Bytes()
	out.CPUTime = p.CPU
	out.Immediate, out.RoundTripHalf, out.Verified, out.RateLimitBitsPerS = row.Opcode.HasImmediate(), r.plan.Answers(),
		string(p.Verify), p.RateBits
	if out.Threads == 1 {
		out.Threads = 0
	}
	if out.Rails == 1 {
		out.Rails = 0
	}
	if out.Outstanding = 0; row.Responded {
		out.Outstanding = r.plan.Outstanding
	}
	if row.Counter {
		out.Atomic = "fetch-and-add"
		if row.Opcode == verbs.OpCompareSwap {
			out.Atomic = "compare-and-swap"
		}
	}
	if size <= r.end.Inline {
		out.InlineBytes = r.end.Inline
	}
	return out
}

// shares is what each thread did of a round.
func (r *run) shares(t *drive.Trace) []report.Share {
	out, of := make([]report.Share, r.spec.Threads), r.rails.Names()
	for i := range out {
		m := t.Share(i).Measured(r.perNs, r.plan.Sends())
		s := report.Share{CPU: -1, Messages: m.Messages, Bytes: m.Bytes, Seconds: m.Seconds}
		if m.Seconds > 0 {
			s.AverageBitsPerS, s.MessagesPerS = float64(m.Bytes)*8/m.Seconds, float64(m.Messages)/m.Seconds
		}
		if len(of) > 1 {
			s.Device = of[i%len(of)]
		}
		if r.quiet.Pins != nil {
			s.CPU = r.quiet.Pins[i]
		}
		for q := range r.spec.QPs {
			if q%r.spec.Threads == i {
				s.QPs++
			}
		}
		out[i] = s
	}
	return out
}

func (r *run) conditions(rec *report.Record, x *outcome) figure.Conditions {
	c := figure.Conditions{
		Seconds: rec.Seconds, Messages: rec.Messages, Count: r.plan.CountGiven(), Counters: x.trace.Counters,
		Disturbance: x.hurt, ClockDrift: x.drift,
	}
	// it asks for a late acknowledgement within 100 us: a request that comes again is no loss
	if info, _ := r.rails.Common(); info.Software {
		c.Counters = maps.Clone(c.Counters)
		delete(c.Counters, "duplicate_request")
	}
	c.Realtime = r.result.Here.Priority == "realtime"
	if rec.Kind == string(plan.Latency) {
		c.ClockCostNs = r.result.Here.ClockCostNs
		if rec.Latency != nil {
			c.MedianNs = rec.Latency.P50Ns
		}
	} else {
		if r.plan.Sends() {
			c.AskedBits, c.ReachedBits = rec.RateLimitBitsPerS, rec.Bandwidth.AverageBitsPerS
		}
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

func cpuFigures(rec *job.Recorder, perNs tick.Rate, messages uint64, d figure.Disturbance) *report.CPU {
	per := func(t job.Ticks) float64 {
		if messages == 0 {
			return 0
		}
		return perNs.Seconds(t) * 1e9 / float64(messages)
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
	s := p.Spec
	switch {
	case s.Bidirectional || p.Answers():
		return "both"
	case s.Reversed != (p.Row.Fetches() && !p.Row.Counter):
		return "in"
	default:
		return "out"
	}
}

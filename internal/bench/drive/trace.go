package drive

import (
	"cmp"

	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// Trace is what the driving of one round saw.
type Trace struct {
	Last       job.Progress
	Threads    []job.Progress // of each thread, where there are several
	From, To   *mark          // ends of the sampling window of a duration test with margins
	firstStep  job.Ticks      // ping-pong with a perftest peer: when the first exchange was seen to be over
	skipped    uint64         // messages complete by then
	lastChange job.Ticks
	Series     Series
	Counters   map[string]int64
	// Recorder holds the samples and ticks of the measured interval. It is the job's own recorder until a sampling window
	// closes, and then a copy that later messages do not change.
	Recorder *job.Recorder
}

type mark struct {
	at      job.Ticks
	p       job.Progress
	threads []job.Progress
}

// Share is the trace of thread i.
func (t *Trace) Share(i int) *Trace {
	of := func(m *mark) *mark {
		if m == nil {
			return nil
		}
		return &mark{at: m.at, p: m.threads[i]}
	}
	return &Trace{Last: t.Threads[i], From: of(t.From), To: of(t.To)}
}

// Amount is what was moved in the measured interval.
type Amount struct {
	Messages, Bytes uint64
	Seconds         float64
}

// Measured is the round's amount: what was sent, or at an end that does not send, what was received.
func (t *Trace) Measured(perNs tick.Rate, sending bool) Amount {
	moved := func(p job.Progress) Amount {
		if sending {
			return Amount{Messages: p.Completed, Bytes: p.BytesOut}
		}
		return Amount{Messages: p.Received, Bytes: p.BytesIn}
	}
	if t.From != nil && t.To != nil {
		from, to := moved(t.From.p), moved(t.To.p)
		return Amount{
			Messages: to.Messages - from.Messages, Bytes: to.Bytes - from.Bytes, Seconds: perNs.Seconds(t.To.at - t.From.at),
		}
	}
	m := moved(t.Last)
	begin := t.Last.FirstPost
	if !sending {
		begin = t.Last.FirstIn
	}
	if n := m.Messages; t.firstStep > 0 && n > t.skipped { // messages of a ping-pong are all of one size
		begin, m.Messages, m.Bytes = t.firstStep, n-t.skipped, m.Bytes/n*(n-t.skipped)
	}
	if m.Messages > 0 && begin > 0 && t.Last.LastDone > begin {
		m.Seconds = perNs.Seconds(t.Last.LastDone - begin)
	}
	return m
}

// PerSecond is how fast an amount grew in the sampling window, from completion to completion; where the window saw
// nothing, over the whole job since it began.
func (t *Trace) PerSecond(perNs tick.Rate, began job.Ticks, amount func(job.Progress) uint64) float64 {
	from, to := job.Progress{LastDone: began}, t.Last
	if t.From != nil && t.To != nil && t.From.p.LastDone > 0 && amount(t.To.p) > amount(t.From.p) {
		from, to = t.From.p, t.To.p
	}
	if from.LastDone == 0 || to.LastDone <= from.LastDone {
		return 0
	}
	return float64(amount(to)-amount(from)) / perNs.Seconds(to.LastDone-from.LastDone)
}

// Exchanges is the amount of a ping-pong between ends of ours: its samples lie end to
// end, unless a gap is kept between them.
func (t *Trace) Exchanges(m Amount, rec *job.Recorder, perNs tick.Rate, size uint64, gap bool) Amount {
	if rec.N == 0 {
		return m
	}
	m.Messages, m.Bytes = rec.N, rec.N*size // exact, where one completion tells of many messages
	switch {
	case t.From != nil: // m.Seconds is the sampling window's
	case !rec.Clock.IsZero():
		m.Seconds = perNs.Seconds(rec.Elapsed)
	case !gap:
		m.Seconds = rec.Sum / float64(perNs) / 1e9
	}
	return m
}

// Join adds the trace of a part to that of a round.
func (t *Trace) Join(p *Trace, first bool) {
	if first {
		*t = *p
		return
	}
	t.Last = follow(t.Last, p.Last)
	for i := range t.Threads {
		t.Threads[i] = follow(t.Threads[i], p.Threads[i])
	}
	t.Counters = addChanges(t.Counters, p.Counters)
}

// follow adds the progress of a part to that of all parts before it. The work between parts is not measured: LastDone
// moves on by the time that the part took, and not to its end.
func follow(all, p job.Progress) job.Progress {
	begin, end := cmp.Or(p.FirstPost, p.FirstIn), all.LastDone
	all.Add(p)
	all.LastDone = end + p.LastDone - begin
	return all
}

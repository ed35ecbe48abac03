package bench

import (
	"github.com/gobw/gobw/verbs/job"
)

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
	best       bestSpan
	counters   map[string]int64
}

// bestSpan finds the highest rate of any span of a round, from completion to completion, of at least so many messages. Other
// work on the machine lowers the rate of a round; a span in which both ends had their processors shows what the way itself can do.
type bestSpan struct {
	least    uint64 // messages; 0: no spans are looked at
	from     job.Progress
	messages uint64
	ticks    job.Ticks
}

func (s *bestSpan) add(p job.Progress) {
	if s.least == 0 || p.Completed == 0 {
		return
	}
	if s.from.Completed == 0 { // what came before the first slice's end is the filling of the window
		s.from = p
		return
	}
	n, ticks := p.Completed-s.from.Completed, p.LastDone-s.from.LastDone
	if n < s.least || ticks <= 0 {
		return
	}
	if s.ticks == 0 || float64(n)*float64(s.ticks) > float64(s.messages)*float64(ticks) {
		s.messages, s.ticks = n, ticks
	}
	s.from = p
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

// amount is what was moved in the measured interval.
type amount struct {
	messages, bytes uint64
	seconds         float64
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

// exchanges is the amount of a ping-pong between ends of ours: its samples lie end to end, unless a gap is kept between them.
func (t *trace) exchanges(m amount, rec *job.Recorder, perNs float64, size uint64, gap bool) amount {
	if t.from != nil || rec.N == 0 {
		return m
	}
	m.messages, m.bytes = rec.N, rec.N*size
	switch {
	case !rec.Clock.IsZero():
		m.seconds = float64(rec.Elapsed) / perNs / 1e9
	case !gap:
		m.seconds = rec.Sum / perNs / 1e9
	}
	return m
}

package drive

import (
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// Series is bytes and messages per interval in constant memory: when it is full, neighbours join.
type Series struct {
	interval job.Ticks
	start    job.Ticks
	sums     report.Series
}

const seriesLength = 1024

func newSeries(interval job.Ticks) Series {
	sums := report.Series{Bytes: make([]float64, 0, seriesLength), Messages: make([]float64, 0, seriesLength)}
	return Series{interval: max(interval, 1), sums: sums}
}

func (s *Series) add(now job.Ticks, bytes, messages float64) {
	if s.start == 0 {
		s.start = now
	}
	for (now-s.start)/s.interval >= seriesLength {
		s.sums.Bytes, s.sums.Messages = report.Folded(s.sums.Bytes), report.Folded(s.sums.Messages)
		s.interval *= 2
	}
	i := int((now - s.start) / s.interval)
	for len(s.sums.Bytes) <= i {
		s.sums.Bytes, s.sums.Messages = append(s.sums.Bytes, 0), append(s.sums.Messages, 0)
	}
	s.sums.Bytes[i] += bytes
	s.sums.Messages[i] += messages
}

// Report is the series as a result holds it.
func (s *Series) Report(perNs tick.Rate) *report.Series {
	if len(s.sums.Bytes) == 0 {
		return nil
	}
	s.sums.IntervalS = perNs.Seconds(s.interval)
	return &s.sums
}

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
	bytes    []float64
	messages []float64
}

const seriesLength = 1024

func newSeries(interval job.Ticks) Series {
	return Series{interval: max(interval, 1), bytes: make([]float64, 0, seriesLength), messages: make([]float64, 0, seriesLength)}
}

func (s *Series) add(now job.Ticks, bytes, messages float64) {
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

func (s *Series) fold() {
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

// Report is the series as a result holds it.
func (s *Series) Report(perNs tick.Rate) *report.Series {
	if len(s.bytes) == 0 {
		return nil
	}
	return &report.Series{IntervalS: perNs.Seconds(s.interval), Bytes: s.bytes, Messages: s.messages}
}

package drive

import (
	"testing"

	"github.com/gobw/gobw/verbs/job"
)

func TestSeriesFolds(t *testing.T) {
	s := newSeries(10)
	for i := range 5000 {
		s.add(job.Ticks(1+i*10), 2, 1)
	}
	if len(s.bytes) > seriesLength {
		t.Errorf("%d intervals, want at most %d", len(s.bytes), seriesLength)
	}
	var bytes, messages float64
	for i := range s.bytes {
		bytes += s.bytes[i]
		messages += s.messages[i]
	}
	if bytes != 10000 || messages != 5000 {
		t.Errorf("sums %v bytes, %v messages; want 10000, 5000", bytes, messages)
	}
}

// TestBestSpan: a span of too few messages does not count, one in which the processor was away is not the best, and what
// filled the window belongs to none.
func TestBestSpan(t *testing.T) {
	s := BestSpan{least: 16}
	at, done := job.Ticks(1000), uint64(0)
	slice := func(n uint64, each job.Ticks) {
		done, at = done+n, at+job.Ticks(n)*each
		s.add(job.Progress{Completed: done, LastDone: at})
	}
	slice(4, 1) // at once: the window was empty
	slice(15, 5)
	slice(20, 20)
	if s.Messages != 35 || s.Ticks != 15*5+20*20 {
		t.Errorf("best %d messages in %d, want 35 in 475: 15 are too few for a span", s.Messages, s.Ticks)
	}
	slice(20, 10)
	slice(20, 1000)
	slice(16, 11)
	s.add(job.Progress{Completed: done, LastDone: at})
	if s.Messages != 20 || s.Ticks != 200 {
		t.Errorf("best %d messages in %d, want 20 in 200", s.Messages, s.Ticks)
	}
	none := BestSpan{}
	none.add(job.Progress{Completed: 100, LastDone: 1})
	none.add(job.Progress{Completed: 200, LastDone: 2})
	if none.Ticks != 0 {
		t.Error("a span where none was asked for")
	}
}

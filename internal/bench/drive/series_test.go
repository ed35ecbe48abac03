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
	if len(s.sums.Bytes) > seriesLength {
		t.Errorf("%d intervals, want at most %d", len(s.sums.Bytes), seriesLength)
	}
	var bytes, messages float64
	for i := range s.sums.Bytes {
		bytes += s.sums.Bytes[i]
		messages += s.sums.Messages[i]
	}
	if bytes != 10000 || messages != 5000 {
		t.Errorf("sums %v bytes, %v messages; want 10000, 5000", bytes, messages)
	}
}

package figure

import (
	"testing"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/stats"
)

// TestScaling: the knee is where the gain ends, for each size apart; where there are too few runs to show one, it is the
// first step.
func TestScaling(t *testing.T) {
	var records []report.Record
	add := func(size uint64, threads, runs int, rate float64) {
		for run := range runs {
			records = append(records, report.Record{SizeBytes: size, Threads: threads, Run: run + 1, MessagesPerS: rate * (1 + 0.001*float64(run))})
		}
	}
	for threads, rate := range map[int]float64{0: 10, 2: 19, 4: 37, 8: 37.1} {
		add(2, threads, 9, rate)
	}
	for threads, rate := range map[int]float64{0: 10, 2: 9, 4: 20} {
		add(64, threads, 9, rate)
	}
	add(128, 0, 1, 10)
	add(128, 2, 1, 20)
	add(256, 0, 9, 10)
	knees := map[uint64]int{}
	words := map[uint64][]stats.Word{}
	for _, s := range Scaling(records) {
		if s.Knee {
			if knees[s.SizeBytes] != 0 {
				t.Errorf("%d bytes have two knees", s.SizeBytes)
			}
			knees[s.SizeBytes] = s.Threads
		}
		if s.Verdict != nil {
			words[s.SizeBytes] = append(words[s.SizeBytes], s.Verdict.Word)
		}
	}
	for size, want := range map[uint64]int{2: 4, 64: 1, 128: 1, 256: 1} {
		if knees[size] != want {
			t.Errorf("%d bytes: the knee is at %d threads, want %d (%v)", size, knees[size], want, words[size])
		}
	}
	if w := words[2]; len(w) != 3 || w[2] != stats.Same {
		t.Errorf("2 bytes: %v, want better, better, same", w)
	}
	if w := words[128]; len(w) != 1 || w[0] != stats.CannotTell {
		t.Errorf("one run a step: %v", w)
	}
}

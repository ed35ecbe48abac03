package drive

import (
	"testing"

	"github.com/gobw/gobw/verbs/job"
)

func TestSteadiness(t *testing.T) {
	s := steadiness{window: 10}
	now := job.Ticks(100)
	feed := func(rate float64, windows int) {
		for range windows {
			now += 10
			s.add(now, rate)
		}
	}
	feed(100, 2)
	if s.steady() {
		t.Error("steady after one window")
	}
	feed(200, 2)
	if s.steady() {
		t.Error("steady while the rate doubles")
	}
	feed(205, 3)
	if !s.steady() {
		t.Error("not steady after three like windows")
	}
}

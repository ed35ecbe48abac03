package figure

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestConditions(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    Conditions
		want string // the words before the colons
	}{
		{
			"quiet",
			Conditions{Seconds: 1, Messages: 1e6, InFlight: 128, RunValues: []float64{10, 10.1, 9.9, 10, 10.2, 9.8}},
			"",
		},
		{"short", Conditions{Seconds: 0.004}, "short"},
		{"few windows", Conditions{Seconds: 1, Messages: 1000, InFlight: 128}, "short"},
		{"behind", Conditions{Seconds: 1, AskedBits: 1e9, ReachedBits: 0.9e9}, "behind"},
		{"pace kept", Conditions{Seconds: 1, AskedBits: 1e9, ReachedBits: 0.99e9}, ""},
		{"noisy", Conditions{Seconds: 1, RunValues: []float64{10, 15, 9, 12, 20, 8}}, "noisy"},
		{"noisy, few", Conditions{RunValues: []float64{10, 15}}, "noisy"},
		{"dip", Conditions{SeriesValues: []float64{10, 2, 10, 2, 10, 2, 10, 2, 10}}, "noisy"},
		{"rises by 46 %", Conditions{SeriesValues: []float64{100, 105, 110, 117, 123, 130, 138, 146, 146}}, "noisy"},
		{"falls by 20 %", Conditions{SeriesValues: []float64{100, 97, 95, 92, 90, 87, 85, 82, 80}}, "noisy"},
		{"rises by 5 %", Conditions{SeriesValues: []float64{100, 101, 101.5, 102, 102.5, 103, 104, 104.5, 105}}, ""},
		{"goes up and down", Conditions{SeriesValues: []float64{100, 112, 101, 110, 99, 111, 102, 108, 112}}, ""},
		{"steal", Conditions{Disturbance: Disturbance{Wall: time.Second, Steal: 50 * time.Millisecond}}, "disturbed"},
		{"waiting", Conditions{Disturbance: Disturbance{Wall: time.Second, Waited: 50 * time.Millisecond}}, "disturbed"},
		{
			"waiting, realtime",
			Conditions{Disturbance: Disturbance{Wall: time.Second, Waited: 40 * time.Millisecond}, Realtime: true},
			"disturbed",
		},
		{
			"waiting, long and unsteady", Conditions{
				Disturbance: Disturbance{Wall: 2 * time.Second, Waited: 200 * time.Millisecond}, Seconds: 2,
				SeriesValues: []float64{10, 2, 10, 2, 10, 2, 10, 2, 10},
			}, "noisy disturbed",
		},
		{
			"waiting for the other end alone",
			Conditions{
				Disturbance: Disturbance{Wall: time.Second, Waited: 80 * time.Millisecond, Shared: 75 * time.Millisecond},
			},
			"",
		},
		{
			"one CPU for both ends",
			Conditions{
				Disturbance: Disturbance{Wall: time.Second, Waited: 500 * time.Millisecond, Shared: 490 * time.Millisecond},
			},
			"disturbed",
		},
		{
			"one CPU for both ends and others",
			Conditions{
				Disturbance: Disturbance{Wall: time.Second, Waited: 500 * time.Millisecond, Shared: 300 * time.Millisecond},
			},
			"disturbed disturbed",
		},
		{"housekeeping", Conditions{Disturbance: Disturbance{Wall: time.Second, Waited: 5 * time.Millisecond}}, ""},
		{"hot", Conditions{Disturbance: Disturbance{Throttles: 1}}, "disturbed"},
		{"quota", Conditions{Disturbance: Disturbance{Stopped: 200 * time.Millisecond, Stops: 3}}, "disturbed"},
		{
			"a quota is no other program", Conditions{
				Disturbance: Disturbance{
					Wall: time.Second, Waited: 500 * time.Millisecond, Stopped: 490 * time.Millisecond, Stops: 9,
				},
			}, "disturbed",
		},
		{"clock", Conditions{ClockCostNs: 20, MedianNs: 100}, "short"},
		{"counters", Conditions{Counters: map[string]int64{"retransmits": 4, "np_cnp_sent": 0, "sent_pkts": 9}}, "noisy"},
		{"few slow windows", Conditions{Seconds: 1, Messages: 309, InFlight: 128}, "short"},
		{"short, counted", Conditions{Seconds: 0.004, Messages: 2000, InFlight: 128, Count: 2000}, "short"},
		{
			"long, counted, waiting", Conditions{
				Disturbance: Disturbance{Wall: 2 * time.Second, Waited: 200 * time.Millisecond}, Seconds: 2, Count: 2000,
			}, "disturbed",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var words []string
			for _, w := range tt.c.Warnings() {
				word, _, _ := strings.Cut(w, ":")
				words = append(words, word)
				if slow := tt.c.Messages == 309; slow &&
					!strings.HasSuffix(w, "short: 309 messages; a test needs 1280 (10 x messages in flight); try -D 9") {
					t.Errorf("%q", w)
				}
				replaced := strings.Contains(w, "try -D 500ms --runs 21 without -n, and ")
				if tt.c.Count > 0 && !strings.HasSuffix(w, "; try -n 10000") && !replaced {
					t.Errorf("%q: -D cannot be added to -n", w)
				}
				if tt.c.Waited > 0 &&
					(strings.Contains(w, "-D 10") || tt.c.Seconds > 1 && strings.Contains(w, "chrt") &&
						!strings.Contains(w, "-D 500ms")) {
					t.Errorf("%q: with realtime priority a run of this length is disturbed", w)
				}
				if tt.c.Realtime && strings.Contains(w, "chrt") {
					t.Errorf("%q: that is in force", w)
				}
			}
			if got := strings.Join(words, " "); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// A thread that a quota stops waits for its CPU: the quota is to blame, and nobody else.
func TestQuotaIsNotOtherPrograms(t *testing.T) {
	c := Conditions{
		Disturbance: Disturbance{
			Wall: 2 * time.Second, Waited: 1490 * time.Millisecond, Stops: 25, Stopped: 1485 * time.Millisecond,
		},
	}
	want := []string{
		"disturbed: the CPU quota of this process's control group ran out 25 times, for 1485 ms (74 % of the time); " +
			"raise the quota",
	}
	if got := c.Warnings(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	c.Waited = 1900 * time.Millisecond
	if got := c.Warnings(); len(got) != 2 || !strings.Contains(got[1], "other programs took 21 %") {
		t.Errorf("a quota and other programs: %q", got)
	}
}

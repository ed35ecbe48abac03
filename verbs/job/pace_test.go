package job

import "testing"

// TestPaceMakesUp has messages that are due every 100 ticks begin late.
func TestPaceMakesUp(t *testing.T) {
	for _, tt := range []struct {
		name   string
		job    Job
		begins []Ticks // of messages
		want   []Ticks // when the next is due
	}{
		{"in time", Job{Pace: 100}, []Ticks{1000, 1100, 1200}, []Ticks{1100, 1200, 1300}},
		{"a little late", Job{Pace: 100, MakeUp: 400}, []Ticks{1000, 1150, 1210}, []Ticks{1100, 1200, 1300}},
		{"later than is made up for", Job{Pace: 100, MakeUp: 400}, []Ticks{1000, 2000, 2001}, []Ticks{1100, 1700, 1800}},
		{"late and nothing is made up for", Job{Pace: 100}, []Ticks{1000, 1150, 1260}, []Ticks{1100, 1250, 1360}},
		{
			"bursts of two",
			Job{Pace: 100, MakeUp: 400, Burst: 2},
			[]Ticks{1000, 1001, 1250, 1251},
			[]Ticks{1000, 1200, 1200, 1400},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := lane{}
			for i, begin := range tt.begins {
				l.pace(begin, 1, &tt.job)
				l.posted++
				if l.nextPost != tt.want[i] {
					t.Errorf("after message %d, which began at %d, the next is due at %d, want %d", i, begin, l.nextPost, tt.want[i])
				}
			}
		})
	}
}

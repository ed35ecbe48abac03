package drive

import (
	"testing"

	"github.com/gobw/gobw/verbs/job"
)

// counting is a device of which only the counters count.
type counting struct {
	Devices
	counters map[string]uint64
}

func (c *counting) Counters() map[string]uint64 { return c.counters }

func TestStalled(t *testing.T) {
	const limit = 100
	for _, tt := range []struct {
		name          string
		packets, naks func(now job.Ticks) uint64
		change        func(now job.Ticks) job.Ticks // the last message at that time
		asleep        [2]job.Ticks                  // from when to when nobody looks
		want          job.Ticks                     // when it is given up
	}{
		{name: "nothing moves", want: limit + 2},
		{
			name: "messages move until 250", change: func(now job.Ticks) job.Ticks { return min(now, 250) },
			want: 250 + limit + 2,
		},
		{
			name: "packets move until 320", packets: func(now job.Ticks) uint64 { return uint64(min(now, 320)) },
			want: 320 + limit/2 + 1,
		},
		{name: "this end sleeps beyond the limit", asleep: [2]job.Ticks{20, 700}, want: 700 + limit/2 + 1},
		{
			name: "this end sleeps, and the messages come", asleep: [2]job.Ticks{20, 700},
			change: func(now job.Ticks) job.Ticks {
				if now > 700 {
					return 701
				}
				return 0
			}, want: 701 + limit + 2,
		},
		{
			name: "packets ask for receives", packets: func(now job.Ticks) uint64 { return uint64(now) },
			naks: func(now job.Ticks) uint64 { return uint64(now) }, want: limit + 2,
		},
		{
			name: "somebody else's packets", packets: func(now job.Ticks) uint64 { return uint64(now) },
			want: limit/2 + 1 + mostExtensions*limit + 1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &counting{counters: map[string]uint64{}}
			d := &Driver{Task: Task{Devices: c}, Trace: &Trace{}}
			for now := range job.Ticks(2000) {
				if now >= tt.asleep[0] && now < tt.asleep[1] {
					continue
				}
				if tt.change != nil {
					d.Trace.lastChange = tt.change(now)
				}
				if tt.packets != nil {
					c.counters["sent_pkts"] = tt.packets(now)
				}
				if tt.naks != nil {
					c.counters["rnr_nak_retry_err"] = tt.naks(now)
				}
				if d.stalled(now, limit) {
					if now != tt.want {
						t.Errorf("given up at %d, want %d", now, tt.want)
					}
					return
				}
			}
			t.Error("never given up")
		})
	}
}

package verbstest

import (
	"errors"
	"time"

	"github.com/gobw/gobw/verbs"
)

// testTimestamps holds the stamps of completions against the host's clock, or a device without a clock to saying so.
func testTimestamps(t *test) {
	d := t.A.Device
	clock := d.Info().Clock
	if clock.IsZero() {
		err := closed(d.CreateCQ(verbs.CompletionQueueOptions{Timestamps: true}))
		if !errors.Is(err, verbs.ErrUnsupported) {
			t.Errorf("%s tells no clock: a queue with time stamps: %v, want %v", d.Info().Name, err, verbs.ErrUnsupported)
		}
		return
	}
	for _, op := range []verbs.Opcode{write, read, send} {
		t.on(op.String(), rigOptions{timestamps: true}, func(r *rig) {
			var ends [2][2]time.Time // of the first and the last message: before it was posted, after its completion was seen
			var seen [2]verbs.Completion
			for n := range ends {
				if n > 0 { // long against what the clocks may differ by
					r.quiet("nothing posted")
				}
				ends[n][0] = time.Now()
				if op == send {
					r.b.receive(7, r.b.sge(0, 64))
				}
				r.a.postOne(uint64(n), op, 64)
				if seen[n] = r.a.sends.want(uint64(n)); op == send {
					seen[n] = r.b.recvs.want(7)
				}
				ends[n][1] = time.Now()
			}
			took := time.Duration(float64(clock.Between(seen[0].Timestamp, seen[1].Timestamp)) / clock.Hz * 1e9)
			low, high := ends[1][0].Sub(ends[0][1]), ends[1][1].Sub(ends[0][0])
			if took < low-low/100 || took > high+high/100 {
				r.Errorf("%v between two completions by a clock of %g Hz; by the host's it was %v to %v", took, clock.Hz, low, high)
			}
		})
	}
}

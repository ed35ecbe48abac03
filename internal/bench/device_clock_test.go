package bench

import (
	"math"
	"strings"
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// TestDeviceClock measures clocks against a host's of 2 ticks a nanosecond.
func TestDeviceClock(t *testing.T) {
	const hostPerNs = 2
	stated := verbs.CompletionClock{Hz: 156.25e6, Mask: 1<<48 - 1}
	for _, tt := range []struct {
		name     string
		clock    verbs.CompletionClock
		n        int
		sample   job.Ticks // of the device's clock
		longest  job.Ticks // the last one
		seconds  float64   // by the host's
		measured float64   // Hz in force, if it is not what is stated
		wrong    string
	}{
		{name: "the host's", clock: verbs.CompletionClock{}, n: 10, sample: 400, longest: 400, seconds: 1},
		{name: "too few to know", clock: stated, n: 100, sample: 500, longest: 500, seconds: 50_100e-9 / 156.25e6 * 1e9},
		{
			name: "long, and 50 ppm fast", clock: stated, n: 1_000_000, sample: 500, longest: 500,
			seconds: 500e6 / (156.25e6 * 1.00005), measured: 156.25e6 * 1.00005,
		},
		{
			name: "long, with one long wait", clock: stated, n: 1_000_000, sample: 500, longest: 1_000_000,
			seconds: 501e6 / (156.25e6 * 1.00005),
		},
		{
			name: "nanoseconds, not ticks", clock: stated, n: 1_000_000, sample: 3200, longest: 3200, seconds: 3.2,
			wrong: "1e+09 a second",
		},
		{name: "stands still", clock: stated, n: 1000, sample: 0, longest: 0, seconds: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rec := job.NewRecorder(0)
			rec.Clock = tt.clock
			for range tt.n - 1 {
				rec.Add(tt.sample)
			}
			rec.Add(tt.longest)
			rec.Elapsed = job.Ticks(tt.seconds * 1e9 * hostPerNs)
			c, err := deviceClock(rec, hostPerNs)
			switch {
			case tt.wrong != "":
				if err == nil || !strings.Contains(err.Error(), tt.wrong) || verbs.RemedyOf(err) == "" {
					t.Errorf("%v, want one that holds %q and says what to do", err, tt.wrong)
				}
			case err != nil:
				t.Error(err)
			case tt.clock.IsZero():
				if c != nil {
					t.Errorf("%+v of the host's clock", c)
				}
			default:
				want := tt.measured
				if want == 0 {
					want = stated.Hz
				}
				if math.Abs(c.Hz/want-1) > 1e-8 || c.StatedHz != stated.Hz {
					t.Errorf("%+v, want %.9g Hz in force", c, want)
				}
			}
		})
	}
}

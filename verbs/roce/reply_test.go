package roce

import (
	"testing"

	"github.com/gobw/gobw/verbs/tick"
)

// TestReplies plays on machines on which one way is quicker than the other, and on one that
// changes. Every tenth exchange is disturbed.
func TestReplies(t *testing.T) {
	var r replies
	now := tick.Time(0)
	for _, tt := range []struct {
		name          string
		joined, apart tick.Time
		want          bool
	}{{"apart", 6000, 5000, true}, {"joined", 5000, 6000, false}} {
		t.Run(tt.name, func(t *testing.T) {
			wrong, apart := 0, false
			for i := range 3 * replyKeeps {
				took := tt.joined
				if apart {
					took = tt.apart
				}
				if i%10 == 0 {
					took += 100_000
				}
				now += took
				if apart = r.next(now); apart != tt.want && i > 2*replyKeeps {
					wrong++
				}
			}
			if wrong > trialTurns*replyTurn {
				t.Errorf("%d of %d replies leave the slower way", wrong, replyKeeps)
			}
		})
	}
}

package endpoint

import (
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// TestReceivesLeftOver: a counted round that has lost messages leaves the receives for them to the next.
func TestReceivesLeftOver(t *testing.T) {
	for _, c := range []struct {
		posted, expect, received uint64
		left                     int
	}{{10, 10, 10, 0}, {10, 10, 4, 6}, {4, 10, 10, 0}, {4, 10, 3, 4}, {4, 10, 8, 2}, {10, 10, 0, 10}} {
		e := Endpoint{taken: []uint64{100}, outstanding: []int{int(c.posted)}, moved: make([]movement, 1)}
		j := &job.Job{Lanes: []job.Lane{{Receives: make([]verbs.ReceiveRequest, 3), Posted: c.posted, Expect: c.expect}}}
		e.End(j, []uint64{0}, []uint64{c.received})
		if e.outstanding[0] != c.left || e.taken[0] != 100+c.received {
			t.Errorf("%+v: %d left, %d taken", c, e.outstanding[0], e.taken[0])
		}
	}
}

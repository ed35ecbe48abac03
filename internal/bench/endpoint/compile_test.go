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
		qp := &pair{taken: 100, outstanding: int(c.posted)}
		j := &job.Job{Lanes: []job.Lane{{Receives: make([]verbs.ReceiveRequest, 3), Posted: c.posted, Expect: c.expect}}}
		(&Endpoint{qps: []*pair{qp}}).End(j, func(int) (sent, received uint64) { return 0, c.received })
		if qp.outstanding != c.left || qp.taken != 100+c.received {
			t.Errorf("%+v: %d left, %d taken", c, qp.outstanding, qp.taken)
		}
	}
}

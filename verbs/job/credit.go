package job

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gobw/gobw/verbs"
)

// Credit keeps a lane's SENDs within the receives that its peer has posted, where no transport does: iWARP has no RNR NAK, and
// a SEND that finds no receive ends the connection (RFC 5041, 7.1; RFC 5040, 7). The scheme is perftest's: who receives writes
// into the sender's memory how many it has taken and posted again.
type Credit struct {
	// Granted is where the peer writes how many receives this lane has used that are posted again: more than Receives beyond it
	// are not in flight. nil: this lane sends what its window admits.
	Granted  *uint32
	Receives int

	// Grant writes Count, a word of its own in registered memory, to the peer: one at a time, after Every receives, and no more
	// when the peer can send all of Total (0: unknown) without. It completes where the lane's sends do, and needs room for one
	// more request there. Count nil: nothing is granted.
	Grant verbs.SendRequest
	Count *uint32
	Every int
	Total uint64
	// Before is what the lane received in the job that this one goes on with, whose last grant is still in Count: the peer
	// counts on. 0: Count begins at 0.
	Before uint64
}

// ErrCredit is what a runner answers that does not know credits; the loop over verbs does.
var ErrCredit = fmt.Errorf("SENDs by the peer's credit: %w", verbs.ErrUnsupported)

// Credited tells whether some lane of the job sends or receives by credit.
func (j *Job) Credited() bool {
	for i := range j.Lanes {
		if j.Lanes[i].Credit != nil {
			return true
		}
	}
	return false
}

func (l *Lane) creditProblems() []error {
	c := l.Credit
	switch {
	case c == nil:
		return nil
	case c.Receives < 1:
		return []error{fmt.Errorf("credit for %d receives: want 1 or more", c.Receives)}
	case c.Granted != nil && l.Batch > c.Receives:
		return []error{fmt.Errorf("batches of %d are never sent: the peer has %d receives", l.Batch, c.Receives)}
	case c.Count != nil && (c.Every < 1 || c.Every > c.Receives):
		return []error{fmt.Errorf("credit granted every %d receives: want 1 to %d", c.Every, c.Receives)}
	case c.Granted != nil && len(l.Ring) == 0 || c.Count != nil && len(l.Receives) == 0:
		return []error{errors.New("credit for a direction in which nothing moves")}
	}
	return nil
}

// grantNumber is the number of a grant in its ID: no message has it.
const grantNumber = numberMask

// granting is where a lane stands with what it grants.
type granting struct {
	request [1]verbs.SendRequest
	told    uint64 // receives that the last grant told of
	flying  bool   // it has not completed, and Count may not change
}

// covered tells whether the peer has receives for the lane's next n messages.
func (l *lane) covered(n uint64) bool {
	c := l.Credit
	if c == nil || c.Granted == nil {
		return true
	}
	inFlight := uint32(l.posted) - atomic.LoadUint32(c.Granted)
	if int32(inFlight) < 0 { // a grant of an earlier job came late: this job's will follow it
		inFlight = uint32(l.posted)
	}
	return uint64(inFlight)+n <= uint64(c.Receives)
}

// known is what the peer knows already of receives when a job begins: of a job that goes on, Count says what was told last.
func (c *Credit) known() uint64 {
	if c == nil || c.Count == nil {
		return 0
	}
	if c.Before == 0 {
		atomic.StoreUint32(c.Count, 0)
		return 0
	}
	return c.Before - uint64(uint32(c.Before)-atomic.LoadUint32(c.Count))
}

// grant tells the peer of receives that have been posted again.
func (r *loop) grant(l *lane) error {
	c := l.Credit
	if c == nil || c.Count == nil || l.granting.flying || c.Total > 0 && l.granting.told+uint64(c.Receives) > c.Total {
		return nil
	}
	n := c.Before + l.received - uint64(l.owed)
	if n < l.granting.told+uint64(c.Every) {
		return nil
	}
	atomic.StoreUint32(c.Count, uint32(n))
	q := &l.granting.request[0]
	*q = c.Grant
	q.ID, q.Flags = r.tag|grantNumber, q.Flags|verbs.Signaled
	if err := l.QP.PostSend(l.granting.request[:]); err != nil {
		return fmt.Errorf("lane %d, credit for %d receives: %w", l.index, n, err)
	}
	l.granting.told, l.granting.flying = n, true
	return nil
}

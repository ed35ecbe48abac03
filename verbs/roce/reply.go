package roce

import (
	"slices"

	"github.com/gobw/gobw/verbs/tick"
)

// replies chooses how a reply of one packet and the ACK that is due with it leave: in one datagram, which is one system
// call at each end, but the kernel's GSO/GRO path; or one after the other. Which is quicker depends on the machine. So
// it tries both in turns, keeps what took less from one such reply to the next, and tries again later.
type replies struct {
	apart   bool
	last    tick.Time
	n       int // of this turn
	turn    int // of a trial; trialTurns: the choice stands
	times   [replyTurn / 2]tick.Time
	medians [2]tick.Time // of turns: joined, apart
}

const (
	// replies of a turn; only the second half is measured, as the peer first goes on receiving as in the turn before
	replyTurn  = 64
	trialTurns = 4    // joined, apart, joined, apart
	replyKeeps = 8192 // replies until the next trial
)

// next is called for each reply with an ACK, and tells whether they leave apart.
func (r *replies) next(now tick.Time) bool {
	took := now - r.last
	r.last = now
	if r.n++; r.turn == trialTurns {
		if r.n == replyKeeps {
			*r = replies{last: now}
		}
		return r.apart
	}
	if k := r.n - 1 - replyTurn/2; k >= 0 {
		r.times[k] = took
	}
	if r.n == replyTurn {
		slices.Sort(r.times[:])
		r.medians[r.turn%2] += r.times[len(r.times)/2]
		r.turn, r.n = r.turn+1, 0
		r.apart = r.turn%2 == 1
		if r.turn == trialTurns {
			r.apart = r.medians[1] < r.medians[0]
		}
	}
	return r.apart
}

package verbstest

import (
	"cmp"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// trial is one request of A: what is wrong with it, and how it ends.
type trial struct {
	name    string
	rig     rigOptions
	op      verbs.Opcode
	length  int                                              // 0: 64 bytes
	receive int                                              // bytes of the receive that B posts before; 0: none
	edit    func(r *rig, q *verbs.SendRequest, e *verbs.SGE) // e is the receive's; nil: nothing is wrong
	sent    verbs.Status
	refused bool // Yes: PostSend may refuse it, which is as good
	quiet   bool // Yes: nothing else completes
	// What the receive completes with, where the request meets it.
	meets    bool
	received verbs.Status
	broken   string // the sides whose queue pairs end in ERR
	ready    string // those whose queue pairs stay in RTS
	spared   bool   // Yes: nothing is written behind the receive, nor at A by a READ
}

func runTrials(t *testing.T, s *suite, trials []trial) {
	t.Helper()
	for _, c := range trials {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

func (c *trial) run(t *testing.T, s *suite) {
	s.needOpcode(t, c.op)
	r := newRig(t, s, c.rig)
	q, e := r.a.request(1, c.op, cmp.Or(c.length, 64)), r.b.sge(0, c.receive)
	from, to := r.a.buf.Bytes(), r.b.buf.Bytes()
	if c.op == verbs.OpRead {
		from, to = to, from
	}
	if c.spared {
		fill(from, 1)
	}
	if c.edit != nil {
		c.edit(r, &q, &e)
	}
	if c.receive > 0 {
		r.b.receive(1, e)
	}
	if err := r.a.qp.PostSend([]verbs.SendRequest{q}); err != nil {
		if !c.refused {
			t.Errorf("post send: %v", err)
		}
		return
	}
	r.a.wantSent(1, c.sent)
	if c.meets {
		r.b.wantReceived(1, c.received)
	}
	if c.quiet {
		r.quiet("after " + c.name)
	}
	sides := map[rune]*side{'A': r.a, 'B': r.b}
	for _, name := range c.broken {
		sides[name].wantError()
	}
	for _, name := range c.ready {
		if state := sides[name].qp.State(); state != verbs.StateRTS {
			t.Errorf("%c is in %v, want RTS", name, state)
		}
	}
	if c.spared && !allAre(to[c.receive:], 0) {
		t.Error("memory was written that may not be")
	}
}

// without takes rights of remote operations away from the queue pair of B.
func without(less verbs.Access) rigOptions {
	return rigOptions{connect: func(side string, o *verbs.ConnectOptions) {
		if side == "B" {
			o.Access &^= less
		}
	}}
}

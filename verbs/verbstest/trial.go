package verbstest

import (
	"bytes"
	"cmp"

	"github.com/gobw/gobw/verbs"
)

// trial is one request: what is wrong with it, and how it ends.
type trial struct {
	name    string
	rig     rigOptions
	by      string           // the side that posts it; "": A
	op      verbs.Opcode     // the zero value is a WRITE
	length  int              // 0: 64 bytes
	receive int              // bytes of the receive that B posts before; 0: none
	edit    func(p *posting) // nil: nothing is wrong
	sent    verbs.Status
	or      verbs.Status // which is as good; Success: none
	refused bool         // Yes: PostSend may refuse it, which is as good
	quiet   bool         // Yes: nothing else completes
	dropped bool         // Yes: as quiet, and the next message arrives
	// What the receive completes with, where the request meets it.
	meets    bool
	received verbs.Status
	broken   string // the sides whose queue pairs end in ERR
	ready    string // those whose queue pairs stay in RTS
	lands    bool   // Yes: it does what it should, see move
	spared   bool   // Yes: nothing is written behind the receive, nor at A by a READ
}

// posting is a trial's request before it is posted, and the entry of the receive that B posts for it.
type posting struct {
	*rig
	verbs.SendRequest
	entry verbs.SGE
}

func wrongLKey(p *posting) { p.SGEs[0].LKey ^= 0x5a00 }

func wrongRKey(p *posting) { p.RKey ^= 0x12345600 }

func runTrials(t *test, trials []trial) {
	t.Helper()
	for _, c := range trials {
		t.Run(c.name, func(t *test) { c.run(t) })
	}
}

func (c *trial) run(t *test) {
	t.needOpcode(c.op)
	r := newRig(t, c.rig)
	x := r.side(c.by)
	p := &posting{r, x.request(1, c.op, cmp.Or(c.length, 64)), r.b.sge(0, c.receive)}
	if c.lands || c.spared {
		r.refill(r.a.buf.Len())
	}
	if c.edit != nil {
		c.edit(p)
	}
	if c.lands {
		r.move(p.SendRequest)
		return
	}
	was, of := []byte(nil), r.b.mem[c.receive:]
	if c.op == read {
		of = r.a.mem
	}
	if c.spared {
		was = bytes.Clone(of)
	}
	if c.receive > 0 {
		r.b.receive(1, p.entry)
	}
	if err := x.try(p.SendRequest); err != nil {
		if !c.refused {
			t.Errorf("post send: %v", err)
		}
		return
	}
	x.sends.want(1, c.sent, cmp.Or(c.or, c.sent))
	if c.meets {
		r.b.recvs.want(1, c.received)
	}
	if c.quiet || c.dropped {
		r.quiet("after " + c.name)
	}
	if c.dropped {
		if c.receive == 0 {
			r.b.receive(1, r.b.sge(0, 256))
		}
		r.a.sendOne(2, 33)
		if got := r.b.recvs.want(1); got.Bytes != 33 && got.Bytes != 33+verbs.GRHBytes {
			t.Errorf("received %d bytes, want the last message's 33: the one before is not kept", got.Bytes)
		}
	}
	same(t, "memory", of, was)
	for _, name := range c.broken {
		r.side(string(name)).wantError()
	}
	for _, name := range c.ready {
		if state := r.side(string(name)).qp.State(); state != verbs.StateRTS {
			t.Errorf("%c is in %v, want RTS", name, state)
		}
	}
}

// onB is a rig whose queue pair of B is connected in another way.
func onB(edit func(o *verbs.ConnectOptions)) rigOptions {
	return rigOptions{connect: func(side string, o *verbs.ConnectOptions) {
		if side == "B" {
			edit(o)
		}
	}}
}

package verbstest

import (
	"errors"
	"fmt"

	"github.com/gobw/gobw/verbs"
)

// step is one move of the state machine with the attributes it needs, as the specification lists them.
type step struct {
	to       verbs.QPState
	required verbs.AttributeMask
}

func ladder(t verbs.Transport) []step {
	first, rtr, rts := verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrAccess, verbs.AttributeMask(0), verbs.AttrSendPSN
	switch t {
	case verbs.UD:
		first = verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrQKey
	default:
		rtr = verbs.AttrAddressVector | verbs.AttrPathMTU | verbs.AttrDestQPN | verbs.AttrRecvPSN
	}
	if t == verbs.RC {
		rtr |= verbs.AttrMaxDestRDAtomic | verbs.AttrMinRNRTimer
		rts |= verbs.AttrTimeout | verbs.AttrRetryCount | verbs.AttrRNRRetry | verbs.AttrMaxRDAtomic
	}
	return []step{{verbs.StateInit, first}, {verbs.StateRTR, rtr}, {verbs.StateRTS, rts}}
}

// attributes is a full set of attributes for x; the mask says which are meant.
func (x *side) attributes() verbs.QueuePairAttributes {
	return verbs.QueuePairAttributes{
		Access: allRemote, Port: max(x.end.Port, 1), QKey: testQKey, AddressVector: x.vector(x.peer()), PathMTU: x.r.MTU,
		Timeout: 14, RetryCount: 6, RNRRetry: 5, RecvPSN: 0x1234, SendPSN: 0x5678, MaxRDAtomic: 2, MaxDestRDAtomic: 3,
		MinRNRTimer: 12, DestQPN: x.peer().qp.QPN(),
	}
}

// step takes the side's queue pair up a step, with attributes that edit, where it is not nil, may change.
func (x *side) step(st step, edit func(a *verbs.QueuePairAttributes)) error {
	a := x.attributes()
	a.State, a.Mask = st.to, verbs.AttrState|st.required
	if edit != nil {
		edit(&a)
	}
	return x.qp.Modify(a)
}

func testStates(t *test) {
	if t.lacks(ConnectsByHand) {
		t.Skip("RDMA CM alone moves the device's queue pairs")
	}
	for _, transport := range []verbs.Transport{verbs.RC, verbs.UC, verbs.UD} {
		t.Run(transport.String(), func(t *test) { testLadder(t, transport) })
		t.Run(transport.String()+" posting", func(t *test) { testPostingByState(t, transport) })
		t.Run(transport.String()+" reset", func(t *test) { testReset(t, transport) })
	}
	t.Run("query", testQuery)
	t.Run("drained", testDrained)
	t.Run("values", testAttributeValues)
}

// testLadder climbs from RESET to RTS and at each step first leaves out every required attribute in turn.
func testLadder(t *test, transport verbs.Transport) {
	r := newRig(t, rigOptions{transport: transport, short: verbs.StateRTS})
	qp := r.a.qp
	if qp.State() != verbs.StateReset {
		t.Fatalf("a new queue pair is in %v, want RESET", qp.State())
	}
	refused := func(a verbs.QueuePairAttributes, missing, extra verbs.AttributeMask, noSuch bool) {
		t.Helper()
		before := qp.State()
		err := qp.Modify(a)
		var e *verbs.TransitionError
		if !errors.As(err, &e) {
			t.Errorf("%v to %v with %v: %v, want a TransitionError", before, a.State, a.Mask, err)
			return
		}
		if e.Missing != missing || e.NotAllowed&extra != extra || e.NoSuchChange != noSuch {
			t.Errorf("%v: missing %v, not allowed %v, no edge %v; want %v, %v, %v", err, e.Missing, e.NotAllowed, e.NoSuchChange,
				missing, extra, noSuch)
		}
		if qp.State() != before {
			t.Errorf("a refused move went from %v to %v", before, qp.State())
		}
	}
	for i, st := range ladder(transport) {
		a := r.a.attributes()
		a.State = st.to
		for bit := verbs.AttributeMask(1); bit <= verbs.AttrDestQPN; bit <<= 1 {
			if st.required&bit != 0 {
				a.Mask = verbs.AttrState | st.required&^bit
				refused(a, bit, 0, false)
			}
		}
		a.Mask = verbs.AttrState | st.required | verbs.AttrCapabilities
		refused(a, 0, verbs.AttrCapabilities, false)
		if i == 0 {
			for _, far := range []verbs.QPState{verbs.StateRTR, verbs.StateRTS, verbs.StateSQD, verbs.StateError} {
				b := a
				b.State, b.Mask = far, verbs.AttrState
				refused(b, 0, 0, true)
			}
		}
		if err := r.a.step(st, nil); err != nil {
			t.Fatalf("to %v with %v: %v", st.to, st.required, err)
		}
		if qp.State() != st.to {
			t.Errorf("state %v after the move to %v", qp.State(), st.to)
		}
	}
	back := verbs.QueuePairAttributes{Mask: verbs.AttrState, State: verbs.StateInit}
	refused(back, 0, 0, true)
	r.a.to(verbs.StateError)
	r.a.to(verbs.StateReset)
}

// testPostingByState posts in every state.
func testPostingByState(t *test, transport verbs.Transport) {
	for _, tt := range []struct {
		state      verbs.QPState
		recv, send bool
	}{
		{verbs.StateReset, false, false},
		{verbs.StateInit, true, false},
		{verbs.StateRTR, true, false},
		{verbs.StateRTS, true, true},
	} {
		t.Run(tt.state.String(), func(t *test) {
			r := newRig(t, rigOptions{transport: transport, short: verbs.StateRTS - tt.state})
			err := r.a.qp.PostReceive([]verbs.ReceiveRequest{{SGEs: []verbs.SGE{r.a.sge(0, 64)}}})
			if (err == nil) != tt.recv {
				t.Errorf("post receive: %v, want allowed %v", err, tt.recv)
			}
			err = r.a.qp.PostSend([]verbs.SendRequest{r.a.request(1, verbs.OpSend, 8)})
			if (err == nil) != tt.send {
				t.Errorf("post send: %v, want allowed %v", err, tt.send)
			}
			var p *verbs.PostError
			if err != nil && (!errors.As(err, &p) || p.Index != 0) {
				t.Errorf("post send: %v, want a PostError at 0", err)
			}
			//nolint:errorlint // the order is the contract
			if e, is := err.(*verbs.Error); err != nil && (!is || e.Err != error(p)) {
				t.Errorf("post send: %#v, want a verbs.Error around the PostError", err)
			}
		})
	}
}

// testReset takes a connected queue pair back to RESET with receives posted: they are gone without completions, and the
// queue pair connects again with its counters fresh.
func testReset(t *test, transport verbs.Transport) {
	r := newRig(t, rigOptions{transport: transport})
	for round := range uint32(3) {
		r.b.receives(1, 2, 256)
		r.exchange(1, 1, 100)
		r.a.to(verbs.StateReset)
		r.b.to(verbs.StateReset)
		r.quiet("after RESET")
		r.climb(rigOptions{transport: transport, connect: func(_ string, c *verbs.ConnectOptions) {
			c.SendPSN, c.RecvPSN = c.SendPSN+round&0xff, c.RecvPSN+round&0xff
		}})
	}
}

// testQuery reads back what was set.
func testQuery(t *test) {
	r := newRig(t, rigOptions{short: verbs.StateRTS - verbs.StateInit})
	for _, st := range ladder(verbs.RC)[1:] {
		if err := r.a.step(st, nil); err != nil {
			t.Fatal(err)
		}
	}
	a := r.a.attributes()
	got, err := r.a.qp.Query()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"state", got.State, verbs.StateRTS},
		{"path MTU", got.PathMTU, a.PathMTU},
		{"destination", got.DestQPN, a.DestQPN},
		{"timeout", got.Timeout, a.Timeout},
		{"retry count", got.RetryCount, a.RetryCount},
		{"RNR retry", got.RNRRetry, a.RNRRetry},
		{"send PSN", got.SendPSN, a.SendPSN},
		{"receive PSN", got.RecvPSN, a.RecvPSN},
		{"max destination READs", got.MaxDestRDAtomic, a.MaxDestRDAtomic},
		{"RNR timer", got.MinRNRTimer, a.MinRNRTimer},
		{"access", got.Access & allRemote, allRemote},
		{"peer's GID", got.AddressVector.DGID, a.AddressVector.DGID},
	} {
		if fmt.Sprint(f.got) != fmt.Sprint(f.want) {
			if f.name == "max destination READs" && t.ignored(ReadsServedKept) {
				continue
			}
			t.Errorf("%s: %v, want %v", f.name, f.got, f.want)
		}
	}
}

// testDrained stops a send queue in SQD: requests posted there wait, and go when it is RTS again.
func testDrained(t *test) {
	r := newRig(t, rigOptions{})
	r.b.receives(1, 2, 64)
	r.exchange(1, 1, 8)
	err := r.a.qp.Modify(verbs.QueuePairAttributes{
		Mask: verbs.AttrState | verbs.AttrSQDAsyncNotify, State: verbs.StateSQD, SQDAsyncNotify: true,
	})
	if err != nil {
		t.Fatalf("to SQD: %v", err)
	}
	if !t.ignored(DrainedEvent) {
		r.wantEvent(r.a, verbs.EventSQDrained)
	}
	r.a.postOne(2, verbs.OpSend, 8)
	r.quiet("in SQD")
	if t.ignored(DrainedQueueResumes) {
		return
	}
	r.a.to(verbs.StateRTS)
	r.a.sends.want(2)
	r.b.recvs.want(2)
}

// testAttributeValues sets values that are out of range.
func testAttributeValues(t *test) {
	for _, tt := range []struct {
		name string
		to   int // rung of the ladder
		edit func(a *verbs.QueuePairAttributes)
	}{
		{"port 99", 0, func(a *verbs.QueuePairAttributes) { a.Port = 99 }},
		{"MTU code 6", 1, func(a *verbs.QueuePairAttributes) { a.PathMTU = 6 }},
		{"MTU code 0", 1, func(a *verbs.QueuePairAttributes) { a.PathMTU = 0 }},
		{"GID index 5000", 1, func(a *verbs.QueuePairAttributes) { a.AddressVector.SGIDIndex = 5000 }},
		{"255 destination READs", 1, func(a *verbs.QueuePairAttributes) { a.MaxDestRDAtomic = 255 }},
		{"timeout 32", 2, func(a *verbs.QueuePairAttributes) { a.Timeout = 32 }},
		{"255 READs", 2, func(a *verbs.QueuePairAttributes) { a.MaxRDAtomic = 255 }},
	} {
		t.Run(tt.name, func(t *test) {
			r := newRig(t, rigOptions{short: verbs.StateRTS})
			for _, st := range ladder(verbs.RC)[:tt.to] {
				if err := r.a.step(st, nil); err != nil {
					t.Fatal(err)
				}
			}
			if r.a.step(ladder(verbs.RC)[tt.to], tt.edit) == nil {
				t.Errorf("%s was taken", tt.name)
			}
		})
	}
}

package verbstest

import (
	"errors"
	"reflect"

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

// steps takes the side's queue pair up the first n steps of RC.
func (x *side) steps(n int) {
	x.r.Helper()
	for _, st := range ladder(verbs.RC)[:n] {
		if err := x.step(st, nil); err != nil {
			x.r.Fatal(err)
		}
	}
}

func testStates(t *test) {
	if t.lacks(ConnectsByHand) {
		t.Skip("RDMA CM alone moves the device's queue pairs")
	}
	for _, transport := range transports() {
		t.on(transport.String(), rigOptions{transport: transport, short: verbs.StateRTS}, testLadder)
		t.Run(transport.String()+" posting", func(t *test) { testPostingByState(t, transport) })
		t.on(transport.String()+" reset", rigOptions{transport: transport}, testReset)
	}
	t.on("query", rigOptions{short: verbs.StateRTS}, testQuery)
	t.on("drained", rigOptions{}, testDrained)
	t.Run("values", testAttributeValues)
}

// testLadder climbs from RESET to RTS and at each step first leaves out every required attribute in turn.
func testLadder(r *rig) {
	qp := r.a.qp
	if qp.State() != verbs.StateReset {
		r.Fatalf("a new queue pair is in %v, want RESET", qp.State())
	}
	refused := func(a verbs.QueuePairAttributes, missing, extra verbs.AttributeMask, noSuch bool) {
		r.Helper()
		before := qp.State()
		err := qp.Modify(a)
		var e *verbs.TransitionError
		if !errors.As(err, &e) {
			r.Errorf("%v to %v with %v: %v, want a TransitionError", before, a.State, a.Mask, err)
			return
		}
		if e.Missing != missing || e.NotAllowed&extra != extra || e.NoSuchChange != noSuch {
			r.Errorf("%v: missing %v, not allowed %v, no edge %v; want %v, %v, %v", err, e.Missing, e.NotAllowed, e.NoSuchChange,
				missing, extra, noSuch)
		}
		if qp.State() != before {
			r.Errorf("a refused move went from %v to %v", before, qp.State())
		}
	}
	for i, st := range ladder(qp.Transport()) {
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
			r.Fatalf("to %v with %v: %v", st.to, st.required, err)
		}
		if qp.State() != st.to {
			r.Errorf("state %v after the move to %v", qp.State(), st.to)
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
		t.on(tt.state.String(), rigOptions{transport: transport, short: verbs.StateRTS - tt.state}, func(r *rig) {
			if err := postReceive(r.a.qp, 0, r.a.sge(0, 64)); (err == nil) != tt.recv {
				r.Errorf("post receive: %v, want allowed %v", err, tt.recv)
			}
			err := r.a.try(r.a.request(1, send, 8))
			if (err == nil) != tt.send {
				r.Errorf("post send: %v, want allowed %v", err, tt.send)
			}
			var p *verbs.PostError
			if err != nil && (!errors.As(err, &p) || p.Index != 0) {
				r.Errorf("post send: %v, want a PostError at 0", err)
			}
			//nolint:errorlint // the order is the contract
			if e, is := err.(*verbs.Error); err != nil && (!is || e.Err != error(p)) {
				r.Errorf("post send: %#v, want a verbs.Error around the PostError", err)
			}
		})
	}
}

// testReset takes a connected queue pair back to RESET with receives posted: they are gone without completions, and the
// queue pair connects again with its counters fresh.
func testReset(r *rig) {
	for round := range uint32(3) {
		r.b.receives(1, 2, 256)
		r.exchange(1, 1, 100)
		r.a.to(verbs.StateReset)
		r.b.to(verbs.StateReset)
		r.quiet("after RESET")
		r.climb(rigOptions{connect: func(_ string, c *verbs.ConnectOptions) {
			c.SendPSN, c.RecvPSN = c.SendPSN+round&0xff, c.RecvPSN+round&0xff
		}})
	}
	r.b.receives(1, 2, 256)
	r.b.to(verbs.StateError)
	r.b.to(verbs.StateReset)
	if !r.ignored(ResetEmpties) {
		r.quiet("after RESET of what had failed")
	}
}

// testQuery reads back what was set.
func testQuery(r *rig) {
	r.a.steps(3)
	want := r.a.attributes()
	got, err := r.a.qp.Query()
	if err != nil {
		r.Fatal(err)
	}
	want.State, got.Access = verbs.StateRTS, got.Access&allRemote
	// What is compared of the path is the peer's GID.
	got.AddressVector, want.AddressVector = verbs.AddressVector{DGID: got.AddressVector.DGID},
		verbs.AddressVector{DGID: want.AddressVector.DGID}
	for _, name := range []string{
		"State", "PathMTU", "DestQPN", "Timeout", "RetryCount", "RNRRetry", "SendPSN", "RecvPSN", "MaxDestRDAtomic",
		"MinRNRTimer", "Access", "AddressVector",
	} {
		is, set := reflect.ValueOf(got).FieldByName(name), reflect.ValueOf(want).FieldByName(name)
		if !is.Equal(set) && (name != "MaxDestRDAtomic" || !r.ignored(ReadsServedKept)) {
			r.Errorf("%s: %v, want %v", name, is, set)
		}
	}
}

// testDrained stops a send queue in SQD: requests posted there wait, and go when it is RTS again.
func testDrained(r *rig) {
	r.b.receives(1, 2, 64)
	r.exchange(1, 1, 8)
	err := r.a.qp.Modify(verbs.QueuePairAttributes{
		Mask: verbs.AttrState | verbs.AttrSQDAsyncNotify, State: verbs.StateSQD, SQDAsyncNotify: true,
	})
	if err != nil {
		r.Fatalf("to SQD: %v", err)
	}
	if !r.ignored(DrainedEvent) {
		r.wantEvent(r.a, verbs.EventSQDrained)
	}
	r.a.postOne(2, send, 8)
	r.quiet("in SQD")
	if r.ignored(DrainedQueueResumes) {
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
		t.on(tt.name, rigOptions{short: verbs.StateRTS}, func(r *rig) {
			r.a.steps(tt.to)
			if r.a.step(ladder(verbs.RC)[tt.to], tt.edit) == nil {
				r.Errorf("%s was taken", tt.name)
			}
		})
	}
}

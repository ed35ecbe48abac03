package verbstest

import (
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
)

// testStatuses provokes every completion status that a pair of well-behaved ends can provoke, and checks that both
// queue pairs end where they should.
func testStatuses(t *testing.T, s *suite) {
	for _, c := range []group{
		{"LOC_LEN and REM_INV_REQ: short receive", testShortReceive},
		{"LOC_LEN: short receive on UC", testShortReceiveUC},
		{"LOC_PROT: send", testBadSource},
		{"LOC_PROT: READ into read-only memory", testReadIntoReadOnly},
		{"LOC_PROT and REM_OP: bad receive", testBadReceive},
		{"REM_INV_REQ: operation not let in", testNotLetIn},
		{"REM_INV_REQ: no READ resources", testNoReadResources},
		{"REM_INV_REQ: misaligned atomic", testMisalignedAtomic},
		{"REM_ACCESS: unknown rkey", testUnknownKey},
		{"UC drops a bad rkey", testUnknownKeyUC},
		{"RETRY_EXC: dead peer", testDeadPeer},
		{"RETRY_EXC: seven is seven", testSevenRetries},
		{"RNR_RETRY_EXC: no receive", testNoReceive},
		{"RNR: a late receive", testLateReceive},
		{"refused by name", testRefused},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

// testShortReceive: a SEND that is longer than the receive it meets.
func testShortReceive(t *testing.T, s *suite) {
	for _, size := range []int{65, 3*s.pair.MTU.Bytes() + 1} {
		r := newRig(t, s, rigOptions{})
		fill(r.a.buf.Bytes(), 1)
		target := r.b.buf.Bytes()
		r.b.receive(1, r.b.sge(0, size-1))
		r.a.post(r.a.request(1, verbs.OpSend, size))
		r.a.wantSent(1, s.dev.status(ShortReceiveAtSender, s.refused(verbs.OpSend, verbs.RemoteInvalidRequestError)))
		r.b.wantReceived(1, s.dev.status(ShortReceiveAtReceiver, verbs.LocalLengthError))
		r.a.wantError()
		r.b.wantError()
		if !allAre(target[size-1:], 0) {
			t.Errorf("%d bytes: written beyond the receive", size)
		}
	}
}

// testShortReceiveUC: the same on UC, whose sender is told nothing.
func testShortReceiveUC(t *testing.T, s *suite) {
	r := newRig(t, s, rigOptions{transport: verbs.UC})
	r.b.receive(1, r.b.sge(0, 64))
	r.a.post(r.a.request(1, verbs.OpSend, 65))
	r.a.wantSent(1, verbs.Success)
	r.b.wantReceived(1, s.dev.status(ShortReceiveUC, verbs.LocalLengthError))
}

// testBadSource: memory that the sender may not read.
func testBadSource(t *testing.T, s *suite) {
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpWrite} {
		for name, edit := range map[string]func(e *verbs.SGE){
			"key":    func(e *verbs.SGE) { e.LKey ^= 0x5a00 },
			"start":  func(e *verbs.SGE) { e.Addr -= 1 << 30 },
			"length": func(e *verbs.SGE) { e.Addr += 64<<10 - 63 },
		} {
			r := newRig(t, s, rigOptions{})
			r.b.receive(1, r.b.sge(0, 64))
			q := r.a.request(1, op, 64)
			edit(&q.SGEs[0])
			r.a.post(q)
			want := s.dev.status(WrongRangeSend, verbs.LocalProtectionError)
			if name == "key" {
				want = s.dev.status(BadLKeySend, verbs.LocalProtectionError)
			}
			r.a.check("send with a wrong "+name, r.a.sent(), 1, want)
			r.a.wantError()
		}
	}
}

// testReadIntoReadOnly: a READ into memory that this end may not write.
func testReadIntoReadOnly(t *testing.T, s *suite) {
	r := newRig(t, s, rigOptions{})
	mr := must[verbs.MemoryRegion](t, "register")(r.a.pd.RegisterMemory(r.a.buf.Bytes(), verbs.AccessRemoteRead))
	closing(t, "region", mr)
	q := r.a.request(1, verbs.OpRead, 64)
	q.SGEs[0].LKey = mr.LKey()
	fill(r.b.buf.Bytes(), 3)
	r.a.post(q)
	r.a.wantSent(1, s.dev.status(BadLKeyReadTarget, verbs.LocalProtectionError))
	if !allAre(r.a.buf.Bytes(), 0) {
		t.Error("read-only memory was written")
	}
}

// testBadReceive: a receive into memory that its end may not write.
func testBadReceive(t *testing.T, s *suite) {
	r := newRig(t, s, rigOptions{})
	e := r.b.sge(0, 64)
	e.LKey ^= 0x5a00
	r.b.receive(1, e)
	r.a.post(r.a.request(1, verbs.OpSend, 64))
	r.a.wantSent(1, s.dev.status(BadReceiveAtSender, s.refused(verbs.OpSend, verbs.RemoteOperationError)))
	r.b.wantReceived(1, s.dev.status(BadReceiveAtReceiver, verbs.LocalProtectionError))
	r.a.wantError()
	r.b.wantError()
}

// testNoReadResources: a READ that the responder has no resources for.
func testNoReadResources(t *testing.T, s *suite) {
	r := newRig(t, s, rigOptions{connect: func(side string, o *verbs.ConnectOptions) {
		if side == "B" {
			o.MaxDestRDAtomic = verbs.Zero
		}
	}})
	r.a.post(r.a.request(1, verbs.OpRead, 64))
	r.a.wantSent(1, s.dev.status(NoReadResources, verbs.RemoteInvalidRequestError))
}

// testMisalignedAtomic: an atomic whose address is no multiple of eight.
func testMisalignedAtomic(t *testing.T, s *suite) {
	r := newRig(t, s, rigOptions{})
	q := r.a.request(1, verbs.OpFetchAdd, 8)
	q.RemoteAddr += 4
	if err := r.a.qp.PostSend([]verbs.SendRequest{q}); err == nil { // refusing it at once is as good
		r.a.wantSent(1, s.dev.status(MisalignedAtomic, verbs.RemoteInvalidRequestError))
	}
}

// testUnknownKey: requests with a key that names nothing.
func testUnknownKey(t *testing.T, s *suite) {
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead, verbs.OpFetchAdd, verbs.OpCompareSwap} {
		r := newRig(t, s, rigOptions{})
		q := r.a.request(1, op, 8)
		q.RKey ^= 0x12345600
		r.a.post(q)
		c := r.a.sent()
		r.a.check(op.String(), c, 1, s.refused(op, verbs.RemoteAccessError))
		r.a.wantError()
		r.b.wantError()
	}
}

// testUnknownKeyUC: a UC WRITE with such a key: nobody is told.
func testUnknownKeyUC(t *testing.T, s *suite) {
	r := newRig(t, s, rigOptions{transport: verbs.UC})
	q := r.a.request(1, verbs.OpWrite, 64)
	q.RKey ^= 0x12345600
	fill(r.a.buf.Bytes(), 4)
	r.a.post(q)
	r.a.wantSent(1, verbs.Success)
	r.b.receive(2, r.b.sge(4096, 64))
	r.a.post(r.a.request(2, verbs.OpSend, 64))
	r.a.wantSent(2, verbs.Success)
	r.b.wantReceived(2, verbs.Success)
	if !allAre(r.b.buf.Bytes()[:4096], 0) {
		t.Error("a WRITE with a wrong key wrote")
	}
}

// testDeadPeer: requests to a queue pair that answers no more.
func testDeadPeer(t *testing.T, s *suite) {
	r := newRig(t, s, rigOptions{connect: func(_ string, o *verbs.ConnectOptions) { o.Timeout, o.RetryCount = 10, 2 }})
	r.b.fail()
	r.a.post(r.a.request(1, verbs.OpWrite, 64), r.a.request(2, verbs.OpWrite, 64))
	if s.dev.ignored(t, DeadPeer) {
		r.a.neverExceeds(DeadPeer)
		return
	}
	r.a.wantSent(1, verbs.RetryExceeded)
	r.a.wantSent(2, verbs.FlushError)
	r.a.wantError()
}

// testSevenRetries: seven retries end, which some devices take for endless ones.
func testSevenRetries(t *testing.T, s *suite) {
	r := newRig(t, s, rigOptions{connect: func(_ string, o *verbs.ConnectOptions) { o.Timeout, o.RetryCount = 8, 7 }})
	r.b.fail()
	r.a.post(r.a.request(1, verbs.OpSend, 64))
	if s.dev.ignored(t, RetrySevenEnds) {
		r.a.neverExceeds(RetrySevenEnds)
		return
	}
	r.a.wantSent(1, verbs.RetryExceeded)
}

// neverExceeds holds a row to its word that retries do not end: longer than all of them take.
func (x *side) neverExceeds(row Case) {
	t := x.r.t
	t.Helper()
	for deadline := time.Now().Add(2 * silence); time.Now().Before(deadline); x.r.poll() {
		for _, c := range x.sends {
			if c.Status == verbs.RetryExceeded {
				t.Fatalf("%s: retries end with %v: take the row %q away", x.name, c.Status, row)
			}
		}
	}
}

// testNoReceive: messages for which no receive comes.
func testNoReceive(t *testing.T, s *suite) {
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpWriteWithImmediate} {
		r := newRig(t, s, rigOptions{connect: func(_ string, o *verbs.ConnectOptions) { o.RNRRetry = 1 }})
		r.a.post(r.a.request(1, op, 64))
		r.a.check(op.String(), r.a.sent(), 1, s.dev.status(ReceiverNotReady, verbs.RNRRetryExceeded))
		r.a.wantError()
		if r.b.qp.State() != verbs.StateRTS {
			t.Errorf("%v: the receiver is in %v, want RTS", op, r.b.qp.State())
		}
	}
}

// testLateReceive: messages whose receives come while they are sent again.
func testLateReceive(t *testing.T, s *suite) {
	if _, deviates := s.dev.find(ReceiverNotReady); deviates {
		return // as without a receive
	}
	r := newRig(t, s, rigOptions{})
	fill(r.a.buf.Bytes()[:5000], 8)
	r.a.post(r.a.request(1, verbs.OpSend, 5000), r.a.request(2, verbs.OpSend, 10))
	r.quiet("before a receive is posted")
	r.b.receive(1, r.b.sge(0, 5000))
	r.b.receive(2, r.b.sge(8192, 10))
	r.a.wantSent(1, verbs.Success)
	r.a.wantSent(2, verbs.Success)
	r.b.wantReceived(1, verbs.Success)
	r.b.wantReceived(2, verbs.Success)
	if d := firstDifference(r.a.buf.Bytes()[:5000], r.b.buf.Bytes()); d >= 0 {
		t.Errorf("byte %d differs", d)
	}
}

// testNotLetIn takes the right for each remote operation away from B's queue pair.
func testNotLetIn(t *testing.T, s *suite) {
	for _, tt := range []struct {
		op   verbs.Opcode
		less verbs.Access
	}{
		{verbs.OpWrite, verbs.AccessRemoteWrite}, {verbs.OpRead, verbs.AccessRemoteRead}, {verbs.OpFetchAdd, verbs.AccessRemoteAtomic},
	} {
		r := newRig(t, s, rigOptions{connect: func(side string, o *verbs.ConnectOptions) {
			if side == "B" {
				o.Access &^= tt.less
			}
		}})
		r.a.post(r.a.request(1, tt.op, 8))
		r.a.check(tt.op.String(), r.a.sent(), 1, s.dev.status(QPAccessWrite, s.notAllowed(tt.op, verbs.RemoteInvalidRequestError)))
		r.a.wantError()
		r.b.wantError()
	}
}

// testRefused posts what the transport does not have, or what no message can be.
func testRefused(t *testing.T, s *suite) {
	for _, transport := range s.transports(verbs.UC, verbs.UD) {
		r := newRig(t, s, rigOptions{transport: transport})
		for op := verbs.OpWrite; op <= verbs.OpFetchAdd; op++ {
			if transport.Supports(op) {
				continue
			}
			if err := r.a.qp.PostSend([]verbs.SendRequest{r.a.request(1, op, 8)}); err == nil {
				t.Errorf("%v took a %v", transport, op)
			}
		}
	}
	info, most := s.pair.A.Device.Info(), uint64(1)<<31
	if info.IWARP() {
		most = 1<<32 - 1 // RFC 5040, 4.1
	}
	if limit := info.Limits.MaxMessageBytes; limit == 0 || limit > most {
		t.Errorf("the largest message has %d bytes, want 1 to %d", limit, most)
	}
}

// testFlush breaks a queue pair with much posted: everything completes, in order, and what is posted later too.
func testFlush(t *testing.T, s *suite) {
	t.Run("after an error", func(t *testing.T) {
		r := newRig(t, s, rigOptions{})
		for i := range uint64(5) {
			r.a.receive(100+i, r.a.sge(0, 64))
			r.b.receive(200+i, r.b.sge(0, 64))
		}
		good := r.a.request(1, verbs.OpWrite, 64)
		bad := r.a.request(2, verbs.OpWrite, 64)
		bad.RKey ^= 0x12345600
		list := []verbs.SendRequest{good, bad}
		for i := range uint64(4) {
			q := r.a.request(3+i, verbs.OpWrite, 64)
			if i%2 == 0 {
				q.Flags = 0 // flushed all the same
			}
			list = append(list, q)
		}
		r.a.post(list...)
		r.a.wantSent(1, verbs.Success)
		r.a.wantSent(2, s.refused(verbs.OpWrite, verbs.RemoteAccessError))
		if _, deviates := s.dev.find(RefusedByPeer); deviates {
			return // how many of the others get through is a matter of luck
		}
		for i := range uint64(4) {
			r.a.wantSent(3+i, verbs.FlushError)
		}
		for i := range uint64(5) {
			r.a.wantReceived(100+i, verbs.FlushError)
			r.b.wantReceived(200+i, verbs.FlushError)
		}
		r.a.wantError()
		r.b.wantError()
		if s.dev.ignored(t, PostAfterErrorFlushes) {
			return
		}
		r.a.post(r.a.request(50, verbs.OpWrite, 8))
		r.a.receive(51, r.a.sge(0, 64))
		r.a.wantSent(50, verbs.FlushError)
		r.a.wantReceived(51, verbs.FlushError)
	})
	for _, transport := range []verbs.Transport{verbs.RC, verbs.UC, verbs.UD} {
		t.Run("on purpose, "+transport.String(), func(t *testing.T) {
			r := newRig(t, s, rigOptions{transport: transport})
			for i := range uint64(5) {
				r.b.receive(i, r.b.sge(0, 64))
			}
			r.b.fail()
			for i := range uint64(5) {
				r.b.wantReceived(i, verbs.FlushError)
			}
			r.quiet("after the flush")
		})
	}
}

package verbstest

import (
	"fmt"
	"slices"

	"github.com/gobw/gobw/verbs"
)

// testStatuses provokes every completion status that a pair of well-behaved ends can provoke, and checks that both
// queue pairs end where they should.
func testStatuses(t *test) {
	runTrials(t, statusTrials(t))
	t.Run("RETRY_EXC: dead peer", func(t *test) { testRetriesEnd(t, DeadPeer, 10, 2) })
	t.Run("RETRY_EXC: seven is seven", func(t *test) { testRetriesEnd(t, RetrySevenEnds, 8, 7) })
	t.on("RNR: a late receive", rigOptions{}, testLateReceive)
	t.Run("refused by name", testRefused)
}

func statusTrials(t *test) []trial {
	protection := t.status(WrongRangeSend, verbs.LocalProtectionError)
	list := []trial{
		{
			name: "UC drops a bad rkey", rig: rigOptions{transport: verbs.UC}, receive: 64, dropped: true,
			spared: true,
			edit: func(p *posting) {
				p.RKey, p.RemoteAddr = p.RKey^0x12345600, p.RemoteAddr+4096
			},
		},
		{
			name: "LOC_LEN: short receive on UC", rig: rigOptions{transport: verbs.UC}, op: send, length: 65, receive: 64,
			meets: true, received: t.status(ShortReceiveUC, verbs.LocalLengthError),
		},
		{
			name: "LOC_PROT: READ into read-only memory", op: read, sent: verbs.LocalProtectionError, spared: true,
			edit: func(p *posting) {
				p.SGEs[0].LKey = p.a.region(verbs.AccessRemoteRead).LKey()
			},
		},
		{
			name: "LOC_PROT and REM_OP: bad receive", op: send, sent: t.refused(send, verbs.RemoteOperationError),
			receive: 64, meets: true, received: t.status(BadReceiveAtReceiver, verbs.LocalProtectionError), broken: "AB",
			edit: func(p *posting) { p.entry.LKey ^= 0x5a00 },
		},
		{
			name: "REM_INV_REQ: no READ resources", op: read, sent: t.status(NoReadResources, verbs.RemoteInvalidRequestError),
			rig: onB(func(o *verbs.ConnectOptions) { o.MaxDestRDAtomic = 0 }),
		},
		{
			name: "REM_ACCESS before LOC_PROT: READ by two wrong keys", op: read, sent: t.refused(read, verbs.RemoteAccessError),
			spared: true,
			edit: func(p *posting) {
				p.RKey, p.SGEs[0].LKey = p.RKey^0x12345600, p.SGEs[0].LKey^0x5a00
			},
		},
		{
			name: "LOC_PROT: FETCH_ADD by a wrong lkey", op: fetchAdd, length: 8, sent: verbs.LocalProtectionError, broken: "A",
			edit: wrongLKey,
		},
		{
			name: "REM_INV_REQ: misaligned atomic", op: fetchAdd, length: 8, refused: true,
			sent: verbs.RemoteInvalidRequestError,
			edit: func(p *posting) { p.RemoteAddr += 4 },
		},
	}
	if !t.ignored(AtomicLength) {
		list = append(list, trial{
			name: "LOC_LEN: atomic of 9 bytes", op: fetchAdd, length: 9, refused: true, sent: verbs.LocalLengthError,
			spared: true,
		})
	}
	list = append(list, trial{
		name: "REM_ACCESS: WRITE with immediate by an unknown rkey", op: writeImmediate, receive: 64,
		spared: true, broken: "AB",
		sent: t.refused(write, verbs.RemoteAccessError), meets: true,
		received: t.status(RefusedImmediate, verbs.LocalAccessError),
		edit:     wrongRKey,
	})
	for _, size := range []int{65, 3*t.MTU.Bytes() + 1} {
		list = append(list, trial{
			name: fmt.Sprintf("LOC_LEN and REM_INV_REQ: a receive too short for %d bytes", size), op: send, length: size,
			receive: size - 1,
			sent:    t.status(ShortReceiveAtSender, t.refused(send, verbs.RemoteInvalidRequestError)),
			meets:   true, received: t.status(ShortReceiveAtReceiver, verbs.LocalLengthError), broken: "AB", spared: true,
		})
	}
	for _, op := range []verbs.Opcode{send, write} {
		for _, wrong := range []trial{
			{name: "key", edit: wrongLKey, sent: t.status(BadLKeySend, verbs.LocalProtectionError)},
			{name: "start", edit: func(p *posting) { p.SGEs[0].Addr -= 1 << 30 }, sent: protection},
			{name: "length", edit: func(p *posting) { p.SGEs[0].Addr += 64<<10 - 63 }, sent: protection},
		} {
			wrong.name, wrong.op, wrong.receive, wrong.broken = fmt.Sprintf("LOC_PROT: %v by a wrong %s", op,
				wrong.name), op, 64, "A"
			list = append(list, wrong)
		}
	}
	for op, less := range map[verbs.Opcode]verbs.Access{
		write: verbs.AccessRemoteWrite, read: verbs.AccessRemoteRead, fetchAdd: verbs.AccessRemoteAtomic,
	} {
		list = append(list, trial{
			name: fmt.Sprintf("REM_INV_REQ: %v not let in", op), rig: onB(func(o *verbs.ConnectOptions) { o.Access &^= less }),
			op: op, length: 8,
			sent: t.notAllowed(op, verbs.RemoteInvalidRequestError), broken: "AB",
		})
	}
	for _, op := range []verbs.Opcode{write, read, fetchAdd, compareSwap} {
		list = append(list, trial{
			name: fmt.Sprintf("REM_ACCESS: %v by an unknown rkey", op), op: op, length: 8,
			sent: t.refused(op, verbs.RemoteAccessError), broken: "AB",
			edit: wrongRKey,
		})
	}
	for _, op := range []verbs.Opcode{send, writeImmediate} {
		list = append(list, trial{
			name: fmt.Sprintf("RNR_RETRY_EXC: no receive for a %v", op), op: op,
			sent: t.status(ReceiverNotReady, verbs.RNRRetryExceeded), broken: "A",
			rig: rigOptions{connect: func(_ string, o *verbs.ConnectOptions) { o.RNRRetry = 1 }}, ready: "B",
		})
	}
	return list
}

// testRetriesEnd posts requests to a queue pair that answers no more: the first runs out of retries, the others flush.
// A row says where retries go on for ever.
func testRetriesEnd(t *test, row Case, timeout, retries uint8) {
	r := newRig(t,
		rigOptions{connect: func(_ string, o *verbs.ConnectOptions) { o.Timeout, o.RetryCount = timeout, retries }})
	r.b.to(verbs.StateError)
	r.a.post(r.a.request(1, write, 64), r.a.request(2, write, 64))
	if t.ignored(row) {
		for range 2 { // longer than all of them take
			r.never("take the row away: retries end", func() bool {
				return slices.ContainsFunc(r.a.sends.list, func(c verbs.Completion) bool { return c.Status == verbs.RetryExceeded })
			})
		}
		return
	}
	r.a.sends.want(1, verbs.RetryExceeded)
	r.a.sends.want(2, verbs.FlushError)
	r.a.wantError()
}

// testLateReceive: messages whose receives come while they are sent again.
func testLateReceive(r *rig) {
	if r.deviates(ReceiverNotReady) {
		return // as without a receive
	}
	fill(r.a.mem[:5000], 8)
	r.a.post(r.a.request(1, send, 5000), r.a.request(2, send, 10))
	r.quiet("before a receive is posted")
	r.b.receive(1, r.b.sge(0, 5000))
	r.b.receive(2, r.b.sge(8192, 10))
	r.a.sends.wantAll(1, 2)
	r.b.recvs.wantAll(1, 2)
	same(r, "message", r.b.mem, r.a.mem[:5000])
}

// testRefused posts what the transport does not have, or what no message can be.
func testRefused(t *test) {
	for _, transport := range t.transports(verbs.UC, verbs.UD) {
		r := newRig(t, rigOptions{transport: transport})
		for op := write; op <= fetchAdd; op++ {
			if !transport.Supports(op) {
				r.a.refuses(fmt.Sprintf("%v on %v", op, transport), r.a.request(1, op, 8))
			}
		}
	}
	info, most := t.A.Device.Info(), uint64(1)<<31
	if info.IWARP() {
		most = 1<<32 - 1 // RFC 5040, 4.1
	}
	if limit := info.Limits.MaxMessageBytes; limit == 0 || limit > most {
		t.Errorf("the largest message has %d bytes, want 1 to %d", limit, most)
	}
}

// testFlush breaks a queue pair with much posted: everything completes, in order, and what is posted later too.
func testFlush(t *test) {
	t.on("after an error", rigOptions{}, func(r *rig) {
		r.a.receives(100, 5, 64)
		r.b.receives(200, 5, 64)
		list := r.a.requests(6, write, 64)
		list[1].RKey ^= 0x12345600
		list[2].Flags, list[4].Flags = 0, 0 // flushed all the same
		r.a.post(list...)
		r.a.sends.want(0)
		r.a.sends.want(1, r.refused(write, verbs.RemoteAccessError))
		if r.deviates(RefusedByPeer) {
			return // how many of the others get through is a matter of luck
		}
		r.a.sends.wantAll(2, 4, verbs.FlushError)
		r.a.recvs.wantAll(100, 5, verbs.FlushError)
		r.b.recvs.wantAll(200, 5, verbs.FlushError)
		r.a.wantError()
		r.b.wantError()
		if r.ignored(PostAfterErrorFlushes) {
			return
		}
		r.a.postOne(50, write, 8)
		tooLong := r.a.split(0, 640, r.a.qp.Capabilities().RecvSGEs+1)
		if r.a.qp.PostReceive([]verbs.ReceiveRequest{{ID: 51}, {ID: 52, SGEs: tooLong}}) == nil {
			r.Error("a receive of too many entries was taken")
		}
		r.a.sends.want(50, verbs.FlushError)
		r.a.recvs.want(51, verbs.FlushError)
	})
	for _, transport := range transports() {
		t.on("on purpose, "+transport.String(), rigOptions{transport: transport}, func(r *rig) {
			r.b.receives(0, 5, 64)
			r.b.to(verbs.StateError)
			r.b.recvs.wantAll(0, 5, verbs.FlushError)
			r.quiet("after the flush")
		})
	}
}

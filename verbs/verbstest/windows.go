package verbstest

import (
	"github.com/gobw/gobw/verbs"
)

// The range that windows are bound to.
const windowAt, windowBytes = 8192, 4096

// bind asks for a new window of B onto its memory, under the next key: its low byte is the consumer's to choose.
func (r *rig) bind(at, length uint64) verbs.SendRequest {
	w := got(r.b.pd.AllocMW()).closing(r, "window")
	return verbs.SendRequest{ID: 1, Opcode: verbs.OpBindMW, Flags: verbs.Signaled, Bind: &verbs.MemoryWindowBind{
		Window: w, Region: r.b.mr, RKey: nextKey(w.RKey()), Addr: r.b.buf.Addr() + at, Length: length,
		Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead,
	}}
}

// bound is the request by which a window was bound, and again one for its next key.
func (r *rig) bound() (done, again verbs.SendRequest) {
	done = r.bind(windowAt, windowBytes)
	r.b.do(done)
	again, next := done, *done.Bind
	next.RKey = nextKey(next.RKey)
	again.Bind = &next
	return done, again
}

func nextKey(key uint32) uint32 { return key&^0xff | (key+1)&0xff }

// through leads a request through a bound window.
func through(q *verbs.SendRequest, window verbs.SendRequest, at int64) {
	q.RKey, q.RemoteAddr = window.Bind.RKey, window.Bind.Addr+uint64(at)
}

func invalidate(key uint32) verbs.SendRequest {
	return verbs.SendRequest{ID: 1, Opcode: verbs.OpLocalInvalidate, Flags: verbs.Signaled, InvalidateRKey: key}
}

// testWindows binds, uses and invalidates type 2 memory windows.
func testWindows(t *test) {
	if t.B.Device.Info().Limits.SendInvalidate && !t.ignored(InvalidatePlainRegion) {
		runTrials(t, []trial{{ // only windows may be invalidated that way
			name: "invalidate an ordinary region", op: verbs.OpSendWithInvalidate, receive: 64,
			rig:  rigOptions{connect: func(_ string, o *verbs.ConnectOptions) { o.Timeout, o.RetryCount = 10, 2 }},
			sent: t.status(InvalidatePlainRegion, verbs.RetryExceeded), or: verbs.RemoteAccessError, // class J, IBTA 9.9.6.3: no NAK
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) { q.InvalidateRKey = r.b.mr.RKey() },
		}})
	}
	if !t.B.Device.Info().Limits.MemoryWindow2 {
		t.Skip("the device has no type 2 memory windows")
	}
	const write, denied = verbs.OpWrite, verbs.RemoteAccessError
	outside := t.status(WindowRange, denied)
	o := rigOptions{access: allRemote | verbs.AccessMWBind}
	at := func(offset int64) func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) {
		return func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) {
			w, _ := r.bound()
			through(q, w, offset)
		}
	}
	runTrials(t, []trial{
		{name: "first bytes", rig: o, op: write, edit: at(0), lands: true},
		{name: "last bytes", rig: o, op: verbs.OpRead, edit: at(windowBytes - 64), lands: true},
		{name: "before", rig: o, op: write, edit: at(-1), sent: outside},
		{name: "behind", rig: o, op: write, edit: at(windowBytes - 63), sent: outside},
		{name: "a right it lacks", rig: o, op: verbs.OpFetchAdd, length: 8, edit: at(0), sent: denied, spared: true},
		{
			name: "another queue pair's", rig: o, op: write, sent: denied, spared: true,
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) {
				w, _ := newRig(r.test, rigOptions{access: o.access, pdB: r.b.pd}).bound()
				through(q, w, 0)
			},
		},
		{
			name: "old key", rig: o, op: write, sent: denied,
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) {
				old, again := r.bound()
				r.b.post(invalidate(old.Bind.RKey), again)
				r.b.sends.want(1, verbs.Success)
				r.b.sends.want(1, verbs.Success)
				good := *q
				through(&good, again, 0)
				r.a.do(good)
				through(q, old, 0)
			},
		},
		{
			name: "LOCAL_INV", rig: o, op: write, sent: denied, spared: true,
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) {
				w, _ := r.bound()
				r.b.do(invalidate(w.Bind.RKey))
				through(q, w, 0)
			},
		},
		{
			name: "SEND_WITH_INV", rig: o, op: write, sent: denied,
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) {
				w, _ := r.bound()
				r.b.receive(5, r.b.sge(0, 64))
				inv := r.a.request(2, verbs.OpSendWithInvalidate, 64)
				inv.InvalidateRKey = w.Bind.RKey
				r.a.do(inv)
				c := r.b.recvs.want(5, verbs.Success)
				if (c.Flags&verbs.WithInvalidate == 0 || c.InvalidatedRKey != w.Bind.RKey) && !t.ignored(InvalidatedKeyTold) {
					r.Errorf("flags %#x, key %#x; want the invalidated key %#x", c.Flags, c.InvalidatedRKey, w.Bind.RKey)
				}
				through(q, w, 0)
			},
		},
		{
			name: "zero-based", rig: o, op: write, lands: true,
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) {
				w := r.bind(windowAt, windowBytes)
				w.Bind.Access |= verbs.AccessZeroBased
				r.b.do(w)
				q.RKey, q.RemoteAddr = w.Bind.RKey, 8
				r.zeroAt = windowAt
			},
		},
		{
			name: "MW_BIND: LOCAL_INV of another queue pair's", rig: o, sent: t.status(InvalidateRefused, verbs.MWBindError), broken: "A",
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) {
				w, _ := newRig(r.test, rigOptions{access: o.access}).bound()
				*q = invalidate(w.Bind.RKey)
			},
		},
		{
			name: "MW_BIND: no bytes", rig: o, by: "B", sent: verbs.MWBindError,
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) { *q = r.bind(windowAt, 0) },
		},
		{
			name: "LOCAL_INV of an unknown key", rig: o, by: "B", sent: t.status(InvalidateRefused, verbs.MWBindError), broken: "B",
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) {
				w, _ := r.bound()
				*q = invalidate(w.Bind.Window.RKey() ^ 0x5a5a00)
			},
		},
		{
			name: "MW_BIND: bound already", rig: o, by: "B", sent: verbs.MWBindError,
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) { _, *q = r.bound() },
		},
		{
			name: "MW_BIND: out of the region", rig: o, by: "B", sent: verbs.MWBindError,
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) { *q = r.bind(64<<10-16, 32) },
		},
		{
			name: "MW_BIND: region without the right", by: "B", sent: verbs.MWBindError, refused: true,
			edit: func(r *rig, q *verbs.SendRequest, _ *verbs.SGE) { *q = r.bind(windowAt, windowBytes) },
		},
	})
}

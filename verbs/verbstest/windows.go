package verbstest

import (
	"github.com/gobw/gobw/verbs"
)

// The range that windows are bound to.
const windowAt, windowBytes = 8192, 4096

// bind asks for a new window of B onto its memory, under the next key: its low byte is the consumer's to choose.
func (r *rig) bind(at, length uint64) verbs.SendRequest {
	w := got(r.b.pd.AllocMW()).closing(r)
	return verbs.SendRequest{ID: 1, Opcode: verbs.OpBindMW, Flags: verbs.Signaled, Bind: &verbs.MemoryWindowBind{
		Window: w, Region: r.b.mr, RKey: nextKey(w.RKey()), Addr: r.b.buf.Addr() + at, Length: length,
		Access: verbs.AccessRemoteWrite | verbs.AccessRemoteRead,
	}}
}

// bound is the request by which a window was bound.
func (r *rig) bound() verbs.SendRequest {
	w := r.bind(windowAt, windowBytes)
	r.b.do(w)
	return w
}

// again binds a window anew, by its next key.
func again(window verbs.SendRequest) verbs.SendRequest {
	next := *window.Bind
	next.RKey = nextKey(next.RKey)
	window.Bind = &next
	return window
}

func nextKey(key uint32) uint32 { return key&^0xff | (key+1)&0xff }

// through leads the request through a bound window.
func (p *posting) through(window verbs.SendRequest, at int64) {
	p.RKey, p.RemoteAddr = window.Bind.RKey, window.Bind.Addr+uint64(at)
}

func invalidate(key uint32) verbs.SendRequest {
	return verbs.SendRequest{ID: 1, Opcode: verbs.OpLocalInvalidate, Flags: verbs.Signaled, InvalidateRKey: key}
}

// testWindows binds, uses and invalidates type 2 memory windows.
func testWindows(t *test) {
	if t.B.Device.Info().Limits.SendInvalidate && !t.ignored(InvalidatePlainRegion) {
		runTrials(t, []trial{{ // only windows may be invalidated that way
			name: "invalidate an ordinary region", op: verbs.OpSendWithInvalidate, receive: 64,
			rig: rigOptions{connect: func(_ string, o *verbs.ConnectOptions) { o.Timeout, o.RetryCount = 10, 2 }},
			// class J, IBTA 9.9.6.3: no NAK
			sent: t.status(InvalidatePlainRegion, verbs.RetryExceeded), or: verbs.RemoteAccessError,
			edit: func(p *posting) { p.InvalidateRKey = p.b.mr.RKey() },
		}})
	}
	if !t.B.Device.Info().Limits.MemoryWindow2 {
		t.Skip("the device has no type 2 memory windows")
	}
	const denied = verbs.RemoteAccessError
	outside := t.status(WindowRange, denied)
	invalidated := t.status(InvalidateRefused, verbs.MWBindError)
	foreign := t.status(InvalidateForeign, invalidated)
	o := rigOptions{access: allRemote | verbs.AccessMWBind}
	at := func(offset int64) func(p *posting) {
		return func(p *posting) { p.through(p.bound(), offset) }
	}
	list := []trial{
		{name: "first bytes", edit: at(0), lands: true},
		{name: "last bytes", op: read, edit: at(windowBytes - 64), lands: true},
		{
			name: "the low byte alone of a key is asked for", lands: true,
			edit: func(p *posting) {
				w := p.bind(windowAt, windowBytes)
				w.Bind.RKey ^= 0x5a5a5a00
				p.b.do(w)
				w.Bind.RKey = w.Bind.Window.RKey()
				p.through(w, 0)
			},
		},
		{name: "before", edit: at(-1), sent: outside},
		{name: "behind", edit: at(windowBytes - 63), sent: outside},
		{name: "a right it lacks", op: fetchAdd, length: 8, edit: at(0), sent: denied, spared: true},
		{
			name: "another queue pair's", sent: denied, spared: true,
			edit: func(p *posting) { p.through(newRig(p.test, rigOptions{access: o.access, pdB: p.b.pd}).bound(), 0) },
		},
		{
			name: "old key", sent: denied,
			edit: func(p *posting) {
				old := p.bound()
				next := again(old)
				p.b.post(invalidate(old.Bind.RKey), next)
				p.b.sends.want(1)
				p.b.sends.want(1)
				p.through(next, 0)
				p.a.do(p.SendRequest)
				p.through(old, 0)
			},
		},
		{
			name: "LOCAL_INV", sent: denied, spared: true,
			edit: func(p *posting) {
				w := p.bound()
				p.b.do(invalidate(w.Bind.RKey))
				p.through(w, 0)
			},
		},
		{
			name: "SEND_WITH_INV", sent: denied,
			edit: func(p *posting) {
				w := p.bound()
				p.b.receive(5, p.b.sge(0, 64))
				inv := p.a.request(2, verbs.OpSendWithInvalidate, 64)
				inv.InvalidateRKey = w.Bind.RKey
				p.a.do(inv)
				c := p.b.recvs.want(5)
				if (c.Flags&verbs.WithInvalidate == 0 || c.InvalidatedRKey != w.Bind.RKey) && !t.ignored(InvalidatedKeyTold) {
					p.Errorf("flags %#x, key %#x; want the invalidated key %#x", c.Flags, c.InvalidatedRKey, w.Bind.RKey)
				}
				p.through(w, 0)
			},
		},
		{
			name: "zero-based", lands: true,
			edit: func(p *posting) {
				w := p.bind(windowAt, windowBytes)
				w.Bind.Access |= verbs.AccessZeroBased
				p.b.do(w)
				p.RKey, p.RemoteAddr = w.Bind.RKey, 8
				p.zeroAt = windowAt
			},
		},
		{
			name: "MW_BIND: LOCAL_INV of another queue pair's", sent: foreign,
			broken: map[bool]string{true: "A"}[foreign != verbs.Success],
			edit: func(p *posting) {
				p.SendRequest = invalidate(newRig(p.test, o).bound().Bind.RKey)
			},
		},
		{
			name: "MW_BIND: no bytes", by: "B", sent: verbs.MWBindError,
			edit: func(p *posting) { p.SendRequest = p.bind(windowAt, 0) },
		},
		{
			name: "LOCAL_INV of an unknown key", by: "B", sent: invalidated, broken: "B",
			edit: func(p *posting) { p.SendRequest = invalidate(p.bound().Bind.Window.RKey() ^ 0x5a5a00) },
		},
		{
			name: "MW_BIND: bound already", by: "B", sent: verbs.MWBindError,
			edit: func(p *posting) { p.SendRequest = again(p.bound()) },
		},
		{
			name: "MW_BIND: out of the region", by: "B", sent: verbs.MWBindError,
			edit: func(p *posting) { p.SendRequest = p.bind(64<<10-16, 32) },
		},
	}
	for i := range list {
		list[i].rig = o
	}
	runTrials(t, append(list, trial{
		name: "MW_BIND: region without the right", by: "B", sent: verbs.MWBindError, refused: true,
		edit: func(p *posting) { p.SendRequest = p.bind(windowAt, windowBytes) },
	}))
}

package verbstest

import (
	"testing"

	"github.com/gobw/gobw/verbs"
)

// The range that windows are bound to, and what they let through.
const (
	windowAt, windowBytes = 8192, 4096
	windowRights          = verbs.AccessRemoteWrite | verbs.AccessRemoteRead
)

// windowRig is a rig whose B end has bound a window.
type windowRig struct {
	*rig
	w   verbs.MemoryWindow
	key uint32
}

func newWindowRig(t *testing.T, s *suite) windowRig {
	r := newUnboundRig(t, s, verbs.AccessMWBind)
	if c := r.b.do(r.bind(r.key, windowAt, windowBytes), verbs.Success); c.Opcode != verbs.CompletedBindMW {
		t.Errorf("completed as %v, want BIND_MW", c.Opcode)
	}
	return r
}

// newUnboundRig has a window that is not bound yet, and the key to bind it by.
func newUnboundRig(t *testing.T, s *suite, access verbs.Access) windowRig {
	r := newRig(t, s, rigOptions{access: allRemote | access})
	w := got(r.b.pd.AllocMW()).closing(t, "window")
	return windowRig{r, w, nextKey(w.RKey())}
}

// nextKey is a window's key with another low byte, which is the consumer's to choose.
func nextKey(key uint32) uint32 { return key&^0xff | (key+1)&0xff }

// through is A's request into the window, by any key.
func (r windowRig) through(id uint64, key uint32, op verbs.Opcode, at int64) verbs.SendRequest {
	q := r.a.request(id, op, 64)
	if op == verbs.OpFetchAdd {
		q.SGEs[0].Length = 8
	}
	q.RKey, q.RemoteAddr = key, r.b.buf.Addr()+uint64(windowAt+at)
	return q
}

// testWindows binds, uses and invalidates type 2 memory windows.
func testWindows(t *testing.T, s *suite) {
	t.Run("invalidate an ordinary region", func(t *testing.T) { testInvalidateRegion(t, s) })
	if !s.pair.B.Device.Info().Limits.MemoryWindow2 {
		t.Skip("the device has no type 2 memory windows")
	}
	outside, inv := s.dev.status(WindowRange, verbs.RemoteAccessError), func(key uint32) verbs.SendRequest {
		return verbs.SendRequest{ID: 7, Opcode: verbs.OpLocalInvalidate, Flags: verbs.Signaled, InvalidateRKey: key}
	}
	for _, tt := range []struct {
		name string
		at   string // by whom it is posted
		post func(r windowRig) verbs.SendRequest
		want verbs.Status
	}{
		{"first bytes", "A", func(r windowRig) verbs.SendRequest { return r.through(2, r.key, verbs.OpWrite, 0) }, verbs.Success},
		{"last bytes", "A", func(r windowRig) verbs.SendRequest { return r.through(2, r.key, verbs.OpRead, windowBytes-64) }, verbs.Success},
		{"before", "A", func(r windowRig) verbs.SendRequest { return r.through(2, r.key, verbs.OpWrite, -1) }, outside},
		{"behind", "A", func(r windowRig) verbs.SendRequest { return r.through(2, r.key, verbs.OpWrite, windowBytes-63) }, outside},
		{"a right it lacks", "A", func(r windowRig) verbs.SendRequest { return r.through(2, r.key, verbs.OpFetchAdd, 0) }, verbs.RemoteAccessError},
		{"LOC_QP_OP: LOCAL_INV of an unknown key", "B", func(r windowRig) verbs.SendRequest { return inv(r.w.RKey() ^ 0x5a5a00) }, verbs.LocalQPOperationError},
		{"MW_BIND: bound already", "B", func(r windowRig) verbs.SendRequest { return r.bind(nextKey(r.key), windowAt, windowBytes) }, verbs.MWBindError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newWindowRig(t, s)
			x := map[string]*side{"A": r.a, "B": r.b}[tt.at]
			x.do(tt.post(r), tt.want)
			if tt.want == verbs.LocalQPOperationError {
				x.wantError()
			}
		})
	}
	t.Run("old key", func(t *testing.T) {
		r := newWindowRig(t, s)
		next := nextKey(r.key)
		r.b.post(inv(r.key), r.bind(next, windowAt, windowBytes))
		r.b.wantSent(7, verbs.Success)
		r.b.wantSent(1, verbs.Success)
		r.a.do(r.through(2, next, verbs.OpWrite, 0), verbs.Success)
		r.a.do(r.through(3, r.key, verbs.OpWrite, 0), verbs.RemoteAccessError)
	})
	t.Run("another queue pair's", func(t *testing.T) {
		r := newWindowRig(t, s)
		other := newRig(t, s, rigOptions{pdB: r.b.pd})
		q := other.a.request(2, verbs.OpWrite, 64)
		q.RKey, q.RemoteAddr = r.key, r.b.buf.Addr()+windowAt
		other.a.do(q, verbs.RemoteAccessError)
	})
	t.Run("LOCAL_INV", func(t *testing.T) {
		r := newWindowRig(t, s)
		if c := r.b.do(inv(r.key), verbs.Success); c.Opcode != verbs.CompletedLocalInv {
			t.Errorf("completed as %v, want LOCAL_INV", c.Opcode)
		}
		r.a.do(r.through(2, r.key, verbs.OpWrite, 0), verbs.RemoteAccessError)
	})
	t.Run("SEND_WITH_INV", func(t *testing.T) {
		r := newWindowRig(t, s)
		r.b.receive(5, r.b.sge(0, 64))
		q := r.a.request(2, verbs.OpSendWithInvalidate, 64)
		q.InvalidateRKey = r.key
		r.a.do(q, verbs.Success)
		c := r.b.wantReceived(5, verbs.Success)
		if (c.Flags&verbs.WithInvalidate == 0 || c.InvalidatedRKey != r.key) && !s.dev.ignored(t, InvalidatedKeyTold) {
			t.Errorf("flags %#x, key %#x; want the invalidated key %#x", c.Flags, c.InvalidatedRKey, r.key)
		}
		r.a.do(r.through(3, r.key, verbs.OpWrite, 0), verbs.RemoteAccessError)
	})
	testRefusedBinds(t, s)
}

// testRefusedBinds binds what may not be bound.
func testRefusedBinds(t *testing.T, s *suite) {
	t.Run("MW_BIND: out of the region", func(t *testing.T) {
		r := newUnboundRig(t, s, verbs.AccessMWBind)
		r.b.do(r.bind(r.key, 64<<10-16, 32), verbs.MWBindError)
	})
	t.Run("MW_BIND: region without the right", func(t *testing.T) {
		r := newUnboundRig(t, s, 0)
		q := r.bind(r.key, windowAt, windowBytes)
		if err := r.b.qp.PostSend([]verbs.SendRequest{q}); err == nil { // refusing it at once is as good
			r.b.wantSent(1, s.dev.status(WindowBindRefused, verbs.MWBindError))
		}
	})
}

// bind asks for r's window to be bound at B by a key.
func (r windowRig) bind(key uint32, at, length uint64) verbs.SendRequest {
	return verbs.SendRequest{
		ID: 1, Opcode: verbs.OpBindMW, Flags: verbs.Signaled,
		Bind: &verbs.MemoryWindowBind{Window: r.w, Region: r.b.mr, RKey: key, Addr: r.b.buf.Addr() + at, Length: length, Access: windowRights},
	}
}

// testInvalidateRegion names an ordinary region in a SEND_WITH_INV: only windows may be invalidated that way, and the
// region stays usable.
func testInvalidateRegion(t *testing.T, s *suite) {
	if !s.pair.B.Device.Info().Limits.SendInvalidate || s.dev.ignored(t, InvalidatePlainRegion) {
		t.Skip("the device does not take SEND_WITH_INV, or promises nothing here")
	}
	r := newRig(t, s, rigOptions{})
	r.b.receive(1, r.b.sge(0, 64))
	q := r.a.request(1, verbs.OpSendWithInvalidate, 8)
	q.InvalidateRKey = r.b.mr.RKey()
	r.a.post(q)
	c := r.a.next("send", &r.a.sends)
	if want := s.dev.status(InvalidatePlainRegion, verbs.RemoteAccessError); c.Status != want && c.Status != verbs.RemoteInvalidRequestError {
		t.Errorf("completed with %v, want %v or REM_INV_REQ_ERR", c.Status, want)
	}
}

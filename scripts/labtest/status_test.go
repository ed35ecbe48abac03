//go:build lab && linux

package labtest

import (
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
)

// TestStatus lets requests fail and compares both ends' statuses with the specification, or with what the kernel's
// device is known to do instead.
func TestStatus(t *testing.T) {
	for _, d := range directions(t) {
		t.Run(d.name, func(t *testing.T) {
			for _, c := range statusCases {
				t.Run(c.name, func(t *testing.T) { c.run(t, d) })
			}
		})
	}
}

var statusCases = []struct {
	name string
	run  func(*testing.T, direction)
}{
	{"rnr-then-receive", rnrThenReceive},
	{"rnr-exceeded", rnrExceeded},
	{"bad-rkey/write", func(t *testing.T, d direction) { refused(t, d, verbs.OpWrite, badKey) }},
	{"bad-rkey/read", func(t *testing.T, d direction) { refused(t, d, verbs.OpRead, badKey) }},
	{"bad-rkey/atomic", func(t *testing.T, d direction) { refused(t, d, verbs.OpFetchAdd, badKey) }},
	{"outside/write", func(t *testing.T, d direction) { refused(t, d, verbs.OpWrite, outside) }},
	{"outside/read", func(t *testing.T, d direction) { refused(t, d, verbs.OpRead, outside) }},
	{"short-receive", shortReceive},
	{"gone", gone},
	{"flush", flush},
}

// rnrThenReceive sends before a receive is there; it comes a little later, and everything arrives.
func rnrThenReceive(t *testing.T, d direction) {
	p := connect(t, d.from, d.to, pairOptions{})
	fill(p.from.bytes()[:6000], 3)
	clear(p.to.bytes()[:6000])
	p.from.post(t, p.request(1, verbs.OpSend, 0, 6000, 0))
	if p.untilFor(t, 50*time.Millisecond, func() bool { return len(p.from.done)+len(p.to.done) > 0 }) {
		t.Fatalf("completed without a receive: %v %v", p.from.done, p.to.done)
	}
	p.to.receive(t, verbs.ReceiveRequest{ID: 1, SGEs: []verbs.SGE{p.to.sge(0, 6000)}})
	p.succeed(t, p.from, 1, verbs.CompletedSend)
	p.arrived(t, verbs.OpSend, 1, 6000)
	if at := filled(p.to.bytes()[:6000], 3); at >= 0 {
		t.Errorf("byte %d differs", at)
	}
}

func rnrExceeded(t *testing.T, d direction) {
	p := connect(t, d.from, d.to, pairOptions{rnrRetry: 2})
	p.from.post(t, p.request(1, verbs.OpSend, 0, 100, 0))
	if s := p.fails(t, p.from); s != verbs.RNRRetryExceeded {
		t.Errorf("%s: %v, want %v", p.from.name, s, verbs.RNRRetryExceeded)
	}
	p.inError(t, p.from)
}

// wrong is what is wrong with a request.
type wrong uint8

const (
	badKey wrong = iota
	outside
)

// refused sends a request that the other end's memory protection must refuse.
func refused(t *testing.T, d direction, op verbs.Opcode, w wrong) {
	p := connect(t, d.from, d.to, pairOptions{})
	size := 5000
	if op == verbs.OpFetchAdd {
		size = 8
	}
	r := p.request(1, op, 0, size, 0)
	if w == badKey {
		r.RKey ^= 0x5a5a00
	} else {
		r.RemoteAddr += bufferBytes - 100
	}
	fill(p.to.bytes(), 1)
	p.from.post(t, r)
	if s := p.fails(t, p.from); s != verbs.RemoteAccessError {
		t.Errorf("%s: %v, want %v", p.from.name, s, verbs.RemoteAccessError)
	}
	if at := filled(p.to.bytes(), 1); at >= 0 {
		t.Errorf("the refused %v changed byte %d", op, at)
	}
	p.inError(t, p.from)
	p.inError(t, p.to)
}

// shortReceive sends more than the receive holds (IBTA 9.9.2.4: LOC_LEN_ERR there, REM_INV_REQ_ERR here). rxe answers
// with a local queue pair error on the receive and, at the requester, a remote operation error or invalid request.
func shortReceive(t *testing.T, d direction) {
	p := connect(t, d.from, d.to, pairOptions{})
	p.to.receive(t, verbs.ReceiveRequest{ID: 1, SGEs: []verbs.SGE{p.to.sge(0, 100)}})
	p.from.post(t, p.request(1, verbs.OpSend, 0, 200, 0))
	from, to := p.fails(t, p.from), p.fails(t, p.to)
	wantFrom, wantTo := []verbs.Status{verbs.RemoteInvalidRequestError}, []verbs.Status{verbs.LocalLengthError}
	if p.to.dev.Info().Provider == "ibv" { // rxe_resp.c: RESPST_ERR_LENGTH of a receive
		wantFrom, wantTo = append(wantFrom, verbs.RemoteOperationError), append(wantTo, verbs.LocalQPOperationError)
	}
	if !slices.Contains(wantFrom, from) || !slices.Contains(wantTo, to) {
		t.Errorf("%s: %v, %s: %v; want %v and %v", p.from.name, from, p.to.name, to, wantFrom, wantTo)
	}
}

// gone sends to a queue pair that is no longer there.
func gone(t *testing.T, d direction) {
	p := connect(t, d.from, d.to, pairOptions{retry: 2, timeout: 10})
	p.to.do(func() {
		if err := p.to.qp.Modify(verbs.QueuePairAttributes{Mask: verbs.AttrState, State: verbs.StateReset}); err != nil {
			t.Error(err)
		}
	})
	p.from.post(t, p.request(1, verbs.OpWrite, 0, 100, 0))
	if s := p.fails(t, p.from); s != verbs.RetryExceeded {
		t.Errorf("%s: %v, want %v", p.from.name, s, verbs.RetryExceeded)
	}
	p.inError(t, p.from)
}

// flush lets three requests follow one that fails: they are flushed, in order.
func flush(t *testing.T, d direction) {
	p := connect(t, d.from, d.to, pairOptions{})
	bad := p.request(1, verbs.OpWrite, 0, 10, 0)
	bad.RKey ^= 0x5a5a00
	p.from.post(t, bad, p.request(2, verbs.OpWrite, 0, 10, 0), p.request(3, verbs.OpSend, 0, 10, 0),
		p.request(4, verbs.OpRead, 0, 10, 0))
	want := []verbs.Status{verbs.RemoteAccessError, verbs.FlushError, verbs.FlushError, verbs.FlushError}
	for i, c := range p.await(t, p.from, 4) {
		if c.ID != uint64(i+1) || c.Status != want[i] {
			t.Errorf("completion %d: request %d, %v; want %d, %v", i, c.ID, c.Status, i+1, want[i])
		}
	}
}

// inError waits until a half's queue pair is in state ERR.
func (p *pair) inError(t *testing.T, h *half) {
	t.Helper()
	state := verbs.StateRTS
	if !p.until(t, func() bool {
		h.do(func() {
			state = h.qp.State()
			if a, err := h.qp.Query(); err == nil {
				state = a.State
			}
		})
		return state == verbs.StateError
	}) {
		t.Errorf("%s: queue pair in %v, want %v", h.name, state, verbs.StateError)
	}
}

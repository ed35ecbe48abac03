package verbstest

import (
	"errors"
	"net/netip"
	"os"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// newGroup is a multicast group of the ends' family that no other test has.
func newGroup(s *suite) verbs.GID {
	id, n := os.Getpid(), addresses.Add(1)
	if s.pair.A.GID.Addr().Is4() {
		return verbs.GIDFromAddr(netip.AddrFrom4([4]byte{239, 192 | byte(id>>8&63), byte(id), byte(1 + n%254)})) // RFC 2365: of an organisation
	}
	return verbs.GID{0: 0xff, 1: 0x12, 12: byte(id >> 16), 13: byte(id >> 8), 14: byte(id), 15: byte(1 + n%254)} // RFC 4291: of a link
}

// attach attaches a side's queue pair to a group for the rest of the test.
func (x *side) attach(group verbs.GID) {
	t := x.r.t
	t.Helper()
	if err := x.qp.AttachMulticast(group, 0); err != nil {
		t.Fatalf("attach %s to %v: %v", x.name, group, err)
	}
	t.Cleanup(func() {
		if err := x.qp.DetachMulticast(group, 0); err != nil {
			t.Errorf("detach %s from %v: %v", x.name, group, err)
		}
	})
}

// toGroup is request 1, which sends to a group.
func (x *side) toGroup(group verbs.GID, length int) verbs.SendRequest {
	t := x.r.t
	t.Helper()
	to := x.vector(x.peer())
	to.DGID = group
	ah := got(x.pd.CreateAH(to)).closing(t, "AH")
	q := x.request(1, verbs.OpSend, length)
	q.AH, q.RemoteQPN = ah, verbs.MulticastQPN
	return q
}

func testMulticast(t *testing.T, s *suite) {
	t.Run("refused", func(t *testing.T) { testRefusedGroups(t, s) })
	if s.dev.ignored(t, MulticastDelivered) {
		return
	}
	t.Run("a copy each", func(t *testing.T) {
		group := newGroup(s)
		r, other := newRig(t, s, rigOptions{transport: verbs.UD}), newRig(t, s, rigOptions{transport: verbs.UD})
		r.b.attach(group)
		if err := r.b.qp.AttachMulticast(group, 0); err != nil {
			t.Errorf("attach B to %v once more: %v", group, err)
		}
		other.b.attach(group)
		fill(r.a.buf.Bytes()[:100], 1)
		for _, x := range []*side{r.b, other.b} {
			x.receive(1, x.sge(0, 256))
		}
		r.a.do(r.a.toGroup(group, 100), verbs.Success)
		for _, x := range []*side{r.b, other.b} {
			if c := x.wantReceived(1, verbs.Success); c.SourceQPN != r.a.qp.QPN() || c.Bytes != 100+verbs.GRHBytes {
				t.Errorf("%d bytes from qp %#x, want %d from %#x", c.Bytes, c.SourceQPN, 100+verbs.GRHBytes, r.a.qp.QPN())
			}
			b := x.buf.Bytes()
			same(t, "copy", b[verbs.GRHBytes:], r.a.buf.Bytes()[:100])
			if to := verbs.GID(b[24:40]); group.Addr().Is4() && [4]byte(b[36:]) != group.Addr().As4() || !group.Addr().Is4() && to != group {
				t.Errorf("GRH %x: want the group %v as destination", b[:verbs.GRHBytes], group)
			}
		}
		r.b.receive(2, r.b.sge(0, 256)) // attached twice, it gets one copy
		r.quiet("after a message to a group")
	})
	t.Run("its own Q_Key", func(t *testing.T) {
		group := newGroup(s)
		r := newRig(t, s, rigOptions{transport: verbs.UD})
		r.b.attach(group)
		r.b.receive(1, r.b.sge(0, 256))
		bad := r.a.toGroup(group, 64)
		bad.RemoteQKey++
		r.a.do(bad, verbs.Success)
		r.quiet("after a message to a group with a wrong Q_Key")
	})
	for name, prepare := range map[string]func(b *side, group verbs.GID) error{
		"not attached": func(b *side, _ verbs.GID) error {
			b.attach(newGroup(s))
			return nil
		},
		"detached": func(b *side, group verbs.GID) error {
			return errors.Join(b.qp.AttachMulticast(group, 0), b.qp.DetachMulticast(group, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			group := newGroup(s)
			r, other := newRig(t, s, rigOptions{transport: verbs.UD}), newRig(t, s, rigOptions{transport: verbs.UD})
			other.b.attach(group)
			if err := prepare(r.b, group); err != nil {
				t.Fatal(err)
			}
			r.b.receive(1, r.b.sge(0, 256))
			other.b.receive(1, other.b.sge(0, 256))
			r.a.do(r.a.toGroup(group, 64), verbs.Success)
			other.b.wantReceived(1, verbs.Success)
			r.quiet("after a message to a group that it is not in")
			if err := r.b.qp.DetachMulticast(group, 0); err == nil {
				t.Error("detached from a group that it is not attached to")
			}
		})
	}
}

// testRefusedGroups: only UD has groups, a group has a multicast address, and who is attached to one stays open.
func testRefusedGroups(t *testing.T, s *suite) {
	group := newGroup(s)
	r := newRig(t, s, rigOptions{})
	if err := r.b.qp.AttachMulticast(group, 0); err == nil {
		t.Error("an RC queue pair was attached to a multicast group")
	}
	r = newRig(t, s, rigOptions{transport: verbs.UD})
	if err := r.b.qp.AttachMulticast(s.pair.B.GID, 0); err == nil {
		t.Errorf("%v was taken for a multicast group", s.pair.B.GID)
	}
	if err := r.b.qp.DetachMulticast(group, 0); err == nil {
		t.Error("detached from a group that it is not attached to")
	}
	r.b.attach(group)
	if err := r.b.qp.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("a queue pair attached to a group was closed: %v", err)
	}
}

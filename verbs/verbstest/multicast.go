package verbstest

import (
	"errors"
	"net/netip"
	"os"

	"github.com/gobw/gobw/verbs"
)

// newGroup is a multicast group of the ends' family that no other test has.
func newGroup(t *test) verbs.GID {
	id, n := os.Getpid(), addresses.Add(1)
	if t.A.GID.Addr().Is4() {
		// RFC 2365: of an organisation
		return verbs.GIDFromAddr(netip.AddrFrom4([4]byte{239, 192 | byte(id>>8&63), byte(id), byte(1 + n%254)}))
	}
	// RFC 4291: of a link
	return verbs.GID{0: 0xff, 1: 0x12, 12: byte(id >> 16), 13: byte(id >> 8), 14: byte(id), 15: byte(1 + n%254)}
}

// attach attaches a side's queue pair to a group for the rest of the test.
func (x *side) attach(group verbs.GID) error {
	t := x.r
	err := x.qp.AttachMulticast(group, 0)
	if err == nil {
		t.Cleanup(func() {
			if err := x.qp.DetachMulticast(group, 0); err != nil {
				t.Errorf("detach %s from %v: %v", x.name, group, err)
			}
		})
	}
	return err
}

// toGroup is request 1, which sends to a group.
func (x *side) toGroup(group verbs.GID, length int) verbs.SendRequest {
	t := x.r
	t.Helper()
	to := x.vector(x.peer())
	to.DGID = group
	ah := x.addressHandle(to)
	q := x.request(1, send, length)
	q.AH, q.RemoteQPN = ah, verbs.MulticastQPN
	return q
}

func testMulticast(t *test) {
	ud := rigOptions{transport: verbs.UD}
	t.on("refused", ud, testRefusedGroups)
	if t.ignored(MulticastDelivered) {
		return
	}
	for _, tt := range []struct {
		name    string
		prepare func(b *side, group verbs.GID) error
		qKey    uint32 // more than the group's
		gets    bool   // B a copy, besides another end that is attached
	}{
		{"a copy each", func(b *side, group verbs.GID) error {
			return errors.Join(b.attach(group), b.qp.AttachMulticast(group, 0)) // once more: it gets one copy
		}, 0, true},
		{"its own Q_Key", func(b *side, group verbs.GID) error { return b.attach(group) }, 1, false},
		{"not attached", func(b *side, _ verbs.GID) error { return b.attach(newGroup(b.r.test)) }, 0, false},
		{"detached", func(b *side, group verbs.GID) error {
			return errors.Join(b.qp.AttachMulticast(group, 0), b.qp.DetachMulticast(group, 0))
		}, 0, false},
	} {
		t.on(tt.name, ud, func(r *rig) {
			group, other := newGroup(r.test), newRig(r.test, ud)
			if err := errors.Join(other.b.attach(group), tt.prepare(r.b, group)); err != nil {
				r.Fatal(err)
			}
			r.refill(256)
			r.b.receives(1, 2, 256)
			other.b.receives(1, 2, 256)
			q := r.a.toGroup(group, 100)
			q.RemoteQKey += tt.qKey
			r.a.do(q)
			if tt.qKey == 0 {
				other.b.wantCopy(r.a, group)
			}
			if tt.gets {
				r.b.wantCopy(r.a, group)
			}
			r.quiet("besides the copies of a message to a group")
		})
	}
}

// wantCopy waits for a side's copy of the 100 bytes that another has sent to a group.
func (x *side) wantCopy(from *side, group verbs.GID) {
	t, b := x.r, x.mem
	t.Helper()
	if c := x.recvs.want(1); c.SourceQPN != from.qp.QPN() || c.Bytes != 100+verbs.GRHBytes {
		t.Errorf("%d bytes from qp %#x, want %d from %#x", c.Bytes, c.SourceQPN, 100+verbs.GRHBytes, from.qp.QPN())
	}
	same(t, "copy", b[verbs.GRHBytes:], from.mem[:100])
	if to := verbs.GID(b[24:40]); group.Addr().Is4() && [4]byte(b[36:]) != group.Addr().As4() ||
		!group.Addr().Is4() && to != group {
		t.Errorf("GRH %x: want the group %v as destination", b[:verbs.GRHBytes], group)
	}
}

// testRefusedGroups: only UD has groups, a group has a multicast address, and who is attached to one stays open.
func testRefusedGroups(r *rig) {
	group := newGroup(r.test)
	if newRig(r.test, rigOptions{}).b.qp.AttachMulticast(group, 0) == nil {
		r.Error("an RC queue pair was attached to a multicast group")
	}
	if r.b.qp.AttachMulticast(r.B.GID, 0) == nil {
		r.Errorf("%v was taken for a multicast group", r.B.GID)
	}
	if r.b.qp.DetachMulticast(group, 0) == nil {
		r.Error("detached from a group that it is not attached to")
	}
	if err := r.b.attach(group); err != nil {
		r.Error(err)
	}
	if err := r.b.qp.Close(); !errors.Is(err, verbs.ErrBusy) {
		r.Errorf("a queue pair attached to a group was closed: %v", err)
	}
}

package verbstest

import (
	"fmt"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// testMemory registers memory in good and bad ways.
func testMemory(t *testing.T, s *suite) {
	pd := must[verbs.ProtectionDomain](t, "allocate domain")(s.pair.A.Device.AllocPD())
	closing(t, "domain", pd)
	buf := must[*verbs.Buffer](t, "allocate memory")(verbs.Alloc(1<<16, verbs.MemoryOptions{}))
	closing(t, "memory", buf)

	whole := must[verbs.MemoryRegion](t, "register")(pd.RegisterMemory(buf.Bytes(), allRemote))
	closing(t, "region", whole)
	if whole.Addr() != buf.Addr() || whole.Len() != buf.Len() {
		t.Errorf("region at %#x of %d bytes, want %#x of %d", whole.Addr(), whole.Len(), buf.Addr(), buf.Len())
	}
	part := must[verbs.MemoryRegion](t, "register a part")(pd.RegisterMemory(buf.Bytes()[100:300], verbs.AccessLocalWrite))
	closing(t, "region", part)
	if part.Addr() != buf.Addr()+100 || part.Len() != 200 {
		t.Errorf("region at %#x of %d bytes, want %#x of 200", part.Addr(), part.Len(), buf.Addr()+100)
	}
	if part.LKey() == whole.LKey() {
		t.Errorf("two regions share lkey %#x", part.LKey())
	}
	for _, a := range []verbs.Access{verbs.AccessRemoteWrite, verbs.AccessRemoteAtomic} {
		mr, err := pd.RegisterMemory(buf.Bytes(), a)
		if err != nil {
			continue
		}
		closing(t, "region", mr)
		if !s.dev.ignored(t, LocalWriteRequired) {
			t.Errorf("%v without LOCAL_WRITE was granted", a)
		}
	}
	if mr, err := pd.RegisterMemory(nil, verbs.AccessLocalWrite); err == nil {
		t.Error("no memory was registered")
		closing(t, "region", mr)
	}
}

// testBounds tries every way for a remote address to leave its region.
func testBounds(t *testing.T, s *suite) {
	const size, base, length = 64 << 10, 8192, 4096
	for _, op := range []verbs.Opcode{verbs.OpWrite, verbs.OpRead} {
		for _, tt := range []struct {
			name   string
			start  int64 // from the region's first byte
			length int
			want   verbs.Status
		}{
			{"all of it", 0, length, verbs.Success},
			{"its last byte", length - 1, 1, verbs.Success},
			{"nothing, just behind", length, 0, verbs.Success},
			{"nothing, anywhere", 1 << 40, 0, verbs.Success},
			{"one byte before", -1, 1, verbs.RemoteAccessError},
			{"from one byte before", -1, length, verbs.RemoteAccessError},
			{"one byte behind", length, 1, verbs.RemoteAccessError},
			{"one byte too long", 0, length + 1, verbs.RemoteAccessError},
			{"packets too long", length - 2048, 3 * 4096, verbs.RemoteAccessError},
			{"around the address space", -1 << 40, length, verbs.RemoteAccessError},
		} {
			t.Run(fmt.Sprintf("%v %s", op, tt.name), func(t *testing.T) {
				r := newRig(t, s, rigOptions{bytes: size})
				target := r.b.buf.Bytes()
				for i := range target {
					target[i] = 0xee
				}
				mr := must[verbs.MemoryRegion](t, "register a part")(r.b.pd.RegisterMemory(target[base:base+length], allRemote))
				closing(t, "region", mr)
				fill(r.a.buf.Bytes(), 5)
				q := r.a.request(1, op, tt.length)
				if tt.length == 0 {
					q.SGEs = nil
				}
				q.RemoteAddr, q.RKey = mr.Addr()+uint64(tt.start), mr.RKey()
				r.a.post(q)
				want := tt.want
				if want != verbs.Success {
					want = s.refused(op, want)
				}
				r.a.wantSent(1, want)
				if !allAre(target[:base], 0xee) || !allAre(target[base+length:], 0xee) {
					t.Error("memory outside the region was written")
				}
				if tt.want != verbs.Success && !allAre(target, 0xee) {
					t.Error("a refused request wrote")
				}
			})
		}
	}
}

// testDomains uses keys of one protection domain in another, and keys that are no longer valid.
func testDomains(t *testing.T, s *suite) {
	other := func(t *testing.T, x *side, access verbs.Access) verbs.MemoryRegion {
		pd := must[verbs.ProtectionDomain](t, "allocate domain")(x.end.Device.AllocPD())
		closing(t, "domain", pd)
		mr := must[verbs.MemoryRegion](t, "register")(pd.RegisterMemory(x.buf.Bytes(), access))
		closing(t, "region", mr)
		return mr
	}
	t.Run("lkey of another domain", func(t *testing.T) {
		r := newRig(t, s, rigOptions{})
		q := r.a.request(1, verbs.OpWrite, 64)
		q.SGEs[0].LKey = other(t, r.a, allRemote).LKey()
		r.a.post(q)
		r.a.wantSent(1, s.dev.status(BadLKeySend, verbs.LocalProtectionError))
	})
	t.Run("rkey of another domain", func(t *testing.T) {
		r := newRig(t, s, rigOptions{})
		q := r.a.request(1, verbs.OpWrite, 64)
		q.RKey = other(t, r.b, allRemote).RKey()
		r.a.post(q)
		r.a.wantSent(1, s.refused(verbs.OpWrite, verbs.RemoteAccessError))
	})
	t.Run("rkey of a closed region", func(t *testing.T) {
		r := newRig(t, s, rigOptions{})
		mr := must[verbs.MemoryRegion](t, "register")(r.b.pd.RegisterMemory(r.b.buf.Bytes(), allRemote))
		q := r.a.request(1, verbs.OpWrite, 64)
		q.RKey = mr.RKey()
		if err := mr.Close(); err != nil {
			t.Fatal(err)
		}
		r.a.post(q)
		r.a.wantSent(1, s.refused(verbs.OpWrite, verbs.RemoteAccessError))
	})
	for _, tt := range []struct {
		op     verbs.Opcode
		access verbs.Access
	}{
		{verbs.OpWrite, allRemote &^ verbs.AccessRemoteWrite},
		{verbs.OpRead, allRemote &^ verbs.AccessRemoteRead},
		{verbs.OpFetchAdd, allRemote &^ verbs.AccessRemoteAtomic},
		{verbs.OpCompareSwap, allRemote &^ verbs.AccessRemoteAtomic},
	} {
		t.Run(fmt.Sprintf("%v without the region's right", tt.op), func(t *testing.T) {
			r := newRig(t, s, rigOptions{})
			mr := must[verbs.MemoryRegion](t, "register")(r.b.pd.RegisterMemory(r.b.buf.Bytes(), tt.access))
			closing(t, "region", mr)
			q := r.a.request(1, tt.op, 8)
			q.RKey = mr.RKey()
			r.a.post(q)
			r.a.wantSent(1, s.notAllowed(tt.op, verbs.RemoteAccessError))
			r.a.wantError()
			r.b.wantError()
		})
	}
}

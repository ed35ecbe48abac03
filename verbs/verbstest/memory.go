package verbstest

import (
	"errors"
	"fmt"

	"github.com/gobw/gobw/verbs"
)

// testMemory registers memory in good and bad ways.
func testMemory(t *test) {
	pd := got(t.A.Device.AllocPD()).closing(t)
	buf := got(verbs.Alloc(1<<16, verbs.MemoryOptions{})).closing(t)

	whole := got(pd.RegisterMemory(buf, 0, buf.Len(), allRemote)).closing(t)
	if whole.Addr() != buf.Addr() || whole.Len() != buf.Len() {
		t.Errorf("region at %#x of %d bytes, want %#x of %d", whole.Addr(), whole.Len(), buf.Addr(), buf.Len())
	}
	part := got(pd.RegisterMemory(buf, 100, 200, verbs.AccessLocalWrite)).closing(t)
	if part.Addr() != buf.Addr()+100 || part.Len() != 200 {
		t.Errorf("region at %#x of %d bytes, want %#x of 200", part.Addr(), part.Len(), buf.Addr()+100)
	}
	if part.LKey() == whole.LKey() {
		t.Errorf("two regions share lkey %#x", part.LKey())
	}
	for _, a := range []verbs.Access{verbs.AccessRemoteWrite, verbs.AccessRemoteAtomic} {
		if closed(pd.RegisterMemory(buf, 0, buf.Len(), a)) == nil && !t.ignored(LocalWriteRequired) {
			t.Errorf("%v without LOCAL_WRITE was granted", a)
		}
	}
	for _, tt := range [][2]int{{0, 0}, {-1, 1}, {buf.Len(), 1}, {1, buf.Len()}} {
		if closed(pd.RegisterMemory(buf, tt[0], tt[1], verbs.AccessLocalWrite)) == nil {
			t.Errorf("%d bytes from %d on of a buffer of %d were registered", tt[1], tt[0], buf.Len())
		}
	}
	if err := buf.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Errorf("closing a buffer with regions: %v, want ErrBusy", err)
	}
	fill(buf.Bytes(), 1) // it is still there
}

// testBounds tries every way for a remote address to leave its region.
func testBounds(t *test) {
	const base, length = 8192, 4096
	var list []trial
	for _, op := range []verbs.Opcode{write, read} {
		for _, tt := range []struct {
			name   string
			start  int64 // from the region's first byte
			length int
			inside bool
		}{
			{"all of it", 0, length, true},
			{"its last byte", length - 1, 1, true},
			{"nothing, just behind", length, 0, true},
			{"nothing, anywhere", 1 << 40, 0, true},
			{"one byte before", -1, 1, false},
			{"from one byte before", -1, length, false},
			{"one byte behind", length, 1, false},
			{"one byte too long", 0, length + 1, false},
			{"packets too long", length - 2048, 3 * 4096, false},
			{"around the address space", -1 << 40, length, false},
		} {
			c := trial{
				name: fmt.Sprintf("%v %s", op, tt.name), op: op, length: tt.length, lands: tt.inside, spared: !tt.inside,
				edit: func(p *posting) {
					mr := got(p.b.pd.RegisterMemory(p.b.buf, base, length, allRemote)).closing(p)
					p.RemoteAddr, p.RKey = mr.Addr()+uint64(tt.start), mr.RKey()
					if tt.length == 0 {
						p.SGEs = nil
					}
				},
			}
			if !tt.inside {
				c.sent = t.refused(op, verbs.RemoteAccessError)
			}
			list = append(list, c)
		}
	}
	runTrials(t, list)
}

// testDomains uses keys of one protection domain in another, and keys that are no longer valid or lack a right.
func testDomains(t *test) {
	other := func(x *side) verbs.MemoryRegion {
		pd := got(x.end.Device.AllocPD()).closing(x.r)
		return got(pd.RegisterMemory(x.buf, 0, x.buf.Len(), allRemote)).closing(x.r)
	}
	refused := t.refused(write, verbs.RemoteAccessError)
	list := []trial{
		{
			name: "lkey of another domain", sent: t.status(BadLKeySend, verbs.LocalProtectionError),
			edit: func(p *posting) { p.SGEs[0].LKey = other(p.a).LKey() },
		},
		{
			name: "rkey of another domain", sent: refused,
			edit: func(p *posting) { p.RKey = other(p.b).RKey() },
		},
		{
			name: "rkey of a closed region", sent: refused,
			edit: func(p *posting) {
				mr := got(p.b.pd.RegisterMemory(p.b.buf, 0, p.b.buf.Len(), allRemote)).need(p)
				p.RKey = mr.RKey()
				closeAll(p, mr)
			},
		},
	}
	for op, less := range map[verbs.Opcode]verbs.Access{
		write: verbs.AccessRemoteWrite, read: verbs.AccessRemoteRead,
		fetchAdd: verbs.AccessRemoteAtomic, compareSwap: verbs.AccessRemoteAtomic,
	} {
		list = append(list, trial{
			name: fmt.Sprintf("%v without the region's right", op), op: op, length: 8,
			sent: t.notAllowed(op, verbs.RemoteAccessError), broken: "AB",
			edit: func(p *posting) {
				p.RKey = p.b.region(allRemote &^ less).RKey()
			},
		})
	}
	runTrials(t, list)
}

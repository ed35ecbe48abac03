package verbstest

import (
	"runtime"

	"github.com/gobw/gobw/verbs"
)

// testDevice checks what a device says of itself.
func testDevice(t *test) {
	for _, e := range []End{t.A, t.B} {
		info := e.Device.Info()
		if info.Name == "" || info.Provider == "" || info.Ports < 1 {
			t.Errorf("device %+v: want a name, a provider and at least one port", info)
		}
		l := info.Limits
		for name, v := range map[string]int{
			"queue pairs": l.MaxQP, "work requests": l.MaxQPWR, "scatter/gather entries": l.MaxSGE, "completion queues": l.MaxCQ,
			"completion queue entries": l.MaxCQE, "regions": l.MaxMR, "domains": l.MaxPD,
		} {
			if v < 1 {
				t.Errorf("%s grants %d %s, want at least 1", info.Name, v, name)
			}
		}
		testPort(t, e)
	}
	if _, err := t.A.Device.Port(99); err == nil {
		t.Error("port 99 was found")
	}
}

func testPort(t *test, e End) {
	t.Helper()
	p, err := e.Device.Port(max(e.Port, 1))
	if err != nil {
		t.Fatalf("port: %v", err)
	}
	if p.State != verbs.PortActive || p.ActiveMTU.Bytes() == 0 || p.ActiveMTU > p.MaxMTU {
		t.Errorf("port %+v: want ACTIVE with an active MTU up to the largest", p)
	}
	gids, err := e.Device.GIDs(max(e.Port, 1))
	if err != nil {
		t.Fatalf("GIDs: %v", err)
	}
	found := false
	for _, g := range gids {
		if g.GID.IsZero() {
			t.Errorf("GID table has an empty entry at %d", g.Index)
		}
		found = found || (g.Index == e.GIDIndex && g.GID == e.GID)
	}
	if !found {
		t.Errorf("GID %v at index %d is not in the table %v", e.GID, e.GIDIndex, gids)
	}
	keys, err := e.Device.PKeys(max(e.Port, 1))
	if err != nil || len(keys) == 0 && !t.lacks(HasPKeys) {
		t.Errorf("P_Keys %v, %v; want at least one", keys, err)
	}
}

// testChurn makes and closes handles many times: numbers must not run out and goroutines must not pile up.
func testChurn(t *test) {
	d := t.A.Device
	before := runtime.NumGoroutine()
	buf := got(verbs.Alloc(1<<20, verbs.MemoryOptions{})).closing(t)
	for range 300 {
		pd := got(d.AllocPD()).need(t)
		cq := got(d.CreateCQ(verbs.CompletionQueueOptions{})).need(t)
		mr := got(pd.RegisterMemory(buf, 0, buf.Len(), allRemote)).need(t)
		qp := got(pd.CreateQP(verbs.QueuePairOptions{SendCQ: cq})).need(t)
		closeAll(t, qp, mr, cq, pd)
	}
	if after := runtime.NumGoroutine(); after > before+8 {
		t.Errorf("%d goroutines after, %d before", after, before)
	}
}

package endpoint

import (
	"strings"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// known is a device of which only what it tells counts.
type known struct {
	verbs.Device
	info   verbs.DeviceInfo
	events chan verbs.AsyncEvent
}

func (k known) Events() <-chan verbs.AsyncEvent { return k.events }
func (k known) Info() verbs.DeviceInfo          { return k.info }

// TestCommonOfRails: a test is settled with what every device has.
func TestCommonOfRails(t *testing.T) {
	limits := verbs.Limits{
		MaxSGE: 30, MaxSGERead: 30, MaxMessageBytes: 1 << 31, MaxInline: 1024, MaxQPWR: 1 << 15, Atomic: true,
	}
	a, b := known{info: verbs.DeviceInfo{Name: "mlx5_0", Limits: limits}}, known{
		info: verbs.DeviceInfo{Name: "mlx5_1", Limits: limits},
	}
	b.info.Limits.MaxSGERead, b.info.Limits.MaxMessageBytes = 1, 1<<30
	a.info.Limits.MaxInline, b.info.Limits.MaxQPWR, b.info.Limits.Atomic = 64, 256, false
	info, port := Rails{
		{Device: a, Port: verbs.PortInfo{ActiveMTU: verbs.MTU4096}},
		{Device: b, Port: verbs.PortInfo{ActiveMTU: verbs.MTU1024}},
	}.Common()
	l := info.Limits
	if info.Name != "mlx5_0,mlx5_1" || l.MaxInline != 64 || l.MaxQPWR != 256 || l.Atomic ||
		port.ActiveMTU != verbs.MTU1024 || l.MaxSGE != 30 || l.MaxSGERead != 1 || l.MaxMessageBytes != 1<<30 {
		t.Errorf("got %+v, MTU %v", info, port.ActiveMTU)
	}
}

// TestFailureIsAnEventThatEndsATest: harmless events and those that do not count
// are passed over, and none is waited for.
func TestFailureIsAnEventThatEndsATest(t *testing.T) {
	d := known{info: verbs.DeviceInfo{Name: "rxe0"}, events: make(chan verbs.AsyncEvent, 4)}
	on := Rails{{Device: d}}
	all := func(verbs.AsyncEvent) bool { return true }
	d.events <- verbs.AsyncEvent{Type: verbs.EventGIDChange, Port: 1}
	if err := on.Failure(all); err != nil {
		t.Errorf("a change of GIDs ends the test: %v", err)
	}
	d.events <- verbs.AsyncEvent{Type: verbs.EventPortError, Port: 1}
	if err := on.Failure(func(e verbs.AsyncEvent) bool { return e.QP != nil }); err != nil {
		t.Errorf("an event that does not count ends the test: %v", err)
	}
	d.events <- verbs.AsyncEvent{Type: verbs.EventPortError, Port: 1}
	err := on.Failure(all)
	if want := "measure: rxe0: the device reports PORT_ERR on port 1: the link went down"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
	if fix := verbs.RemedyOf(err); !strings.Contains(fix, "rdma link") {
		t.Errorf("remedy %q does not name the next command", fix)
	}
}

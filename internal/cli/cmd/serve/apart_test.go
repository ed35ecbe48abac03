//go:build linux

package serve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/plan"
)

// TestMain is a test's process, too: one that does not get on with its plan.
func TestMain(m *testing.M) {
	if !slices.Contains(os.Args, "--test-process") {
		m.Run()
		return
	}
	tell := teller(os.Stdout)
	tell(event{})
	if err := boundProcess(1 << 40); err != nil {
		panic(err)
	}
	switch os.Getenv("JUDGING") {
	case "hangs":
		select {}
	case "is slow":
		o := order{tell: tell}
		over := o.slow(time.Millisecond, "it was slow", still)
		time.Sleep(10 * time.Millisecond)
		over()
		o.slow(time.Second/2, "it is slow", still)
		select {}
	case "plans":
		tell(event{Test: "a test", Agreed: true})
		if got, err := frame.Read[slotOrder](os.Stdin, kindSlot, maxOrderBytes); err != nil || got.Busy != "" {
			tell(event{Ended: true, Error: got.Busy})
			return
		}
		tell(event{Test: "the next"})
		select {}
	case "fills its memory":
		for all := [][]byte{}; len(all) < 1<<10; { // of 16 MiB
			all = append(all, bytes.Repeat([]byte{1}, 16<<20))
		}
	}
}

// testDoor is a door before which others wait, or not.
type testDoor struct {
	busy   string
	others func() bool
	stand  bool
	left   atomic.Bool
}

func (d *testDoor) TakeSlot(context.Context) string { return d.busy }
func (d *testDoor) MustStand(time.Duration) bool    { return d.stand }
func (d *testDoor) OthersWait() bool                { return d.others() }
func (d *testDoor) HasLeft() bool                   { return d.left.Load() }

// follow follows a process that does, in place of a test, what JUDGING says.
//
//nolint:revive // the test first
func follow(t *testing.T, ctx context.Context, o order, d door, out chan struct{}) (*follower, error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = l.Close() }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	p, err := start(ctx, conn, time.Minute)
	if err != nil {
		return nil, err
	}
	f := &follower{process: p, o: o, log: slog.New(slog.DiscardHandler), door: d, out: out}
	return f, f.follow(ctx)
}

func always() bool { return true }

func never() bool { return false }

// TestTooLate: a process ends whose client does not get as far as a test in the time of a first message, or of a seat
// that others need; that begins a second test after its time while others wait or lets a step take long meanwhile;
// whose client has left or gave way; or whose server ends.
func TestTooLate(t *testing.T) {
	const soon = 200 * time.Millisecond
	looks := 0
	later := func() bool { looks++; return looks > 1 }
	left := &testDoor{others: never}
	left.left.Store(true)
	out := make(chan struct{})
	close(out)
	patient := order{Timeouts: control.Timeouts{Hello: time.Hour}}
	short := patient
	short.Policy = plan.Policy{Duration: time.Nanosecond}
	for _, tt := range []struct {
		does string
		o    order
		door *testDoor
		out  chan struct{}
		want string
	}{
		{
			"hangs",
			order{Timeouts: control.Timeouts{Hello: soon}},
			&testDoor{others: never},
			nil, "no test was agreed on within 200ms",
		},
		{
			"hangs", patient, &testDoor{others: never, stand: true}, nil,
			"others wait, and this client has not agreed on a test",
		},
		{"hangs", patient, left, nil, "the client has left, and its test did not end"},
		{"hangs", patient, &testDoor{others: never}, out, "gave way"},
		{"is slow", patient, &testDoor{others: later}, nil, "others wait, and it is slow"},
		{
			"is slow",
			order{Timeouts: control.Timeouts{Hello: 2 * time.Second}},
			&testDoor{others: never}, nil,
			"no test was agreed on within 2s",
		},
		{"plans", short, &testDoor{others: always}, nil, "others wait, and this client has been served for"},
	} {
		t.Setenv("JUDGING", tt.does)
		if _, err := follow(t, t.Context(), tt.o, tt.door, tt.out); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.does, err, tt.want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(control.ErrClosed)
	if _, err := follow(t, ctx, patient, &testDoor{others: never}, nil); err == nil {
		t.Error("the server has ended, and the process has not")
	}
}

// TestServerEnds: a test whose server has ended tells its client that it was stopped, not that it failed.
func TestServerEnds(t *testing.T) {
	in, server := io.Pipe()
	ctx, cancel := new(order).hearServer(t.Context(), in)
	defer cancel(nil)
	_ = server.Close()
	<-ctx.Done()
	if cause := control.CauseOf(context.Cause(ctx)); cause != control.Stopped {
		t.Errorf("%v: %s", context.Cause(ctx), cause)
	}
}

// TestTurnedAway: a client that finds no slot once it has agreed on its test is turned away, and that is no failure.
func TestTurnedAway(t *testing.T) {
	t.Setenv("JUDGING", "plans")
	f, err := follow(t, t.Context(), order{Timeouts: control.Timeouts{Hello: time.Hour}},
		&testDoor{busy: "busy with another", others: never}, nil)
	if err != nil || f.seated {
		t.Errorf("%v; it has a slot: %v", err, f != nil && f.seated)
	}
}

//go:build linux

package serve

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
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
		over := o.slow(time.Millisecond, "it was slow")
		time.Sleep(10 * time.Millisecond)
		over()
		o.slow(time.Second/2, "it is slow")
		select {}
	case "plans":
		tell(event{Test: "a test"})
		tell(event{Test: "the next"})
		select {}
	case "fills its memory":
		for all := [][]byte{}; len(all) < 1<<10; { // of 16 MiB
			all = append(all, bytes.Repeat([]byte{1}, 16<<20))
		}
	}
}

// followed is what the server says of a process that does, in place of a test, what JUDGING says.
func followed(t *testing.T, ctx context.Context, o order, others func() bool) error { //nolint:revive // the test first
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	p, err := start(ctx, conn)
	if err != nil {
		return err
	}
	_, err = p.follow(ctx, o, slog.New(slog.DiscardHandler), others)
	return err
}

func always() bool { return true }

func never() bool { return false }

// TestTooLate: a process ends whose client does not get as far as a test in the time of a first message, that begins a second test after
// its time while others wait or lets a step take long meanwhile, or whose server ends.
func TestTooLate(t *testing.T) {
	const soon = 200 * time.Millisecond
	looks := 0
	later := func() bool { looks++; return looks > 1 }
	for _, tt := range []struct {
		does   string
		o      order
		others func() bool
		want   string
	}{
		{"hangs", order{Timeouts: control.Timeouts{Hello: soon}}, never, "no test was agreed on within 200ms"},
		{"is slow", order{Timeouts: control.Timeouts{Hello: time.Hour}}, later, "others wait, and it is slow"},
		{"is slow", order{Timeouts: control.Timeouts{Hello: 2 * time.Second}}, never, "no test was agreed on within 2s"},
		{"plans", order{Timeouts: control.Timeouts{Hello: time.Hour}, Policy: plan.Policy{Duration: time.Nanosecond}}, always, "others wait, and this client has been served for"},
	} {
		t.Setenv("JUDGING", tt.does)
		if err := followed(t, t.Context(), tt.o, tt.others); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.does, err, tt.want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(control.ErrClosed)
	if err := followed(t, ctx, order{Timeouts: control.Timeouts{Hello: time.Hour}}, never); err == nil {
		t.Error("the server has ended, and the process has not")
	}
}

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
	"sync"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// TestMain is a test's process, too: one that does not get on with its plan.
func TestMain(m *testing.M) {
	if !slices.Contains(os.Args, "--test-process") {
		m.Run()
		return
	}
	server, err := unixConn(os.Stdin)
	if err != nil {
		panic(err)
	}
	out := &events{w: server}
	out.write(event{})
	t := turn{tell: out.write}
	t.judges()
	switch os.Getenv("JUDGING") {
	case "hangs":
		select {}
	case "computes":
		for n := 0; ; n++ { //nolint:revive // for ever
		}
	case "fills its memory":
		for all := [][]byte{}; len(all) < 1<<10; { // of 16 MiB
			all = append(all, bytes.Repeat([]byte{1}, 16<<20))
		}
	}
}

// judged is what the server says of a process that does, in place of judging its plan, what JUDGING says.
func judged(t *testing.T, ctx context.Context, limit time.Duration, others bool) error { //nolint:revive // the test first
	t.Helper()
	p, err := start(ctx)
	if err != nil {
		return err
	}
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
	o := order{Timeouts: control.Timeouts{Hello: limit}}
	_, last, err := p.follow(ctx, o, conn, slog.New(slog.DiscardHandler), func() bool { return others })
	if last != nil {
		t.Errorf("it ended by itself: %+v", last)
	}
	return err
}

// TestUnsettledGivesWay: a plan that is not judged after a second gives way to others, and otherwise has the time of a first message.
func TestUnsettledGivesWay(t *testing.T) {
	t.Setenv("JUDGING", "hangs")
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() {
		began := time.Now()
		err := judged(t, t.Context(), time.Hour, true)
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "the plan was not judged within") || took < judgeTime {
			t.Errorf("others wait: %v after %v", err, took)
		}
	})
	const alone = judgeTime + judgeTime/2
	began := time.Now()
	err := judged(t, t.Context(), alone, false)
	if took := time.Since(began); err == nil || took < alone {
		t.Errorf("nobody waits: %v after %v", err, took)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(control.ErrClosed)
	if err := judged(t, ctx, time.Hour, false); err == nil {
		t.Error("the server has ended, and the process has not")
	}
}

// TestJudgingIsBounded: a process that judges has so much processor time, and the client reads that.
func TestJudgingIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("short: it computes for two seconds; TestJudgingMemoryIsBounded has the other limit")
	}
	testBound(t, "computes", "of processor time")
}

func testBound(t *testing.T, does, want string) {
	t.Helper()
	t.Setenv("JUDGING", does)
	if err := judged(t, t.Context(), time.Hour, false); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

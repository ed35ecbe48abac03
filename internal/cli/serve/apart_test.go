//go:build linux

package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// TestMain is a test's process, too: the one that the server starts, or one that does not get on with its plan.
func TestMain(m *testing.M) {
	if !slices.Contains(os.Args, "--test-process") {
		m.Run()
		return
	}
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
	default:
		_ = runTestProcess(context.Background()) // the server has been told
	}
}

func proposal(t *testing.T) order {
	t.Helper()
	p := proposed()
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return order{Policy: granted(), Plan: b, Dialect: control.Ours, Timeouts: control.Timeouts{Plan: time.Hour}}
}

// TestJudge: a plan is judged in a process of its own, which then waits.
func TestJudge(t *testing.T) {
	p, err := judge(t.Context(), proposal(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.end()
	o := proposal(t)
	o.Policy.QueuePairs, o.Plan = 1, json.RawMessage(strings.Replace(string(o.Plan), `"qps":1`, `"qps":2`, 1))
	if _, err := judge(t.Context(), o, nil); err == nil || !strings.Contains(err.Error(), "queue pairs") {
		t.Errorf("two queue pairs where one is granted: %v", err)
	}
}

// TestUnsettledGivesWay: a plan that is not judged after a second gives way to others, and otherwise has the time of a first message.
func TestUnsettledGivesWay(t *testing.T) {
	t.Setenv("JUDGING", "hangs")
	var both sync.WaitGroup
	defer both.Wait()
	both.Go(func() {
		began := time.Now()
		_, err := judge(t.Context(), proposal(t), func() bool { return true })
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "the plan was not judged within") || took < judgeTime {
			t.Errorf("others wait: %v after %v", err, took)
		}
	})
	o, alone := proposal(t), judgeTime+judgeTime/2
	o.Timeouts.Plan = alone
	began := time.Now()
	_, err := judge(t.Context(), o, func() bool { return false })
	if took := time.Since(began); err == nil || took < alone {
		t.Errorf("nobody waits: %v after %v", err, took)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(control.ErrClosed)
	if _, err := judge(ctx, proposal(t), nil); err != control.ErrClosed { //nolint:errorlint // as it is
		t.Errorf("the client has gone: %v", err)
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
	if _, err := judge(t.Context(), proposal(t), nil); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

package bench

import (
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// urgentPending tells whether SIGURG waits for the calling thread to unblock it.
func urgentPending(t *testing.T) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`SigPnd:\s*([0-9a-f]+)`).FindSubmatch(b)
	if m == nil {
		t.Fatalf("no SigPnd in %s", b)
	}
	set, err := strconv.ParseUint(string(m[1]), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set&(1<<(unix.SIGURG-1)) != 0
}

// TestQuietBlocksSignals sends the measuring thread what Go's scheduler would: it hears it only once it is no longer quiet.
func TestQuietBlocksSignals(t *testing.T) {
	q, err := beQuiet(CPUChoice{}, []int{-1})
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, unix.SIGURG)
	defer signal.Stop(heard)
	if err := unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGURG); err != nil {
		t.Fatal(err)
	}
	if !q.blocked || !urgentPending(t) {
		t.Errorf("deaf %t, and SIGURG waits for the measuring thread %t, want both", q.blocked, urgentPending(t))
	}
	if err := q.restore(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-heard:
	case <-time.After(5 * time.Second):
		t.Error("SIGURG not heard afterwards")
	}
}

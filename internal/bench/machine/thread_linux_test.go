package machine

import (
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
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

// TestQuietBlocksSignals sends the measuring thread what Go's scheduler would: it
// hears it only once it is no longer quiet.
func TestQuietBlocksSignals(t *testing.T) {
	q, err := BeQuiet(CPUChoice{}, []int{-1})
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
	if err := q.Restore(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-heard:
	case <-time.After(5 * time.Second):
		t.Error("SIGURG not heard afterwards")
	}
}

// TestCPUBeyondTheMask starts with a mask of one CPU, as under taskset, and asks for the other.
func TestCPUBeyondTheMask(t *testing.T) {
	allowed, err := AllowedCPUs()
	if err != nil || len(allowed) < 2 {
		t.Skipf("two CPUs are needed: %v, %v", allowed, err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	undo, err := pinThread(allowed[1])
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := undo(); err != nil {
			t.Error(err)
		}
	}()
	if got, err := (CPUChoice{CPUs: []int{99999, allowed[0], allowed[1]}, AnyMask: true}).pick([]int{-1}); err != nil ||
		!slices.Equal(got, allowed[:1]) {
		t.Errorf("CPUs %v, %v, want %v", got, err, allowed[:1])
	}
	if got, err := AllowedCPUs(); err != nil || !slices.Equal(got, allowed[1:2]) {
		t.Errorf("the mask is %v afterwards, %v, want %v", got, err, allowed[1:2])
	}
	if got, err := (CPUChoice{CPUs: allowed[:1]}).pick([]int{-1}); err == nil {
		t.Errorf("--cpu leaves the mask: %v", got)
	}
}

package machine

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// scheduling is what the kernel says of one thread.
type scheduling struct {
	policy uint32
	nice   int32
	flags  uint64
}

// ofThreads reads it of all threads of this process.
func ofThreads(t *testing.T) map[int]scheduling {
	t.Helper()
	tids, err := threadIDs()
	if err != nil {
		t.Fatal(err)
	}
	out := map[int]scheduling{}
	for _, tid := range tids {
		a, err := unix.SchedGetAttr(tid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out[tid] = scheduling{a.Policy, a.Nice, a.Flags}
	}
	return out
}

// priorityOf is what a result says of it.
func priorityOf(q *Quiet) string {
	var e report.Environment
	q.Describe(&e)
	return e.Priority
}

// TestRealtimeIsTakenBack looks at every thread before, while and after it is quiet with real-time priority.
func TestRealtimeIsTakenBack(t *testing.T) {
	if err := (CPUChoice{Realtime: true}).CheckPriority(); err != nil {
		t.Skip(err)
	}
	before := ofThreads(t)
	q, err := BeQuiet(CPUChoice{Realtime: true}, []int{-1})
	if err != nil {
		t.Fatal(err)
	}
	for tid, s := range ofThreads(t) {
		if _, known := before[tid]; known && s.policy != unix.SCHED_RR {
			t.Errorf("thread %d: %+v while measuring, want SCHED_RR", tid, s)
		}
	}
	if got := priorityOf(q); got != PriorityRealtime {
		t.Errorf("priority %q while measuring", got)
	}
	there, look, born := make(chan bool), make(chan bool), make(chan bool)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		there <- true
		<-look
		born <- realtimeThread()
	}()
	<-there
	if err := q.PrepareWatch(); err != nil {
		t.Fatal(err)
	}
	close(look)
	if !<-born {
		t.Error("a thread that was made meanwhile is left behind at the next part")
	}
	if err := q.Restore(); err != nil {
		t.Fatal(err)
	}
	after := ofThreads(t)
	for tid, s := range after {
		if was, known := before[tid]; known && s != was || s.policy != unix.SCHED_NORMAL {
			t.Errorf("thread %d: %+v afterwards, %+v before", tid, s, was)
		}
	}
	if realtimeThread() {
		t.Error("the measuring thread keeps its priority")
	}
}

// TestRealtimeRefused takes the right away, as from a user without it: the refusal says what to do, and no thread is left
// with a priority that the process did not have.
func TestRealtimeRefused(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_RTPRIO, nil, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, unix.RLIMIT_RTPRIO, &unix.Rlimit{Max: limit.Max}, nil); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Prlimit(0, unix.RLIMIT_RTPRIO, &limit, nil); err != nil {
			t.Error(err)
		}
	}()
	before := ofThreads(t)
	type seen struct{ asked, quiet, prepared error }
	found := make(chan seen)
	go func() {
		runtime.LockOSThread() // never unlocked: capabilities are the thread's, which ends with the goroutine
		var s seen
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		s.prepared = unix.Capset(&header, &none[0])
		if s.prepared == nil {
			s.asked = CPUChoice{Realtime: true}.CheckPriority()
			var q *Quiet
			if q, s.quiet = BeQuiet(CPUChoice{Realtime: true}, []int{-1}); s.quiet == nil {
				s.prepared = q.Restore()
			}
		}
		found <- s
	}()
	s := <-found
	if s.prepared != nil {
		t.Fatal(s.prepared)
	}
	for _, err := range []error{s.asked, s.quiet} {
		if !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "--priority realtime: sched_setattr") {
			t.Fatalf("got %v, want the kernel's refusal", err)
		}
		for _, want := range []string{"sudo", "setcap cap_sys_nice+ep", "docs/results.md"} {
			if !strings.Contains(verbs.RemedyOf(err), want) {
				t.Errorf("the remedy does not name %s: %s", want, verbs.RemedyOf(err))
			}
		}
	}
	after := ofThreads(t)
	maps.DeleteFunc(after, func(tid int, s scheduling) bool { _, known := before[tid]; return !known })
	for tid, s := range after {
		if s != before[tid] {
			t.Errorf("thread %d: %+v, was %+v", tid, s, before[tid])
		}
	}
}

// TestRealtimeOfThePast is a process that was started with real-time priority (chrt): it is recorded, and kept.
func TestRealtimeOfThePast(t *testing.T) {
	if err := (CPUChoice{Realtime: true}).CheckPriority(); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}, 0); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.SchedSetAttr(0, &unix.SchedAttr{Policy: unix.SCHED_NORMAL, Flags: unix.SCHED_FLAG_RESET_ON_FORK}, 0); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []CPUChoice{{}, {Realtime: true}} {
		q, err := BeQuiet(c, []int{-1})
		if err != nil {
			t.Fatal(err)
		}
		if got := priorityOf(q); got != PriorityRealtime {
			t.Errorf("%+v: priority %q", c, got)
		}
		if err := q.Restore(); err != nil {
			t.Fatal(err)
		}
		if a, err := unix.SchedGetAttr(0, 0); err != nil || a.Policy != unix.SCHED_FIFO || a.Priority != 1 {
			t.Errorf("%+v: %+v afterwards, %v", c, a, err)
		}
	}
}

// TestKeepsNothing reads what the kernel keeps for threads without real-time priority.
func TestKeepsNothing(t *testing.T) {
	for text, want := range map[string]bool{"-1\n": true, "950000\n": false, "": false} {
		file := filepath.Join(t.TempDir(), "sched_rt_runtime_us")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := keepsNothing(file); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
	if keepsNothing(filepath.Join(t.TempDir(), "none")) {
		t.Error("a kernel without the file keeps nothing")
	}
}

package child

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of orphans among its descendants, and returns the children that it has.
func adopt() map[int]bool {
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	before := map[int]bool{}
	for pid, parent := range parents() {
		before[pid] = parent == os.Getpid()
	}
	return before
}

// parents are the parents of all processes.
func parents() map[int]int {
	all := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			all[pid], _ = strconv.Atoi(fields[1])
		}
	}
	return all
}

// branches are the descendants of this process, each with the child of this process that it descends from.
func branches() map[int]int {
	of, tree := map[int]int{}, parents()
	for pid := range tree {
		top := pid
		for depth := 0; tree[top] != os.Getpid() && tree[top] != 0 && depth < 1000; depth++ {
			top = tree[top]
		}
		if tree[top] == os.Getpid() {
			of[pid] = top
		}
	}
	return of
}

// limit bounds what a process, and each that it has started already, may write to: private memory, files, and core
// dumps. Memory that is only reserved does not count. What they start later inherits the limits.
func limit(leader int, memory int64) {
	bound := func(pid int) {
		for resource, most := range map[int]uint64{
			unix.RLIMIT_DATA: uint64(memory), unix.RLIMIT_FSIZE: uint64(memory), unix.RLIMIT_CORE: 0,
		} {
			_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
		}
	}
	bound(leader)
	for range 3 { // one that is not bounded yet may start another meanwhile
		for pid, top := range branches() {
			if top == leader {
				bound(pid)
			}
		}
	}
}

// sweep kills the children of this process that were not there before, and their descendants: what has left its process
// group becomes a child of this one when its parent ends. All are stopped first, since what is stopped starts nothing.
func sweep(before map[int]bool) {
	for range 100 {
		stopped := map[int]bool{}
		for again, pass := true, 0; again && pass < 1000; pass++ {
			again = false
			for pid, top := range branches() {
				if !before[top] && !stopped[pid] {
					again, stopped[pid] = true, true
					_ = unix.Kill(pid, unix.SIGSTOP)
				}
			}
		}
		for pid := range stopped {
			_ = unix.Kill(pid, unix.SIGKILL)
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
		if len(stopped) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Listens waits until somebody listens at a TCP port, without connecting, for at most two
// seconds: a program need not use the port.
func (f *Foreign) Listens(ctx context.Context, port int) {
	want := fmt.Sprintf(":%04X ", port)
	for range 200 {
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			table, _ := os.ReadFile(file)
			for line := range strings.Lines(string(table)) {
				if strings.Contains(line, want) && strings.Contains(line, " 0A ") {
					return
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case err := <-f.ended:
			f.ended <- err
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func signalOf(s *os.ProcessState) syscall.Signal { return s.Sys().(syscall.WaitStatus).Signal() }

// killGroup kills a process and its group, which it may have left.
func killGroup(p *os.Process) {
	_ = unix.Kill(-p.Pid, unix.SIGKILL)
	_ = p.Kill()
}

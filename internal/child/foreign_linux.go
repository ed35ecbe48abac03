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

// limit bounds what a process may write to: private memory, files, and core dumps. Memory
// that is only reserved does not count.
func limit(pid int, memory int64) {
	for resource, most := range map[int]uint64{
		unix.RLIMIT_DATA: uint64(memory), unix.RLIMIT_FSIZE: uint64(memory), unix.RLIMIT_CORE: 0,
	} {
		_ = unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
}

// sweep kills the children of this process that were not there before, and their descendants: what has left its process
// group becomes a child of this one when its parent ends.
func sweep(before map[int]bool) {
	for range 100 {
		tree, found := parents(), false
		for pid := range tree {
			top := pid
			for depth := 0; tree[top] != os.Getpid() && tree[top] != 0 && depth < 1000; depth++ {
				top = tree[top]
			}
			if tree[top] == os.Getpid() && !before[top] {
				found = true
				_ = unix.Kill(pid, unix.SIGKILL)
				_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
			}
		}
		if !found {
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

func signalOf(s *os.ProcessState) int { return int(s.Sys().(syscall.WaitStatus).Signal()) }

func killGroup(p *os.Process) { _ = unix.Kill(-p.Pid, unix.SIGKILL) }

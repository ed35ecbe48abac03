package cli

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
)

// TestPriorityIsRecorded runs both ends with real-time priority and without: the result says which it was, at each end.
func TestPriorityIsRecorded(t *testing.T) {
	dir := t.TempDir()
	for _, priority := range []string{machine.PriorityNormal, machine.PriorityRealtime} {
		if priority == machine.PriorityRealtime && (machine.CPUChoice{Realtime: true}).CheckPriority() != nil {
			t.Skip((machine.CPUChoice{Realtime: true}).CheckPriority())
		}
		file := filepath.Join(dir, priority+".json")
		finish(t, dir, "write", "--loopback", "-d", "roce0", "-n", "100", "--warmup=0", "--priority", priority, "--quiet", "--save", file)
		d, err := report.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if d.Client.Priority != priority || d.Server == nil || d.Server.Priority != priority {
			t.Errorf("--priority %s: the client says %q, the server %+v", priority, d.Client.Priority, d.Server)
		}
	}
	text := finish(t, dir, "compare", "normal.json", "realtime.json")
	if !strings.Contains(text, "priority: normal before, realtime now") {
		t.Errorf("compare does not tell of the priority:\n%s", text)
	}
}

// TestPriorityRefused is a user who may not: nothing is measured with less than was asked for.
func TestPriorityRefused(t *testing.T) {
	args := []string{"gobw", "write", "--loopback", "-d", "roce0", "-n", "10", "--priority", "realtime"}
	if (machine.CPUChoice{Realtime: true}).CheckPriority() == nil {
		less := []string{"prlimit", "--rtprio=0:0", "setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice"}
		if out, err := exec.CommandContext(t.Context(), less[0], append(less[1:], "true")...).CombinedOutput(); err != nil {
			t.Skipf("the right cannot be taken away here: %v: %s", err, out)
		}
		args = append(less, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	status, is := errors.AsType[*exec.ExitError](err)
	if !is || status.ExitCode() != exit.Setup || !strings.Contains(said.String(), "--priority realtime: sched_setattr: operation not permitted") ||
		!strings.Contains(said.String(), "ulimit -r") {
		t.Errorf("%v\n%s", err, &said)
	}
}

// TestInterruptedWithRealtime sends Ctrl-C to a test whose two ends spin with real-time priority, on all CPUs of a small machine.
func TestInterruptedWithRealtime(t *testing.T) {
	if (machine.CPUChoice{Realtime: true}).CheckPriority() != nil {
		t.Skip((machine.CPUChoice{Realtime: true}).CheckPriority())
	}
	testrun.OnlyWhole(t, "it takes both CPUs of a small machine from what runs beside it")
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "gobw", "write", "--loopback", "-d", "roce0", "-D", "60", "--priority", "realtime", "--quiet", "--save", "cut.json")
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	var measuring time.Time
	for begun := time.Now(); measuring.IsZero() || time.Since(measuring) < time.Second; {
		<-look.C
		if time.Since(begun) > time.Minute {
			t.Fatal(cmd.Process.Kill(), cmd.Wait(), &said)
		}
		a, err := unix.SchedGetAttr(cmd.Process.Pid, 0)
		if err != nil {
			t.Fatalf("%v\n%s", err, &said)
		}
		switch {
		case a.Policy != unix.SCHED_RR: // a look at whether it is allowed takes it for a moment
			measuring = time.Time{}
		case measuring.IsZero():
			measuring = time.Now()
		}
	}
	sent := time.Now()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	t.Logf("ended %v after Ctrl-C", time.Since(sent))
	status, is := errors.AsType[*exec.ExitError](err)
	if !is || status.ExitCode() != 130 {
		t.Fatalf("%v\n%s", err, &said)
	}
	d, err := report.Load(filepath.Join(dir, "cut.json"))
	if err != nil || d.Complete || len(d.Records) == 0 {
		t.Errorf("what was measured before was not kept: %v, %+v", err, d)
	}
}

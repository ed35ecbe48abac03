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

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
)

// realtime is a command with real-time priority, which its children inherit.
func realtime(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	testrun.Need(t, "chrt")
	if out, err := exec.CommandContext(t.Context(), "chrt", "-r", "1", "true").CombinedOutput(); err != nil {
		t.Skipf("no right to real-time priority: %v: %s", err, out)
	}
	return exec.CommandContext(t.Context(), "chrt", append([]string{"-r", "1"}, args...)...)
}

// TestPriorityIsRecorded runs both ends with real-time priority and without: the result says which it was, at each end.
func TestPriorityIsRecorded(t *testing.T) {
	dir := t.TempDir()
	test := []string{"write", "--loopback", "-d", "roce0", "-n", "100", "--warmup=0", "--quiet", "--save"}
	finish(t, dir, append(test, "normal.json")...)
	cmd := realtime(t, append(append([]string{"gobw"}, test...), "realtime.json")...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, priority := range []string{"normal", "realtime"} {
		d, err := report.Load(filepath.Join(dir, priority+".json"))
		if err != nil {
			t.Fatal(err)
		}
		if d.Client.Priority != priority || d.Server == nil || d.Server.Priority != priority {
			t.Errorf("%s: the client says %q, the server %+v", priority, d.Client.Priority, d.Server)
		}
	}
	text := finish(t, dir, "compare", "normal.json", "realtime.json")
	if !strings.Contains(text, "priority: normal before, realtime now") {
		t.Errorf("compare does not tell of the priority:\n%s", text)
	}
}

// TestInterruptedWithRealtime sends Ctrl-C to a test whose two ends spin with real-time priority, on all CPUs of a
// small machine.
func TestInterruptedWithRealtime(t *testing.T) {
	testrun.OnlyWhole(t, "it takes both CPUs of a small machine from what runs beside it")
	dir := t.TempDir()
	cmd := realtime(t, "gobw", "write", "--loopback", "-d", "roce0", "-D", "60", "--quiet", "--save", "cut.json")
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Second) // on two CPUs both ends are spinning by then
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

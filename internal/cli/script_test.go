package cli

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs testdata/script: both programs as a user types them, on the software device. Two commands are added:
// 'status CODE CMD...' checks the exit status, 'interrupt AFTER SIGNAL CODE CMD...' sends a signal after a while.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts (%v)", err)
	}
	for _, f := range files { // one after the other: each spins on two CPUs
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txtar"), func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Files: []string{f},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"status":    scriptStatus,
					"interrupt": scriptInterrupt,
				},
			})
		})
	}
}

func scriptStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status CODE CMD...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	if got := statusOf(err); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func statusOf(err error) int {
	var e *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.ExitCode()
	default:
		return -1
	}
}

func scriptInterrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: interrupt AFTER SIGNAL CODE CMD...")
	}
	after, err := time.ParseDuration(args[0])
	ts.Check(err)
	sig := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM}[args[1]]
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	path, err := exec.LookPath(args[3])
	ts.Check(err)
	cmd := exec.Command(path, args[4:]...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME")}
	ts.Check(cmd.Start())
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Signal(sig) })
	defer timer.Stop()
	guard := time.AfterFunc(after+10*time.Second, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	if got := statusOf(cmd.Wait()); got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

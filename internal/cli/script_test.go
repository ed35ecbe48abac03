package cli

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs/verbstest"
)

// TestScripts runs testdata/script: both programs as a user types them, on the software device.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts (%v)", err)
	}
	for _, f := range files { // one after the other, as each spins on two CPUs, but for those that mostly wait
		name := strings.TrimSuffix(filepath.Base(f), ".txtar")
		t.Run(name, func(t *testing.T) {
			if name == "fabric" || name == "flags" {
				t.Parallel()
			}
			if testing.Short() &&
				slices.Contains([]string{"ab", "compare", "noncontig", "openmetrics", "qualify", "search"}, name) {
				t.Skip("short: it measures for seconds")
			}
			runScripts(t, testscript.Params{Files: []string{f}}, map[string]string{
				"SERVER": verbstest.Address().String(), "CLIENT": verbstest.Address().String(),
				"OTHER_SERVER": verbstest.Address().String(), "OTHER_CLIENT": verbstest.Address().String(),
			})
		})
	}
}

// runScripts runs scripts with four more commands: 'prometheus FILE' has Prometheus's own parser read a file, 'status
// CODE CMD...' checks the exit status, 'refused CMD...' wants it to be that of a wrong command line, 'interrupt FILE
// SIGNAL CODE CMD...' sends a signal once the command has written a good deal to a file. PATIENT is what every command
// is told that measures: nobody is dead because the machine is busy.
func runScripts(t *testing.T, p testscript.Params, env map[string]string) {
	t.Helper()
	p.Cmds = map[string]func(*testscript.TestScript, bool, []string){
		"status": scriptStatus, "refused": scriptRefused, "interrupt": scriptInterrupt, "prometheus": scriptPrometheus,
	}
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("GORACE", os.Getenv("GORACE"))
		e.Setenv("PATIENT", "--peer-timeout=60s")
		for k, v := range env {
			e.Setenv(k, v)
		}
		return nil
	}
	testscript.Run(t, p)
}

// scriptPrometheus reads a file with the parsers of Debian's python3-prometheus-client. CI has them; elsewhere it
// passes without.
func scriptPrometheus(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: prometheus FILE")
	}
	const python = "/usr/bin/python3" // for which Debian packages it; another may be first in the path
	if err := exec.Command(python, "-c", "import prometheus_client.openmetrics.parser").Run(); err != nil {
		if os.Getenv(testrun.CI) != "" {
			ts.Fatalf("no package python3-prometheus-client (scripts/setup installs it): %v", err)
		}
		ts.Logf("%s is not read: no package python3-prometheus-client", args[0])
		return
	}
	parser, err := filepath.Abs("../../report/render/testdata/prometheus.py")
	ts.Check(err)
	cmd := exec.Command(python, parser)
	cmd.Stdin = strings.NewReader(ts.ReadFile(args[0]))
	out, err := cmd.CombinedOutput()
	if (err != nil) != neg {
		ts.Fatalf("Prometheus reads %s: %v\n%s", args[0], err, out)
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

// scriptRefused runs the command line in this process: refusing is done before a file of the script's folder is looked
// for.
func scriptRefused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: refused CMD...")
	}
	if got := Main(args, output.Streams{Out: ts.Stdout(), Err: ts.Stderr()}); got != exit.Usage {
		ts.Fatalf("exit status %d, want %d", got, exit.Usage)
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

// interruptAfter is how much a command writes before it is interrupted: more than is ever on its way to the peer.
const interruptAfter = 16 << 20

func scriptInterrupt(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: interrupt FILE SIGNAL CODE CMD...")
	}
	file := ts.MkAbs(args[0])
	signals := strings.Split(args[1], "+") // each 50 ms after the one before, as timeout(1) and supervisors do
	want, err := strconv.Atoi(args[2])
	ts.Check(err)
	path, err := exec.LookPath(args[3])
	ts.Check(err)
	cmd := exec.Command(path, args[4:]...)
	cmd.Dir = ts.Getenv("WORK")
	for _, name := range []string{"PATH", "HOME", "GORACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	ts.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	late := time.After(2 * time.Minute)
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if f, err := os.Stat(file); err != nil || f.Size() < interruptAfter {
				continue
			}
			look.Stop()
			for i, name := range signals {
				if i > 0 {
					<-time.After(50 * time.Millisecond)
				}
				_ = cmd.Process.Signal(map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM}[name])
			}
		case err := <-ended:
			if got := statusOf(err); got != want {
				ts.Fatalf("exit status %d, want %d\n%s", got, want, out.String())
			}
			ts.Check(os.RemoveAll(file))
			return
		case <-late:
			_ = cmd.Process.Kill()
			ts.Fatalf("%v: it did not end in 2 minutes\n%s", <-ended, out.String())
		}
	}
}

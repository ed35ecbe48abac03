//go:build linux && cgo

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
)

// library builds the library, once for all tests, and returns its path.
func library(t *testing.T) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var builtIn string

var built = sync.OnceValues(func() (string, error) {
	var err error
	if builtIn, err = os.MkdirTemp("", "libibverbs-"); err != nil {
		return "", err
	}
	out, err := exec.Command("sh", "build", builtIn).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(builtIn, "libibverbs.so.1"), nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(builtIn)
	os.Exit(code) //nolint:forbidigo // it is what a TestMain does
}

// program is a program under the library, whose output is kept.
type program struct {
	*exec.Cmd
	out bytes.Buffer
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	p := &program{Cmd: exec.CommandContext(ctx, args[0], args[1:]...)}
	p.Env = append(os.Environ(), "LD_PRELOAD="+library(t))
	p.Stdout, p.Stderr = &p.out, &p.out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.Process.Kill()
		_ = p.Wait()
		cancel()
	})
	return p
}

// pass waits for a program, which must end with 0, and returns what it said.
func (p *program) pass(t *testing.T) string {
	t.Helper()
	if err := p.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(p.Args, " "), err, p.out.String())
	}
	return p.out.String()
}

// freePort is a TCP port that nobody has now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// awaitListener waits until somebody listens at a port, without connecting: some servers take one client.
func awaitListener(t *testing.T, port string) {
	t.Helper()
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(":%04X ", n)
	listens := func() bool {
		for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
			table, _ := os.ReadFile(file)
			for line := range strings.Lines(string(table)) {
				if strings.Contains(line, want) && strings.Contains(line, " 0A ") {
					return true
				}
			}
		}
		return false
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 2000 {
		if listens() {
			return
		}
		<-tick.C
	}
	t.Fatalf("nobody listens at port %s", port)
}

// pair runs both ends of a program that takes -p PORT and the server's name, and returns what the client said.
func pair(t *testing.T, line string) string {
	t.Helper()
	args := strings.Fields(line)
	testrun.Need(t, args[0])
	port := freePort(t)
	args = append(args, "-p", port)
	server := start(t, args...)
	awaitListener(t, port)
	out := start(t, append(args, "localhost")...).pass(t)
	server.pass(t)
	return out
}

// TestPingpongs runs rdma-core's examples.
func TestPingpongs(t *testing.T) {
	for _, line := range []string{
		"ibv_rc_pingpong -g 0", "ibv_uc_pingpong -g 1", "ibv_ud_pingpong -g 0", "ibv_srq_pingpong -g 0",
		"ibv_rc_pingpong -g 0 -e", "ibv_srq_pingpong -g 0 -e", "ibv_rc_pingpong -g 0 -o -t", "ibv_rc_pingpong -g 0 -N -c",
	} {
		t.Run(line, func(t *testing.T) {
			if out := pair(t, line); !strings.Contains(out, "1000 iters in") {
				t.Errorf("it did not finish:\n%s", out)
			}
		})
	}
}

// TestStockPerftest runs both ends of stock perftest.
func TestStockPerftest(t *testing.T) {
	for _, line := range []string{
		"ib_write_bw -s 4096 -n 2000", "ib_send_lat -n 500", "ib_read_bw -q 2 -n 500", "ib_send_lat -c UD -s 64 -n 500",
	} {
		t.Run(line, func(t *testing.T) {
			if out := pair(t, line); !strings.Contains(out, "#bytes") {
				t.Errorf("no result:\n%s", out)
			}
		})
	}
}

// TestDeviceInfo reads what a program is told of the device.
func TestDeviceInfo(t *testing.T) {
	testrun.Need(t, "ibv_devinfo", "ibv_devices")
	out := start(t, "ibv_devinfo", "-v").pass(t)
	for _, want := range []string{
		"roce0", "software device", "PORT_ACTIVE", "link_layer:\t\tEthernet", "GID[  0]:\t\t::ffff:127.0.0.", "RoCE v2",
		"MEM_MGT_EXTENSIONS", "MEM_WINDOW_TYPE_2B",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("ibv_devinfo does not say %q:\n%s", want, out)
		}
	}
	if out := start(t, "ibv_devices").pass(t); !strings.Contains(out, "roce0") {
		t.Errorf("ibv_devices does not list the device:\n%s", out)
	}
}

// TestLIDsAreRefused has a program that addresses by LID told what to do.
func TestLIDsAreRefused(t *testing.T) {
	testrun.Need(t, "ibv_rc_pingpong")
	port := freePort(t)
	server := start(t, "ibv_rc_pingpong", "-p", port)
	awaitListener(t, port)
	client := start(t, "ibv_rc_pingpong", "-p", port, "localhost")
	var failed *exec.ExitError
	if err := errors.Join(client.Wait(), server.Wait()); !errors.As(err, &failed) {
		t.Errorf("both ends ended with %v, and should have failed", err)
	}
	if out := server.out.String(); !strings.Contains(out, "addressed by GID and not by LID") {
		t.Errorf("it does not say why:\n%s", out)
	}
}

// TestNoConnectionManager has a program that needs RDMA CM told so.
func TestNoConnectionManager(t *testing.T) {
	testrun.Need(t, "ib_write_bw")
	p := start(t, "ib_write_bw", "-R", "-p", freePort(t))
	if err := p.Wait(); err == nil || !strings.Contains(p.out.String(), "has no RDMA CM (ENODEV)") {
		t.Errorf("%v:\n%s", err, p.out.String())
	}
}

// TestOddPrograms runs a program that forks, faults, has many threads, and unmaps registered memory.
func TestOddPrograms(t *testing.T) {
	const header = "/usr/include/infiniband/verbs.h"
	if _, err := os.Stat(header); err != nil {
		testrun.Missing(t, header+" (package libibverbs-dev)")
	}
	testrun.Need(t, "cc")
	odd := filepath.Join(t.TempDir(), "odd")
	cc := exec.Command("cc", "-Wall", "-Werror", "-o", odd, "testdata/odd.c", "-libverbs", "-lpthread")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tt := range []struct{ what, says string }{
		{"fork", "was forked after roce0 was opened"},
		{"handler-before", ""},
		{"handler-after", ""},
		{"threads", ""},
		{"unmap", ""},
		{"close", "2 memory regions, 2 queue pairs open"},
		{"windows", ""},
		{"deep-handlers", ""},
		{"rereg", ""},
		{"nonsense", "are no memory: bad address"},
		{"lists", ""},
		{"shares", ""},
		{"limits", ""},
		{"destroys", ""},
		{"leaves", ""},
		{"unread", ""},
		{"crowds", ""},
		{"address-space", "needs 1 GiB of address space"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			if out := start(t, odd, tt.what).pass(t); !strings.Contains(out, tt.says) {
				t.Errorf("it does not say %q:\n%s", tt.says, out)
			}
		})
	}
	for _, tt := range []struct {
		what string
		runs int
	}{
		{"exit-in-handler", 1},
		{"exit-in-malloc", 12}, // where the signal comes is a matter of luck
		{"exit-beside-threads", 1},
	} {
		t.Run(tt.what, func(t *testing.T) {
			for n := range tt.runs {
				p := start(t, odd, tt.what)
				if err := p.Wait(); p.ProcessState.ExitCode() != 7 || p.out.Len() > 0 {
					t.Fatalf("run %d ended with %v, want exit status 7 and silence:\n%s", n+1, err, p.out.String())
				}
			}
		})
	}
	t.Run("crash", func(t *testing.T) {
		p := start(t, odd, "crash")
		var failed *exec.ExitError
		if err := p.Wait(); !errors.As(err, &failed) || failed.Sys().(syscall.WaitStatus).Signal() != syscall.SIGSEGV {
			t.Errorf("it ended with %v, want SIGSEGV:\n%s", err, p.out.String())
		}
	})
}

// TestABI asserts the structs of the library against the real header.
func TestABI(t *testing.T) {
	const header = "/usr/include/infiniband/verbs.h"
	if _, err := os.Stat(header); err != nil {
		testrun.Missing(t, header+" (package libibverbs-dev)")
	}
	testrun.Need(t, "cc")
	if out, err := exec.Command("cc", "-std=gnu11", "-fsyntax-only", "testdata/abi.c").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

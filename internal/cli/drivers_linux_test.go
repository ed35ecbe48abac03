package cli

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/scripts/fakeverbs"
)

// fakeLibrary compiles the tests' libibverbs into a folder.
func fakeLibrary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	_, err := fakeverbs.Build(dir, nil)
	if errors.Is(err, fakeverbs.ErrAbsent) {
		testrun.Missing(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// onFake is a command of this program where the fake device is, with something planted; the other end is not in its
// process group.
func onFake(t *testing.T, library, planted, line string) *exec.Cmd {
	t.Helper()
	words := strings.Fields(line)
	c := exec.Command(os.Args[0], words[1:]...)
	c.Args[0] = words[0]
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH="+library, "FAKEVERBS_ARENA="+library+"/arena-"+words[1], planted)
	return c
}

// said is what a process writes, for a test that waits for some of it.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
	news chan struct{}
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
	return s.text.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until a text has been written, or for a minute.
func (s *said) await(text string) bool {
	late := time.After(time.Minute)
	for !strings.Contains(s.String(), text) {
		select {
		case <-s.news:
		case <-late:
			return false
		}
	}
	return true
}

// TestHangingDriver has a call of libibverbs not return: it is named after 10 s, and Ctrl-C ends the command, also
// under perftest's names.
func TestHangingDriver(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for 10 s")
	}
	library := fakeLibrary(t)
	for _, tt := range []struct{ planted, line, names string }{
		{"open_device", "gobw devices fake0", "ibv_open_device on fake0"},
		{"create_qp", "gobw write --loopback -d fake0", "ibv_create_qp on fake0"},
		{"reg_mr", "golat read --loopback -d fake0", "ibv_reg_mr_iova2 on fake0"},
		{"poll_cq", "gobw send --loopback -d fake0", "ibv_poll_cq, ibv_post_send or ibv_post_recv on fake0"},
		{"close_device", "gobw devices fake0", "ibv_close_device on fake0"},
		{"open_device", "ib_write_bw -d fake0", "ibv_open_device on fake0"},
	} {
		t.Run(tt.line+", "+tt.planted, func(t *testing.T) {
			t.Parallel()
			c := onFake(t, library, "FAKEVERBS_HANG="+tt.planted, tt.line)
			err := &said{news: make(chan struct{}, 1)}
			c.Stderr = err
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			kill := time.AfterFunc(2*time.Minute, func() { _ = c.Process.Kill() })
			defer kill.Stop()
			if want := tt.names + " has not returned for 10 s"; !err.await(want) {
				t.Errorf("%s, want %q", err, want)
			}
			began := time.Now()
			_ = c.Process.Signal(os.Interrupt)
			_ = c.Wait()
			if took, code := time.Since(began), c.ProcessState.ExitCode(); code != exit.Interrupted || took > lastResort/2 {
				t.Errorf("exit %d after %v, want %d\n%s", code, took, exit.Interrupted, err)
			}
			if want := "gobw: interrupted (SIGINT)\n"; !strings.Contains(strings.ReplaceAll(err.String(), "golat", "gobw"),
				want) {
				t.Errorf("%s, want %q", err, want)
			}
		})
	}
}

// TestHangingClose has a queue pair not close once all is measured: what was measured is in the file.
func TestHangingClose(t *testing.T) {
	library := fakeLibrary(t)
	file := filepath.Join(t.TempDir(), "x.json")
	c := onFake(t, library, "FAKEVERBS_HANG=destroy_qp", "gobw write --loopback -d fake0 -n 500 --save "+file)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		_ = c.Wait()
	}()
	for late := time.Now().Add(time.Minute); time.Now().Before(late); <-time.After(50 * time.Millisecond) {
		if d, err := report.Load(file); err == nil {
			if len(d.Records) != 1 || d.Records[0].Iterations != 500 {
				t.Errorf("%d records are kept: %+v", len(d.Records), d.Records)
			}
			return
		}
	}
	t.Error("nothing is kept")
}

// TestHangingServer has a driver hang in the process of a client's test: the server's log names the call, and SIGTERM
// ends the server.
func TestHangingServer(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for 10 s")
	}
	library := fakeLibrary(t)
	c := onFake(t, library, "FAKEVERBS_HANG=create_qp", "gobw serve -d fake0 --listen 127.0.0.1:0")
	log := &said{news: make(chan struct{}, 1)}
	read, write := io.Pipe()
	c.Stderr = io.MultiWriter(log, write)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	kill := time.AfterFunc(3*time.Minute, func() { _ = c.Process.Kill() })
	defer kill.Stop()
	line, _ := bufio.NewReader(read).ReadString('\n')
	go func() { _, _ = io.Copy(io.Discard, read) }()
	_, address, _ := strings.Cut(strings.TrimSpace(line), "serving on ")
	_, port, _ := strings.Cut(address, ":")
	client := onFake(t, library, "", "gobw write -d fake0 127.0.0.1 -p "+port)
	client.Env = append(client.Env, "FAKEVERBS_ARENA="+library+"/arena-serve")
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	if want := "ibv_create_qp on fake0 has not returned for 10 s"; !log.await(want) {
		t.Errorf("%s, want %q", log, want)
	}
	_ = client.Process.Signal(os.Interrupt)
	_ = client.Wait()
	began := time.Now()
	_ = c.Process.Signal(syscall.SIGTERM)
	_ = c.Wait()
	if took := time.Since(began); c.ProcessState.ExitCode() != 0 || took > lastResort {
		t.Errorf("%v after %v, want 0\n%s", c.ProcessState, took, log)
	}
}

// TestUnaskedCompletionsFail has a completion come twice: the test fails, and the library is named.
func TestUnaskedCompletionsFail(t *testing.T) {
	library := fakeLibrary(t)
	for _, line := range []string{
		"gobw write --loopback -d fake0", "gobw read --loopback -d fake0", "gobw send --loopback -d fake0 --cpu-time",
	} {
		c := onFake(t, library, "FAKEVERBS_TWICE=700", line+" -n 2000 -s 64")
		out, _ := c.CombinedOutput()
		if c.ProcessState.ExitCode() != exit.Failed ||
			!strings.Contains(string(out), "libibverbs or the device's driver cannot be right") {
			t.Errorf("%s: exit %d, want %d\n%s", line, c.ProcessState.ExitCode(), exit.Failed, out)
		}
	}
}

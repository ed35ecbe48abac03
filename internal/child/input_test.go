//go:build unix

package child

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is a process that hangs, too.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "hang") {
		go func() { _, _ = io.Copy(io.Discard, Input(100*time.Millisecond)) }()
		_, _ = os.Stdout.WriteString("begun")
		select {}
	}
	if slices.Contains(os.Args, "parent") {
		c := exec.Command("sh", "-c", "echo $$; exec sleep 100")
		c.Stdout = os.Stdout
		_ = Run(c)
	}
	m.Run()
}

// TestKilledParent: a command ends when the process that runs it is killed.
func TestKilledParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a signal for it")
	}
	p, err := Start(nil, "parent")
	if err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(p.Out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Process.Kill()
	late := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	_, _ = io.Copy(io.Discard, p.Out) // until the command has gone, which has it too
	_ = p.Wait()
	if !late.Stop() {
		t.Errorf("process %d went on", pid)
	}
}

// TestHangingChild: a process that does nothing more ends once its input has, as when
// the process that started it was killed.
func TestHangingChild(t *testing.T) {
	p, err := Start(nil, "hang")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(p.Out, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(time.Minute, func() { _ = p.Process.Kill() })
	_ = p.In.Close()
	if err := p.Wait(); err == nil || p.ProcessState.ExitCode() != 1 || !late.Stop() {
		t.Errorf("%v", p.ProcessState)
	}
}

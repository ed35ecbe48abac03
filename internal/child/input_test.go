package child

import (
	"io"
	"os"
	"slices"
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
	m.Run()
}

// TestHangingChild: a process that does nothing more ends once its input has, as when the process that started it was killed.
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

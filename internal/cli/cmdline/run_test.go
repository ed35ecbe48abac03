package cmdline

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestSignalWhileFlagsAreRead: a command whose flags name a pipe that nobody writes to ends with the signal.
func TestSignalWhileFlagsAreRead(t *testing.T) {
	signal := errors.New("signal")
	ctx, cancel := context.WithCancelCause(t.Context())
	reads, never := make(chan bool), make(chan bool)
	defer close(never)
	cmd := &cobra.Command{}
	cmd.SetContext(ctx)
	go func() {
		<-reads
		cancel(signal)
	}()
	err := Run(func([]string) (int, error) {
		reads <- true
		<-never
		return 0, nil
	}, func(context.Context, int) error { return errors.New("ran") })(cmd, nil)
	if !errors.Is(err, signal) {
		t.Errorf("got %v, want %v", err, signal)
	}
}

// TestFaultWhileFlagsAreRead: a panic reaches whoever tells of faults, with the place where it was.
func TestFaultWhileFlagsAreRead(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "a fault\n") || !strings.Contains(p, "run_test.go") {
			t.Errorf("got %q", p)
		}
	}()
	_ = Run(func([]string) (int, error) { panic("a fault") }, func(context.Context, int) error { return nil })(cmd, nil)
}

// TestSignalWhileAFileIsRead: likewise for what a command reads after its flags, as a report whose file is a pipe.
func TestSignalWhileAFileIsRead(t *testing.T) {
	signal, never := errors.New("signal"), make(chan bool)
	defer close(never)
	ctx, cancel := context.WithCancelCause(t.Context())
	err := Interruptible(ctx, func() error {
		cancel(signal)
		<-never
		return nil
	})
	if !errors.Is(err, signal) {
		t.Errorf("got %v, want %v", err, signal)
	}
}

//go:build !linux

package child

import (
	"context"
	"os"
	"syscall"
	"time"
)

// Elsewhere than on Linux a program has its time as its only limit.

func adopt() map[int]bool { return nil }

func limit(int, int64) {}

func sweep(map[int]bool) {}

func signalOf(*os.ProcessState) syscall.Signal { return 0 }

func killGroup(p *os.Process) { _ = p.Kill() }

// Listens gives a program a second to begin to listen.
func (f *Foreign) Listens(ctx context.Context, _ int) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
}

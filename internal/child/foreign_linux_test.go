package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
)

// foreign runs a shell script under the bounds of a program of somebody else, for at most some time.
func foreign(t *testing.T, script string, most time.Duration) (*Foreign, int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	f, err := StartForeign([]string{"sh", "-c", script}, []string{"PORT=1"}, 256<<20)
	if err != nil {
		t.Fatal(err)
	}
	code, _, err := f.Wait(ctx)
	f.End()
	return f, code, err
}

// TestHostileProgram: what a program does to stay, to flood or to grow costs its bounds and no more.
func TestHostileProgram(t *testing.T) {
	t.Run("stays behind in a session of its own, deaf to signals, with the output open", func(t *testing.T) {
		began := time.Now()
		f, code, err := foreign(t, `trap '' TERM HUP INT
			setsid sh -c 'trap "" TERM HUP INT; echo $$; setsid sleep 300 & echo $!; wait' &
			sleep 0.3; exit 3`, time.Minute)
		if took := time.Since(began); code != 3 || err != nil || took > 20*time.Second {
			t.Fatalf("code %d, %v, after %v", code, err, took)
		}
		pids := strings.Fields(f.Out.String())
		if len(pids) != 2 {
			t.Fatalf("said %q, want two process numbers", pids)
		}
		for _, pid := range pids {
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%s/stat", pid)); err == nil &&
				!strings.Contains(string(stat), ") Z ") {
				t.Errorf("process %s is still there: %s", pid, stat)
			}
		}
	})
	t.Run("does not end", func(t *testing.T) {
		began := time.Now()
		_, _, err := foreign(t, `trap '' TERM; while :; do :; done`, 300*time.Millisecond)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 20*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
	t.Run("leaves its process group for that of its parent", func(t *testing.T) {
		testrun.Need(t, "python3")
		began := time.Now()
		_, _, err := foreign(t, `exec python3 -c 'import os, time
os.setpgid(0, os.getpgid(os.getppid()))
time.sleep(1e9)'`, time.Second)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 8*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
	t.Run("starts processes without end", func(t *testing.T) {
		mark := fmt.Sprintf("%d", time.Now().UnixNano())
		if _, _, err := foreign(t, `i=0
			while [ $i -lt 200 ]; do setsid sh -c 'while :; do sleep 0.01; done' `+mark+` & i=$((i+1)); done; wait`,
			time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended by itself: %v", err)
		}
		for pid := range parents() {
			if words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(words), mark) {
				t.Errorf("process %d is still there: %q", pid, words)
			}
		}
	})
	t.Run("floods its output, and says its line last", func(t *testing.T) {
		f, _, err := foreign(t, `head -c 50000000 /dev/zero | tr '\0' x; echo; echo '{"last": 1}'`, time.Minute)
		if n := len(f.Out.String()); err != nil || n > firstBytes+lastBytes ||
			!strings.HasSuffix(f.Out.String(), "\n"+`{"last": 1}`) {
			t.Errorf("%v: %d bytes kept", err, n)
		}
	})
	t.Run("takes memory", func(t *testing.T) {
		_, code, err := foreign(t, `x=$(head -c 600000000 /dev/zero | tr '\0' x); [ ${#x} = 600000000 ] && exit 0`,
			time.Minute)
		if err != nil || code == 0 {
			t.Errorf("a shell took 600 MB of 256 MiB: code %d, %v", code, err)
		}
	})
	t.Run("fills the disk", func(t *testing.T) {
		file := t.TempDir() + "/big"
		_, code, err := foreign(t, `head -c 400000000 /dev/zero >`+file, time.Minute)
		if info, _ := os.Stat(file); err != nil || code == 0 || info.Size() > 256<<20 {
			t.Errorf("code %d, %v: %d bytes", code, err, info.Size())
		}
	})
}

// TestSignal: a program that a signal has ended, itself or below a shell, is told from one that returns a large number.
func TestSignal(t *testing.T) {
	for script, want := range map[string]struct {
		code   int
		signal syscall.Signal
	}{
		"exit 255": {255, 0}, "exit 128": {128, 0}, "exit 160": {160, 0}, "exit 5": {5, 0},
		"exit 139": {139, syscall.SIGSEGV}, "exit 137": {137, syscall.SIGKILL},
		"kill -SEGV $$": {139, syscall.SIGSEGV}, "kill -KILL $$": {137, syscall.SIGKILL},
		"sh -c 'kill -ABRT $$'; exit $?": {134, syscall.SIGABRT}, "kill -40 $$": {168, 40},
	} {
		f, err := StartForeign([]string{"sh", "-c", script}, nil, 256<<20)
		if err != nil {
			t.Fatal(err)
		}
		code, signal, err := f.Wait(t.Context())
		if f.End(); code != want.code || signal != want.signal || err != nil {
			t.Errorf("%s: code %d, signal %d, %v, want %v", script, code, int(signal), err, want)
		}
	}
}

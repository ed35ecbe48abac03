package child

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/gobw/gobw/report/plain"
)

// Foreign is a program of somebody else. It runs in a process group of its own, with bounded memory, and only the
// beginning and the end of what it says are kept.
type Foreign struct {
	cmd      *exec.Cmd
	Out, Err Words
	ended    chan error
	before   map[int]bool // children of this process that were there before
}

// StartForeign starts a program by its words, of which "gobw" is this program. memory is in bytes, of each process.
// Until End no other process may be started here: End kills all children that were not there before.
func StartForeign(words, env []string, memory int64) (*Foreign, error) {
	name := words[0]
	if name == "gobw" {
		var err error
		if name, err = Self(); err != nil {
			return nil, err
		}
	}
	f := &Foreign{cmd: exec.Command(name, words[1:]...), ended: make(chan error, 1)}
	f.cmd.Env, f.cmd.SysProcAttr = append(os.Environ(), env...), OwnGroup()
	if f.cmd.SysProcAttr != nil {
		endWithParent(f.cmd.SysProcAttr, syscall.SIGKILL) // it may be deaf to others
	}
	f.cmd.Stdout, f.cmd.Stderr = &f.Out, &f.Err
	f.cmd.WaitDelay = time.Second // a process that it leaves behind may hold its output open
	f.before = adopt()
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // whose end is that of this process: see [Run]
		defer runtime.UnlockOSThread()
		err := f.cmd.Start()
		started <- err
		if err == nil {
			f.ended <- f.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	limit(f.cmd.Process.Pid, memory)
	return f, nil
}

// Wait returns the exit code, and the signal where one ended the program: then the code is 128 and the signal. So ends
// a shell whose program was ended by one. The context ends it.
func (f *Foreign) Wait(ctx context.Context) (code int, signal syscall.Signal, err error) {
	select {
	case err = <-f.ended:
		f.ended <- err
	case <-ctx.Done():
		return -1, 0, context.Cause(ctx)
	}
	if code := f.cmd.ProcessState.ExitCode(); code > 128 && code <= 128+lastSignal {
		return code, syscall.Signal(code - 128), nil
	} else if code >= 0 {
		return code, 0, nil
	}
	if _, is := errors.AsType[*exec.ExitError](err); is {
		signal = signalOf(f.cmd.ProcessState)
		return 128 + int(signal), signal, nil
	}
	return -1, 0, err
}

// NotStarted says why a program of a name could not be started.
func NotStarted(name string, err error) string {
	info, missing := os.Stat(name)
	denied := errors.Is(err, fs.ErrPermission)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "there is no such program in PATH" + plain.When(missing == nil, ": write ./%s", name)
	case missing != nil:
		return "there is no such program"
	case info.IsDir():
		return "is a folder, not a program"
	case errors.Is(err, fs.ErrNotExist):
		return "the interpreter of its first line, or its loader, is missing"
	case denied && info.Mode()&0o111 == 0:
		return "is not executable: chmod +x " + name
	}
	var cause syscall.Errno
	_ = errors.As(err, &cause)
	return "is no program of this machine, or may not be run: " + cause.Error()
}

// lastSignal is the last signal that has a name on Linux. Those behind it are for real-time programs.
const lastSignal = 31

// End kills what is left of the program: its group, and on Linux also processes that have left the group.
func (f *Foreign) End() {
	killGroup(f.cmd.Process)
	select {
	case err := <-f.ended:
		f.ended <- err
	case <-time.After(10 * time.Second): // a driver may hold it
	}
	sweep(f.before)
}

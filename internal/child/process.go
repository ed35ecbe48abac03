package child

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Self is the file of this program: what runs here, also when its file was replaced meanwhile,
// so that both are of the same version.
func Self() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err != nil {
		return os.Executable()
	}
	return self, nil
}

// Run runs a command in a process group of its own. It is told to end when this process does, however that ends.
func Run(c *exec.Cmd) error {
	runtime.LockOSThread() // whose end is that of this process
	defer runtime.UnlockOSThread()
	if c.SysProcAttr = OwnGroup(); c.SysProcAttr != nil {
		endWithParent(c.SysProcAttr, syscall.SIGTERM)
	}
	return c.Run()
}

// Process is this program once more. It is spoken to by its standard streams, and ends when its input does.
type Process struct {
	*exec.Cmd
	In   io.WriteCloser
	Out  io.Reader
	Said Words // on standard error
}

// Start starts it with other arguments, in a process group of its own, with open files as its descriptors from 3 on.
func Start(files []*os.File, args ...string) (p *Process, err error) {
	self, err := Self()
	if err != nil {
		return nil, err
	}
	p = &Process{Cmd: exec.Command(self, args...)}
	p.Args[0], p.ExtraFiles, p.SysProcAttr, p.Stderr = "gobw", files, OwnGroup(), &p.Said
	if p.In, err = p.StdinPipe(); err != nil {
		return nil, err
	}
	if p.Out, err = p.StdoutPipe(); err != nil {
		return nil, err
	}
	return p, p.Start()
}

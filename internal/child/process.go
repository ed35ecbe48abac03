package child

import (
	"io"
	"os"
	"os/exec"
)

// Self is the file of this program: what runs here, also when its file was replaced meanwhile, so that both are of the same version.
func Self() (string, error) {
	const self = "/proc/self/exe"
	if _, err := os.Stat(self); err != nil {
		return os.Executable()
	}
	return self, nil
}

// Command is this program once more, with other arguments, in a process group of its own. What it writes to standard error is kept.
func Command(args ...string) (*exec.Cmd, *Words, error) {
	self, err := Self()
	if err != nil {
		return nil, nil, err
	}
	cmd, words := exec.Command(self, args...), &Words{}
	cmd.Args[0] = "gobw"
	cmd.Stderr, cmd.SysProcAttr = words, OwnGroup()
	return cmd, words, nil
}

// Process is spoken to by its standard streams, and ends when its input does.
type Process struct {
	*exec.Cmd
	In   io.WriteCloser
	Out  io.Reader
	Said *Words // on standard error
}

// Start starts this program once more.
func Start(args ...string) (*Process, error) { return StartWith(nil, args...) }

// StartWith starts this program once more, with open files as its descriptors from 3 on.
func StartWith(files []*os.File, args ...string) (*Process, error) {
	cmd, words, err := Command(args...)
	if err != nil {
		return nil, err
	}
	cmd.ExtraFiles = files
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &Process{cmd, in, out, words}, nil
}

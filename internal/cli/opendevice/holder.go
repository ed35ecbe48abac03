package opendevice

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/gobw/gobw/verbs/roce"
)

// Holder is who has the UDP port of RoCE on this machine.
type Holder struct {
	Command string // of the process; empty: none was found
	PID     string
	Ours    bool // a test of this program, or of one under perftest's names
	Kernel  bool // no process has it, and the kernel's Soft-RoCE is loaded
}

// PortHolder looks for the holder in root, which is the file system of the machine. What belongs to another user or to
// another container is not found.
func PortHolder(root fs.FS) Holder {
	read := func(name string) string {
		b, _ := fs.ReadFile(root, name)
		return string(b)
	}
	sockets := map[string]bool{}
	for line := range strings.Lines(read("proc/net/udp") + read("proc/net/udp6")) {
		f := strings.Fields(line)
		if len(f) > 9 && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", roce.Port)) {
			sockets["socket:["+f[9]+"]"] = true
		}
	}
	open, _ := fs.Glob(root, "proc/[0-9]*/fd/*")
	for _, fd := range open {
		if link, err := fs.ReadLink(root, fd); err != nil || !sockets[link] {
			continue
		}
		pid := strings.Split(fd, "/")[1]
		command := strings.TrimSpace(strings.ReplaceAll(read("proc/"+pid+"/cmdline"), "\x00", " "))
		program, _, _ := strings.Cut(path.Base(strings.Fields(command + " ?")[0]), " ")
		ours := program == "gobw" || program == "golat" || strings.HasPrefix(program, "ib_")
		return Holder{Command: command, PID: pid, Ours: ours}
	}
	_, err := fs.Stat(root, "sys/module/rdma_rxe")
	return Holder{Kernel: err == nil && len(sockets) > 0}
}

// Machine is the file system of this machine.
func Machine() fs.FS { return os.DirFS("/") }

// What says who holds the port.
func (h Holder) What() string {
	switch {
	case h.Ours:
		return fmt.Sprintf("another test runs on this host (process %s: %s)", h.PID, h.Command)
	case h.Command != "":
		return fmt.Sprintf("process %s has it: %s", h.PID, h.Command)
	case h.Kernel:
		return "the kernel's Soft-RoCE (rdma_rxe) has it on every address"
	}
	return "a process of another user or container has it"
}

// Remedy says what to do about the holder.
func (h Holder) Remedy() string {
	switch {
	case h.Ours:
		return "wait for it: --wait 5m"
	case h.Command != "":
		return "stop that process, or test from another network namespace"
	case h.Kernel:
		return "use -d rxe0, or another network namespace (ip netns add), or remove Soft-RoCE if nobody needs it: " +
			"rmmod rdma_rxe"
	}
	return "as root: ss -lunp 'sport = :4791'"
}

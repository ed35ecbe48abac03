// Package agent is the command 'agent': one host's part in a fabric test that was started elsewhere. The command 'fabric'
// uses it for the ranks of its own.
package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/hostmemory"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/fabric/agent"
	"github.com/gobw/gobw/internal/fabric/measure"
	"github.com/gobw/gobw/internal/fabric/wire"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// DefaultPort is where rank 0 listens unless it is told, or the launcher reserved another.
const DefaultPort = 18600

// flags are the flags of 'agent'.
type flags struct {
	device opendevice.Flags
	secret Secret
	name   string
	rank   int
	wait   string
	worker bool
}

// NewCommand makes 'agent'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use: "agent COORDINATOR[:PORT]", Short: "Take part in a fabric test of another host",
		Long: "Take part in a fabric test ('" + tool + " fabric --hosts FILE') that was started on\n" +
			"another host. Start one on each host, by any launcher; it ends with the test.",
		Example: "  " + tool + " agent node1\n  for h in $(cat hosts.txt); do ssh $h " + tool + " agent node1 & done",
		Args:    cmdline.ArgumentCount(0, 1, "the host of rank 0"),
		RunE: func(cmd *cobra.Command, args []string) error {
			device, err := f.device.Config()
			if err != nil {
				return exit.UsageError{Err: err}
			}
			if f.worker {
				return work(cmd.Context(), &f.device, device)
			}
			return f.run(cmd.Context(), out, args)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.name, "name", "", "this host's name in the host list (the system's)")
	fs.IntVar(&f.rank, "rank", -1, "this agent's rank (by its name)")
	fs.StringVar(&f.wait, "wait", "60s", "how long to look for rank 0")
	f.secret.Bind(fs)
	f.device.Bind(fs)
	fs.BoolVar(&f.worker, "worker", false, "measure as told on standard input")
	cmdline.Hide(fs, "worker")
	cmdline.GroupFlags(cmd, []cmdline.FlagGroup{
		{Title: "Ranks", Names: []string{"name", "rank", "wait", "token-file"}},
		opendevice.Group(),
	})
	return cmd
}

func (f *flags) run(ctx context.Context, out output.Streams, args []string) error {
	wait, err := plan.ParseSeconds(f.wait)
	if err != nil || wait <= 0 {
		return exit.UsageError{Err: fmt.Errorf("--wait %q: want more than 0 seconds", f.wait)}
	}
	if len(args) == 0 {
		return exit.UsageError{Err: errors.New("name the host of rank 0")}
	}
	key, err := f.secret.Key("")
	if err != nil {
		return exit.UsageError{Err: err}
	}
	hello := Hello(f.rank)
	if f.name != "" {
		hello.Host = f.name
	}
	said, err := Part(ctx, Options{Hello: hello, Key: key, Places: Places(args, DefaultPort, 1), Wait: wait, WorkerFlags: f.device.Words()})
	if err != nil {
		if orphan, is := errors.AsType[*agent.OrphanError](err); is {
			return exit.PeerLostError{Err: orphan}
		}
		return exit.SetupError{Err: err}
	}
	_, err = fmt.Fprintf(out.Err, "agent: %s\n", said)
	return err
}

// Hello is who this process is.
func Hello(rank int) wire.Hello {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return wire.Hello{Version: bench.Version(), Rank: rank, Host: host, Place: place(host)}
}

// place is the same for two processes that share a host's network: two ranks there would measure each other's noise.
func place(host string) string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(boot)) + " " + network + " " + host
}

// Places completes hosts with a port, and with the ports after it where rank 0 may have found that one taken.
func Places(hosts []string, port, tries int) []string {
	const most = 256 // a rank 0 that is not on one of the first hosts is named by --coordinator
	var out []string
	for i, h := range hosts[:min(len(hosts), most)] {
		if _, _, err := net.SplitHostPort(h); err == nil {
			out = append(out, h)
			continue
		}
		for k := range tries {
			if i == 0 || k == 0 {
				out = append(out, net.JoinHostPort(strings.Trim(h, "[]"), fmt.Sprint(port+k)))
			}
		}
	}
	return out
}

// Options are one part in a run.
type Options struct {
	Hello       wire.Hello
	Key         wire.Key
	Places      []string
	Wait        time.Duration
	WorkerFlags []string
}

// Part takes part in a run until it is over. It returns rank 0's parting words.
func Part(ctx context.Context, o Options) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return agent.Run(ctx, agent.Config{
		Hello: o.Hello, Key: o.Key, Places: o.Places, Wait: o.Wait, Facts: facts,
		Worker: func(int) agent.Worker {
			return &agent.Process{Command: func() *exec.Cmd {
				cmd := exec.Command(self, append([]string{"agent", "--worker"}, o.WorkerFlags...)...)
				cmd.Args[0] = "gobw"
				return cmd
			}}
		},
	})
}

// facts are what this host is, before any device is open.
func facts() wire.Facts {
	host := bench.Host()
	f := wire.Facts{CPUs: runtime.NumCPU(), Kernel: host.OS, MemlockBytes: hostmemory.LockedLimit()}
	if f.CPUs == 1 {
		f.Warnings = append(f.Warnings, "this rank may run on one CPU only: give it more (srun -c 4, or --exclusive), or its own figures will suffer")
	}
	const need = 64 << 20
	if f.MemlockBytes >= 0 && f.MemlockBytes < need && os.Geteuid() != 0 {
		f.Warnings = append(f.Warnings, fmt.Sprintf("it may lock %d KiB of memory: a NIC may refuse to register buffers; raise LimitMEMLOCK of slurmd, or ulimit -l", f.MemlockBytes>>10))
	}
	return f
}

// work is the measuring process.
func work(ctx context.Context, f *opendevice.Flags, c opendevice.Config) error {
	cpu, err := f.CPUChoice(1)
	if err != nil {
		return exit.UsageError{Err: err}
	}
	return measure.Serve(ctx, measure.Config{
		Open: func(name string, local netip.Addr) (verbs.Device, netip.Addr, error) {
			c := c
			c.Name, c.Strict = name, true
			d, err := opendevice.Open(c)
			if err != nil {
				return nil, local, err
			}
			at, err := d.Bind(local)
			if err != nil {
				return nil, at, errors.Join(err, d.Close())
			}
			return d.Device, at, nil
		},
		Options: bench.ExchangeOptions{Port: c.Port, GIDIndex: c.GID, CPU: cpu},
	}, os.Stdin, os.Stdout)
}

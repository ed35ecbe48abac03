package fabric

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/child"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/agent"
	"github.com/gobw/gobw/internal/fabric/launch"
	"github.com/gobw/gobw/internal/fabric/worker"
	"github.com/gobw/gobw/verbs"
)

// hello is who this process is.
func hello(id launch.Identity) fabric.Hello {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	h := fabric.Hello{
		Rank: id.Rank, Host: cmp.Or(id.Host, host), Leaf: cmp.Or(os.Getenv("GOBW_LEAF"), id.Leaf), CPUs: runtime.NumCPU(),
		Load: machine.LoadAverage(),
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	network, err2 := os.Readlink("/proc/self/ns/net")
	if err == nil && err2 == nil { // two ranks there would measure each other's noise
		h.Place = strings.TrimSpace(string(boot)) + " " + network + " " + host
	}
	return h
}

// part takes part in a run until it is over, and notes what it waits for. It returns rank 0's parting words.
func part(ctx context.Context, c config, h fabric.Hello, key []byte, places []string,
	note func(string),
) (string, error) {
	return agent.Join(ctx, agent.Config{
		Hello: h, Version: machine.Version(), Key: key, Rendezvous: places, Wait: c.run.Wait, Note: note,
		Worker: func(int) agent.Worker {
			return &agent.Process{Command: append([]string{"fabric", "--worker"}, c.deviceWords...)}
		},
	})
}

// workerGrace is how long the measuring process may take to end once its agent has.
const workerGrace = 3 * time.Second

// work is the measuring process.
func work(ctx context.Context, c config) error {
	return worker.Measure(ctx, worker.Config{
		Open: func(name string, local netip.Addr) (verbs.Device, netip.Addr, error) {
			o := c.Device
			o.Name, o.Strict = name, true
			d, err := opendevice.Open(o)
			if err != nil {
				return nil, local, err
			}
			at, err := d.Bind(local)
			if err != nil {
				return nil, at, errors.Join(err, d.Close())
			}
			return d.Device, at, nil
		},
		Port: c.Device.Port, GIDIndex: c.Device.GID, CPU: c.Device.CPU,
	}, child.Input(workerGrace), os.Stdout)
}

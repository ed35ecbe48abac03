// Package fabric is the command 'fabric': every path of a cluster, and which host or link is bad.
package fabric

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/agent"
	"github.com/gobw/gobw/internal/fabric/launch"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/plain"
)

//go:embed help.txt
var help string

// NewCommand makes 'fabric'.
func NewCommand(tool string, kind plan.Kind, out output.Streams) *cobra.Command {
	f := &flags{}
	cmd := cmdline.Command(tool, help)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return exit.With(exit.Usage,
				fmt.Errorf("%q: name all hosts with --hosts: --hosts %s, or --hosts FILE", args[0],
					strings.Join(args, ",")+plain.When(len(args) == 1, ",HOST")))
		}
		return nil
	}
	cmd.RunE = cmdline.Run(
		func([]string) (config, error) { return f.check(tool) },
		func(ctx context.Context, c config) error { return run(ctx, out, c) },
	)
	f.bind(cmd, kind)
	return cmd
}

// run finds out which rank this process is, and runs it.
func run(ctx context.Context, out output.Streams, c config) error {
	if c.worker {
		return work(ctx, c)
	}
	id, err := c.identity(hello(launch.Identity{}).Host)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	secret := os.Getenv(secretVariable)
	if n := len(secret); n > 0 && n < leastSecret {
		return exit.With(exit.Usage,
			fmt.Errorf("%s has %d bytes: want %d or more, at all hosts: export %[1]s=$(openssl rand -hex 32)", secretVariable,
				n, leastSecret))
	}
	key := fabric.Key(id.Job, secret)
	me := hello(id)
	port := c.portOf(id)
	switch {
	case id.Rank < 0:
		return takePart(ctx, out, c, me, key, places(id.Rendezvous, port))
	case id.Rank > 0:
		// Rank 0 alone returns the verdict. A rank that fails is named in it, and must not end the others (srun -K).
		if _, err := part(ctx, c, me, key, places(id.Rendezvous, port), nil); err != nil && ctx.Err() == nil {
			fmt.Fprintf(out.Err, "%s fabric: rank %d on %s: %v\n", c.Tool, id.Rank, me.Host, err)
		}
		return nil
	}
	if secret == "" {
		fmt.Fprintf(out.Err, "%s fabric: no secret is set: others could join this run; set %s on all hosts\n", c.Tool,
			secretVariable)
	}
	l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return exit.With(exit.Setup, fmt.Errorf("%w: choose another port with --coordinator :PORT, at all hosts", err))
	}
	c.run.Ranks, c.run.Hosts, c.run.Launcher, c.run.Key = id.Size, id.Hosts, id.Source, key
	mine := c.own(me, addresses())
	if len(c.hosts) > 0 && !c.Output.Quiet {
		if mine == nil {
			fmt.Fprintf(out.Err, "%s fabric: host %s (this one) is not in --hosts: it coordinates and is not tested\n",
				c.Tool, me.Host)
		} else {
			me.Host = mine.Host
		}
		fmt.Fprintf(out.Err, "%[1]s fabric: on each other host type:\n  %[1]s fabric --coordinator %[2]s%[3]s\n", c.Tool,
			me.Host, plain.When(c.port > 0, ":%d", c.port))
	}
	return coordinate(ctx, out, c, l, mine)
}

// identity is this process's rank: the launcher's; or 0 of a list of hosts; or -1 if another host is the coordinator.
// Rank 0 then finds the rank by the host's name.
func (c *config) identity(host string) (launch.Identity, error) {
	if len(c.hosts) > 0 && (c.coordinator == "" || isHere(c.coordinator, host)) {
		return launch.Identity{Size: len(c.hosts), Hosts: c.hosts}, nil
	}
	id, err := launch.Discover(c.coordinator, os.Getenv)
	switch alone := errors.Is(err, launch.ErrAlone); {
	case len(c.hosts) > 0, alone && c.coordinator != "":
		return launch.Identity{Rank: -1, Rendezvous: []string{c.coordinator}}, nil
	case alone:
		err = fmt.Errorf("%w: start it with a launcher (srun -K %s fabric), or give --hosts FILE here and --coordinator "+
			"HOST on each other host", err, c.Tool)
	}
	return id, err
}

// takePart runs a rank that no launcher has started. Its own result is its exit status.
func takePart(ctx context.Context, out output.Streams, c config, me fabric.Hello, key []byte, places []string) error {
	tell := note(c.Tool, output.NewProgress(out, c.Output.Quiet))
	said, err := part(ctx, c, me, key, places, func(s string) {
		if !c.Output.Quiet {
			tell(s)
		}
	})
	if orphan, is := errors.AsType[*agent.OrphanError](err); is {
		return exit.With(exit.PeerLost, orphan)
	}
	if err != nil {
		return exit.With(exit.Setup, err)
	}
	tell(said)
	return nil
}

// note tells a person what should be read at once.
func note(tool string, p *output.Progress) func(string) {
	return func(s string) { p.Note(tool + " fabric: " + strings.ReplaceAll(s, "\n", "\n  ")) }
}

// own is the rank that rank 0 measures as; nil: neither the name nor an address of its host is in the list of hosts.
func (c *config) own(me fabric.Hello, addresses []string) *fabric.Hello {
	if len(c.hosts) > 0 {
		if me.Rank = launch.RankOf(c.hosts, append([]string{me.Host}, addresses...)...); me.Rank < 0 {
			return nil
		}
		me.Host = c.hosts[me.Rank]
	}
	return &me
}

// isHere tells whether a name or an address belongs to this host.
func isHere(of, host string) bool {
	at, _ := net.LookupHost(of) // a name without one may still be this host's
	return launch.RankOf(append(at, of), append(addresses(), host)...) >= 0
}

// addresses are this host's.
func addresses() (out []string) {
	all, _ := net.InterfaceAddrs() // without them it is known by its name
	for _, a := range all {
		at, _, _ := strings.Cut(a.String(), "/")
		out = append(out, at)
	}
	return out
}

// defaultPort is where rank 0 listens by default. With a launcher the job chooses one of jobPorts ports from there on,
// because rank 0 of another job may be on this host.
const (
	defaultPort = 18600
	jobPorts    = 800
)

// portOf is where rank 0 listens. All ranks compute the same port.
func (c *config) portOf(id launch.Identity) int {
	switch {
	case c.port != 0:
		return c.port
	case len(c.hosts) > 0 || id.Rank < 0: // no launcher tells all of them of a job
		return defaultPort
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id.Job))
	return defaultPort + int(h.Sum32()%jobPorts)
}

// places completes hosts with a port.
func places(hosts []string, port int) []string {
	const most = 256 // a rank 0 that is not on one of the first hosts is named by --coordinator
	return plain.Each(hosts[:min(len(hosts), most)], func(h string) string {
		return control.HostPort(h, port)
	})
}

// leastSecret is the shortest secret, in bytes: whoever hears one proof can try shorter ones at home.
const leastSecret = 16

// secretVariable is the environment variable of the secret that all ranks of a run share.
const secretVariable = "GOBW_FABRIC_SECRET"

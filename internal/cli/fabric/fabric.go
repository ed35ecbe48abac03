// Package fabric is the command 'fabric': every path of a cluster, and which host or link is bad.
package fabric

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/agent"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/fabric/coordinate"
	"github.com/gobw/gobw/internal/fabric/rank"
	"github.com/gobw/gobw/internal/fabric/summary"
	"github.com/gobw/gobw/internal/plan"
	report "github.com/gobw/gobw/report/fabric"
)

// NewCommand makes 'fabric'.
func NewCommand(tool string, kind plan.Kind, out output.Streams) *cobra.Command {
	f := &flags{kind: kind}
	cmd := &cobra.Command{
		Use: "fabric", Short: "Test all paths between many hosts; say which is bad",
		Long: "Test the paths between many hosts at once, and say which hosts, links and trunks\n" +
			"are slow. Start it on all of them by the launcher that the cluster has: rank 0\n" +
			"coordinates and prints the verdict, the others measure and return 0. Or start it\n" +
			"once with --hosts, and '" + tool + " agent HOST' on each host.\n\n" +
			"Exit status of rank 0: 0 nothing found; 1 something slow, or too noisy to tell;\n" +
			"4 a host did not take part to the end; 5 wrong data.",
		Example: "  srun -K " + tool + " fabric\n" +
			"  srun -K " + tool + " fabric --pattern incast --time 20m --html fabric.html\n" +
			"  " + tool + " fabric --hosts hosts.txt\n" +
			"  " + tool + " fabric --simulate 1024 --plant 'host=17:-20%,link=3-900:-50%'",
		Args: cmdline.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := f.config(tool, out)
			if err != nil {
				return exit.UsageError{Err: err}
			}
			c.command = strings.Join(append([]string{tool}, os.Args[min(1, len(os.Args)):]...), " ")
			return run(cmd.Context(), out, c)
		},
	}
	f.bind(cmd)
	return cmd
}

// run finds out which part this process has and plays it.
func run(ctx context.Context, out output.Streams, c config) error {
	if c.simulated > 0 {
		return runSimulated(out, c)
	}
	if len(c.hosts) > 0 && c.flags.Rank < 0 {
		return runWithHosts(ctx, out, c)
	}
	id, err := rank.Discover(c.flags, os.Getenv, c.hosts)
	if errors.Is(err, rank.ErrAlone) {
		return exit.UsageError{Err: fmt.Errorf("%w: start it by a launcher (srun -K gobw fabric), or with --hosts FILE and 'gobw agent' on each host", err)}
	}
	if err != nil {
		return exit.UsageError{Err: err}
	}
	key, err := c.secret.Key(id.Job)
	if err != nil {
		return exit.UsageError{Err: err}
	}
	hello := agent.Hello(id.Rank)
	if id.Host != "" {
		hello.Host = id.Host
	}
	hello.Leaf = id.Leaf
	port, tries := c.ports(id)
	if id.Rank > 0 {
		o := agent.Options{Hello: hello, Key: key, Places: agent.Places(id.Rendezvous, port, tries), Wait: c.wait, WorkerFlags: c.workerFlags}
		// Rank 0 alone returns the verdict. A rank that fails is named in it, and must not end the others (srun -K).
		patient, stop := outlive(ctx, partingTime)
		defer stop()
		if _, err := agent.Part(patient, o); err != nil && ctx.Err() == nil {
			fmt.Fprintf(out.Err, "gobw fabric: rank %d on %s: %v\n", id.Rank, hello.Host, err)
		}
		return nil
	}
	if !c.secret.Given() {
		fmt.Fprintf(out.Err, "gobw fabric: no secret is set: whoever knows this job's number could join it; set %s in the job to keep others out\n", agent.SecretVariable)
	}
	l, err := listen(port, tries)
	if err != nil {
		return exit.SetupError{Err: err}
	}
	r := &rankZero{config: c, out: out, began: time.Now(), key: key, ranks: id.Size, hosts: id.Hosts}
	return r.run(ctx, l, &hello)
}

// partingTime is how long a rank that was told to stop waits for rank 0 to say so: a job that is cancelled signals all at
// once, and rank 0 is to save a run that was stopped, not one whose hosts have gone.
const partingTime = 2 * time.Second

// outlive is a context that ends so much later than another.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(by):
			cancel(context.Cause(ctx))
		case <-later.Done():
		}
	})
	return later, func() { stop(); cancel(nil) }
}

// runWithHosts is rank 0 of a run whose agents are started elsewhere. If this host is in the list, it takes part, too.
func runWithHosts(ctx context.Context, out output.Streams, c config) error {
	key, err := c.secret.Key("")
	if err != nil {
		return exit.UsageError{Err: err}
	}
	port := c.port
	if port == 0 {
		port = agent.DefaultPort
	}
	l, err := listen(port, 1)
	if err != nil {
		return exit.SetupError{Err: err}
	}
	if !c.secret.Given() {
		fmt.Fprintf(out.Err, "gobw fabric: no secret is set: anybody could join; set %s, or --token-file, at all hosts\n", agent.SecretVariable)
	}
	r := &rankZero{config: c, out: out, began: time.Now(), key: key, ranks: len(c.hosts), names: c.hosts}
	hello := agent.Hello(-1)
	for i, h := range c.hosts {
		if h == hello.Host || strings.HasPrefix(h, hello.Host+".") || strings.HasPrefix(hello.Host, h+".") {
			hello.Rank, hello.Host = i, h
			return r.run(ctx, l, &hello)
		}
	}
	return r.run(ctx, l, nil)
}

// portTries is how many ports rank 0 tries where nobody chose one: another job's rank 0 may be on this host.
const portTries = 8

// ports are where rank 0 listens. All ranks come to the same.
func (c *config) ports(id rank.Identity) (first, tries int) {
	switch {
	case c.port != 0:
		return c.port, 1
	case id.Port != 0:
		return id.Port, 1
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(id.Job))
	return agent.DefaultPort + int(h.Sum32()%100)*portTries, portTries
}

func listen(port, tries int) (net.Listener, error) {
	var errs []error
	for k := range tries {
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port+k))
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
	}
	return nil, fmt.Errorf("%w: choose another with --port", errors.Join(errs...))
}

// verdict is the exit status of a document.
func verdict(d *report.Document) error {
	switch d.Verdict() {
	case report.Pass:
		return nil
	case report.Corrupt:
		return exit.SilentError{Code: exit.Corrupt}
	case report.HostsMissing:
		return exit.SilentError{Code: exit.PeerLost}
	case report.Fail, report.CannotTell:
	}
	return exit.SilentError{Code: exit.Missed}
}

// facts are what the document says of this run beside its outcome.
func (c *config) facts(began time.Time, o coordinate.Outcome) summary.Facts {
	f := summary.Facts{
		Program: "gobw " + bench.Version(), Command: c.command, Began: began, Plan: c.plan, Measure: c.measure, OneWay: c.oneWay, Rails: c.rails,
		Baseline: c.baseline,
	}
	if o.Interrupted != nil {
		f.Stopped = o.Interrupted.Error()
	}
	return f
}

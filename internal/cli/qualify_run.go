package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// parsedRun is the command line of a test in a plan.
type parsedRun struct {
	test *testConfig
	grid *noncontigConfig
}

// place says where the test runs, which the plan leaves to the command line of qualify.
func (r *parsedRun) place(d deviceConfig, p peerConfig, cpu bench.CPUChoice) {
	if r.grid != nil {
		r.grid.Device, r.grid.Peer, r.grid.CPU = d, p, cpu
		return
	}
	r.test.Device, r.test.Peer, r.test.CPU = d, p, cpu
}

// measure runs the test as its own command would, and prints nothing.
func (r *parsedRun) measure(ctx context.Context, out Streams, quiet bool) (*report.Document, error) { //nolint:revive // quiet is the user's flag
	if r.grid != nil {
		c := *r.grid
		c.Quiet = quiet || !out.ErrTerminal
		return measureNoncontig(ctx, out, c)
	}
	c := *r.test
	return measure(ctx, out, measureConfig{
		Tool: c.Tool, Command: c.Args, Device: c.Device, Peer: c.Peer, CPU: c.CPU, Quiet: quiet,
		Plan: func(d control.Dialect, port verbs.PortInfo) (control.Plan, error) { return c.finishPlan(d, port), nil },
	})
}

// args is the command line, as one would type it.
func (r *parsedRun) args() []string {
	if r.grid != nil {
		return r.grid.Args
	}
	return r.test.Args
}

// regression expects of a test that it be no worse than the same one in a file, by a share such as 10%.
func (r *parsedRun) regression(file, within, name string) (*report.Expectation, error) {
	figure := "bw"
	if r.test != nil && r.test.Plan.Kind == control.Latency {
		figure = "p50"
	}
	if _, err := os.Stat(file); err != nil {
		return nil, fmt.Errorf("--baseline: %w", err)
	}
	quote := "'"
	if strings.Contains(file, quote) {
		quote = `"`
	}
	e, err := report.ParseExpectation(fmt.Sprintf("%s within %s of %s%s%s", figure, within, quote, file, quote), report.ExpectationOptions{Dir: ".", Test: name})
	return e, prefixed("--baseline and --within", err)
}

// checkRun finds what is wrong with a command line of a plan, and tells kind and transport of its test and, for a grid,
// the names of its strategies.
func checkRun(words []string) (kind, transport string, names []string, errs []error) {
	run, errs := parseRun(words, testLength{})
	switch {
	case run.test != nil:
		return string(run.test.Plan.Kind), run.test.Plan.Transport.String(), nil, errs
	case run.grid != nil:
		for _, shape := range run.grid.Shapes {
			for _, s := range bench.Strategies(shape) {
				if !slices.Contains(names, s.Name) {
					names = append(names, s.Name)
				}
			}
		}
		return string(control.Bandwidth), run.grid.Transport.String(), names, errs
	}
	return "", "", nil, errs
}

// parseRun reads the command line of a test in a plan and stretches the test.
func parseRun(words []string, length testLength) (parsedRun, []error) {
	commands := []string{"write", "read", "send", "atomic"}
	kind := control.Latency
	if words[0] == "gobw" {
		commands = append(commands, "noncontig")
		kind = control.Bandwidth
	}
	if len(words) < 2 || !slices.Contains(commands, words[1]) {
		word := ""
		if len(words) > 1 {
			word = words[1]
		}
		return parsedRun{}, []error{fmt.Errorf("%s has no test %q%s (it has %s)", words[0], word, didYouMean(word, commands), strings.Join(commands, ", "))}
	}
	cmd := &cobra.Command{Use: words[1]}
	cmd.SetGlobalNormalizationFunc(normalizeFlag)
	test, grid := &testFlags{inline: -1, qps: 1, postList: 1}, &noncontigFlags{}
	var device, peer pflag.FlagSet
	(&deviceFlags{}).bind(&device)
	(&peerFlags{}).bind(&peer)
	if words[1] == "noncontig" {
		grid.bind(cmd.Flags())
	} else {
		test.bind(cmd.Flags(), control.Operation(words[1]), kind)
	}
	if err := cmd.ParseFlags(words[2:]); err != nil {
		return parsedRun{}, []error{flagError(cmd, err)}
	}
	var errs []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if device.Lookup(f.Name) != nil || peer.Lookup(f.Name) != nil {
			errs = append(errs, fmt.Errorf("--%s belongs to the command line of qualify, not to the plan", f.Name))
		}
		if slices.Contains([]string{"format", "save", "quiet", "resume"}, f.Name) {
			errs = append(errs, fmt.Errorf("--%s has no place in a plan: qualify writes the results (--json, --junit, --html)", f.Name))
		}
		if slices.Contains([]string{"expect", "limit-bw", "limit-msgrate"}, f.Name) {
			errs = append(errs, fmt.Errorf("--%s: the plan says what it expects under the key expect", f.Name))
		}
	})
	if rest := cmd.Flags().Args(); len(rest) > 0 {
		errs = append(errs, fmt.Errorf("unexpected %q: the peer belongs to the command line of qualify", rest[0]))
	}
	if len(errs) > 0 {
		return parsedRun{}, errs
	}
	var r parsedRun
	config := func() (err error) {
		if words[1] == "noncontig" {
			grid.peer.loopback = true // replaced by place
			var c noncontigConfig
			c, err = grid.config(words[0], nil)
			r.grid = &c
			return err
		}
		test.peer.loopback = true
		var c testConfig
		c, err = test.config(words[0], control.Operation(words[1]), kind, nil)
		r.test = &c
		return err
	}
	err := config()
	if err == nil && !length.asPlanned() {
		if err = length.stretch(cmd.Flags(), r); err == nil {
			err = config()
		}
		words = typed(words[:2], cmd.Flags())
	}
	if err != nil {
		return parsedRun{}, []error{err}
	}
	if r.grid != nil {
		r.grid.Args = words
	} else {
		r.test.Args = words
	}
	return r, nil
}

// didYouMean names the nearest of the right words, if one is near.
func didYouMean(word string, known []string) string {
	if near := report.Nearest(word, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return ""
}

// measureNoncontig measures a grid and returns its document, also after an error once the device is open.
func measureNoncontig(ctx context.Context, out Streams, c noncontigConfig) (*report.Document, error) {
	e, m, err := openExperiment(ctx, out, c)
	if err != nil {
		return nil, err
	}
	err = e.measure(ctx, m)
	err = errors.Join(err, m.Close())
	e.conclude(err)
	return e.doc.Document, err
}

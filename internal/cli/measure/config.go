package measure

import (
	"errors"
	"io"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/gate"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/render"
)

// Flags are those of every command that measures: this end, the other end, the result, the verdict.
type Flags struct {
	Device opendevice.Flags
	Peer   PeerFlags
	Output output.Flags
	Gate   gate.Flags
}

// Bind adds the flags of a command that measures with a peer and has results in these formats. The command binds the
// gate itself.
func (f *Flags) Bind(fs *pflag.FlagSet, formats []string) {
	f.Device.Bind(fs)
	f.Peer.Bind(fs)
	f.Output.Bind(fs, formats)
}

// Config is what a command needs to measure and to deliver the result. A single test calls [Run]; a command with many
// plans calls [Open].
type Config struct {
	Tool    string   // "gobw"
	Command []string // the command line, for the document
	Device  opendevice.Config
	Peer    PeerConfig
	Plan    plan.Spec
	Output  output.Config
	Gate    gate.Config
}

// Config checks the flags that were bound. args are the words of the command line.
func (f *Flags) Config(wrong *cmdline.Faults, tool string, args []string) Config {
	c := Config{Tool: tool, Command: CommandLine(tool), Device: f.Device.Config(wrong)}
	if f.Peer.bound {
		c.Peer = f.Peer.Config(wrong, tool, args)
	}
	c.Output = f.Output.Config(wrong)
	return c
}

// Judge adds the expectations of a test of this kind and transport; others are the tests beside it, whose figures they
// may name. With an expectation the software device is used only if -d names it.
func (f *Flags) Judge(wrong *cmdline.Faults, c *Config, kind plan.Kind, transport string, others ...string) {
	c.Device.Strict = f.Gate.Given()
	check := func(e *expect.Expectation) error { return e.CheckTest(string(kind), transport) }
	c.Gate = f.Gate.Config(wrong, expect.Options{Dir: ".", Tests: others}, check)
}

// Deliver runs a test, saves and prints its result, and judges it if the test did not fail.
func (c Config) Deliver(out output.Streams, test func() (*report.Document, error)) error {
	if err := c.Output.CheckWritable(); err != nil {
		return err
	}
	doc, err := test()
	if doc == nil || exit.Has(err, exit.Usage) {
		return err
	}
	// nothing to print; a file is still written
	if len(doc.Records) == 0 && (doc.Noncontig == nil || len(doc.Noncontig.Cells) == 0) {
		c.Output.Format = ""
	}
	var missed error
	for _, e := range c.Gate.Expect {
		if wrong := e.CheckDevice(doc.Client); err == nil && wrong != nil {
			err = exit.With(exit.Usage, wrong)
		}
	}
	if err == nil {
		doc.Checks = expect.Judge(doc, c.Gate.Expect, expect.Judgement{Accept: c.Gate.Accept})
		missed = gate.Verdict(doc.Checks)
	}
	return errors.Join(err, c.Output.DeliverPart(out, doc.Complete, c.Command, func(w io.Writer, format string) error {
		return render.Documents(w, format, []*report.Document{doc})
	}), missed)
}

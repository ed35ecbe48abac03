// Package doctor is the command 'doctor': it finds out why an RDMA test would not run, or not run well, and says what
// to do about it.
package doctor

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
)

// diagnosis is what 'doctor' prints.
type diagnosis struct {
	Schema   string   `json:"schema"`
	Clean    bool     `json:"clean"`
	Findings findings `json:"findings"`
}

const doctorSchema = "gobw.doctor/1"

// doctorBytes is what the largest default test registers (-a: two slots of 8 MiB).
const doctorBytes = 16 << 20

//go:embed help.txt
var help string

// NewCommand makes 'doctor'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	var format string
	peer := &measure.PeerFlags{}
	device := &opendevice.Flags{}
	cmd := cmdline.Command(tool, help)
	cmd.Args = cmdline.ArgumentCount(0, 1, "one host at most")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var wrong cmdline.Faults
		wrong.If(format != "text" && format != "json", "--format %q: want text or json", format)
		d := device.Config(&wrong)
		var host *measure.PeerConfig
		if len(args) == 1 || peer.Loopback {
			p := peer.Config(&wrong, tool, args)
			host = &p
		} else {
			wrong.If(d.GID != nil || d.Emulate+d.Pcap != "",
				"--gid-index (-x), --emulate and --pcap are for messages: %s doctor HOST sends some", tool)
		}
		if len(wrong) > 0 {
			return exit.With(exit.Usage, errors.Join(wrong...))
		}
		return run(cmd.Context(), out, tool, d, host, format)
	}
	cmd.Flags().SortFlags = false
	device.Bind(cmd.Flags())
	peer.Bind(cmd.Flags())
	cmd.Flags().StringVar(&format, "format", "text", "print as `FORMAT`: text or json")
	cmdline.Group(cmd.Flags(), "Output")
	cmdline.Brief(cmd, "format", "device", "ib-port", "gid-index", "loopback", "port", "token-file")
	return cmd
}

func run(ctx context.Context, out output.Streams, tool string, device opendevice.Config, host *measure.PeerConfig,
	format string,
) error {
	mine, err := look(device)
	if err != nil {
		return err
	}
	d := diagnosis{Schema: doctorSchema, Findings: findings{}}
	there := d.Findings.named(tool, device, mine)
	d.Findings = append(d.Findings, examine(mine, doctorBytes)...)
	if host != nil && there {
		d.Findings.tryPath(route{ctx: ctx, out: out, tool: tool, device: device, host: *host}, mine)
	}
	d.Clean = clean(d.Findings)
	if format == "json" {
		err = output.JSON(out, d)
	} else {
		err = d.write(out.Out)
	}
	if err == nil && !d.Clean {
		return exit.Error{Code: exit.Missed}
	}
	return err
}

// look opens every device of this end and reads the system.
func look(c opendevice.Config) (end, error) {
	e := end{system: inspect(opendevice.Machine()), named: c.Name != ""}
	all, _, err := opendevice.Providers(opendevice.Config{Providers: c.Providers})
	if err != nil {
		return e, err
	}
	for _, p := range opendevice.List(all) {
		hardware := p.Name == ibv.New().Name()
		if hardware {
			e.hardware, e.ibvError, e.ibvRemedy = len(p.Devices) > 0, p.Error, p.Remedy
		}
		for _, d := range p.Devices {
			asked := func(name string) bool { return name == d.Name || strings.HasPrefix(name, d.Name+"@") }
			switch {
			case d.Info != nil && (c.Name == "" || slices.ContainsFunc(c.Names(), asked)):
				e.devices = append(e.devices, d)
			case d.Info == nil && c.Name == "" && hardware:
				e.closed = append(e.closed, d)
			}
		}
	}
	return e, nil
}

// named opens the devices that were named, as a test would, and tells whether they are there.
func (f *findings) named(tool string, c opendevice.Config, mine end) bool {
	if c.Name == "" {
		return true
	}
	c = c.ToLookAt()
	c.Several = true
	d, err := opendevice.Open(c)
	if err == nil {
		err = d.Close()
	}
	if err != nil {
		f.add("device", problem, thisEnd, err.Error(), "REMEDY",
			cmp.Or(verbs.RemedyOf(err), plain.When(mine.hardware, "%s devices   # then -d NAME", tool)))
	}
	return err == nil
}

// write prints the diagnosis for a person.
func (d diagnosis) write(w io.Writer) error {
	text := &strings.Builder{}
	for _, f := range d.Findings {
		lines := plain.Wrap(fmt.Sprintf("%s: %s: %s", f.Severity, f.Where, f.What), cmdline.HelpWidth)
		if f.Why != "" {
			for _, line := range plain.Wrap("why: "+f.Why, cmdline.HelpWidth-4) {
				lines = append(lines, "    "+line)
			}
		}
		fmt.Fprintln(text, strings.Join(lines, "\n"))
		for _, fix := range f.Fix { // to be copied as they stand
			fmt.Fprintf(text, "    fix: %s\n", fix)
		}
	}
	count := map[severity]int{}
	for _, f := range d.Findings {
		count[f.Severity]++
	}
	var parts []string
	for _, s := range []severity{problem, warning, note} {
		if count[s] > 0 {
			parts = append(parts, plain.Plural(count[s], string(s)))
		}
	}
	if d.Clean {
		parts = slices.Insert(parts, 0, "clean: no problems")
	}
	fmt.Fprintln(text, strings.Join(parts, ", "))
	_, err := io.WriteString(w, text.String())
	return err
}

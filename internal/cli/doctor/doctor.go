// Package doctor is the command 'doctor'.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/doctor"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// diagnosis is what 'doctor' prints.
type diagnosis struct {
	Schema   string           `json:"schema"`
	Clean    bool             `json:"clean"`
	Findings []doctor.Finding `json:"findings"`
}

const doctorSchema = "gobw.doctor/1"

// doctorBytes is what the largest default test registers (-a: two slots of 8 MiB).
const doctorBytes = 16 << 20

// NewCommand makes 'doctor'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	var format string
	peer := &measure.PeerFlags{}
	device := &opendevice.Flags{}
	cmd := &cobra.Command{
		Use: "doctor [HOST]", Short: "Find out what keeps tests from running well",
		Long: "Check libibverbs, permissions, limits, ports, addresses, PCIe, NUMA and CPUs of\n" +
			"this end. With a HOST that runs '" + tool + " serve', check the two together and\n" +
			"send a few messages. Each finding says what is wrong, why it matters and which\n" +
			"command repairs it. Exit status 0: clean, 1: findings.",
		Example: "  " + tool + " doctor\n  " + tool + " doctor alpha\n  " + tool + " doctor --format json",
		Args:    cmdline.ArgumentCount(0, 1, "one host at most"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "text" && format != "json" {
				return exit.UsageError{Err: fmt.Errorf("--format %q: want text or json", format)}
			}
			d, err := device.Config()
			if err != nil {
				return exit.UsageError{Err: err}
			}
			var host *measure.PeerConfig
			if len(args) == 1 || peer.Loopback {
				p, err := peer.Config(tool, args)
				if err != nil {
					return exit.UsageError{Err: err}
				}
				host = &p
			} else if d.GID != nil || d.Emulate+d.Pcap != "" {
				return exit.UsageError{Err: fmt.Errorf("--gid-index (-x), --emulate and --pcap are for messages: %s doctor HOST sends some", tool)}
			}
			return run(cmd.Context(), out, tool, d, host, format)
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "text or json")
	device.Bind(cmd.Flags())
	peer.Bind(cmd.Flags())
	cmdline.GroupFlags(cmd, groups())
	cmdline.Brief(cmd, "format", "device", "ib-port", "gid-index", "loopback", "port", "token-file")
	return cmd
}

func run(ctx context.Context, out output.Streams, tool string, device opendevice.Config, host *measure.PeerConfig, format string) error {
	end, err := opendevice.Examine(device)
	if err != nil {
		return err
	}
	d := diagnosis{Schema: doctorSchema, Findings: doctor.Examine(end, doctorBytes)}
	if host != nil {
		d.Findings = append(d.Findings, examinePair(ctx, out, tool, device, *host, end)...)
	}
	if d.Findings == nil {
		d.Findings = []doctor.Finding{}
	}
	d.Clean = doctor.Clean(d.Findings)
	if format == "json" {
		err = output.JSON(out, d)
	} else {
		err = d.write(out.Out)
	}
	if err == nil && !d.Clean {
		return exit.SilentError{Code: exit.Missed}
	}
	return err
}

// examinePair connects to the peer and sends a few messages each way; what fails is a finding.
func examinePair(ctx context.Context, out output.Streams, tool string, device opendevice.Config, host measure.PeerConfig, mine doctor.End) []doctor.Finding {
	spec := plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{4096}, Iterations: 16, Verify: "ends",
		NoPeak: true,
	}
	name := peerName(host)
	all, err := tryPair(ctx, out, measure.Config{
		Tool: tool, Command: measure.CommandLine(tool), Device: device, Peer: host, CPU: machine.CPUChoice{Last: 1}, Quiet: true,
	}, spec, mine)
	if err == nil {
		return all
	}
	f := doctor.Finding{Check: "path", Severity: doctor.Problem, Where: "this end and " + name, What: err.Error()}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		f.Why = "no address is known for this name"
		f.Fix = []string{"correct the name, or give an IP address"}
	case errors.Is(err, verbs.RetryExceeded):
		f.Why = "the control connection works but no RoCE packet is answered"
		f.Fix = []string{
			"open UDP port 4791 in both directions: iptables -I INPUT -p udp --dport 4791 -j ACCEPT",
			"compare 'gobw devices' of both ends: same RoCE version, same family; choose with -x",
		}
	case errors.Is(err, control.ErrPeerLost):
		f.Why = "the peer went away while the test was set up"
		f.Fix = []string{"look at what 'serve' wrote on " + name}
	default:
		f.Why = "16 messages of 4 KiB did not get through"
		if fix := verbs.RemedyOf(err); fix != "" {
			f.Fix = []string{fix}
		} else {
			f.Fix = []string{host.Serve(tool) + fmt.Sprintf(", with TCP port %d open", host.Port)}
		}
	}
	return append(all, f)
}

// tryPair runs a plan against the peer, and examines what the peer said of itself even where the plan fails.
func tryPair(ctx context.Context, out output.Streams, c measure.Config, spec plan.Spec, mine doctor.End) (all []doctor.Finding, err error) {
	m, err := measure.Open(ctx, out, c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	res, err := m.Run(ctx, spec, bench.Options{})
	if res == nil {
		return nil, err
	}
	if !c.Peer.Loopback { // else it is this end again
		all = examinePeer(res, c.Peer.Host, mine)
	}
	return append(all, arrived(err, peerName(c.Peer))...), err
}

// examinePeer judges what the peer said of itself.
func examinePeer(res *bench.Result, host string, mine doctor.End) []doctor.Finding {
	if len(res.PeerEnd) == 0 {
		return []doctor.Finding{{
			Check: "peer", Severity: doctor.Note, Where: host, What: "the host itself was not examined",
			Why: "a server describes itself only to clients that it knows",
			Fix: []string{"gobw serve --allow ADDRESS   # there, with this host's address; or with --token-file at both ends", "gobw doctor   # there"},
		}}
	}
	peer, err := doctor.ParsePeer(res.PeerEnd)
	if err != nil {
		return []doctor.Finding{{
			Check: "peer", Severity: doctor.Note, Where: host, What: err.Error(),
			Why: "the two ends may be of different versions", Fix: []string{"gobw version   # on both"},
		}}
	}
	all := doctor.Examine(peer, doctorBytes)
	return append(all, doctor.ExaminePair(onlyUsed(mine, res.Client), onlyUsed(peer, *orEmpty(res.Server)))...)
}

// arrived says that the messages did.
func arrived(err error, host string) []doctor.Finding {
	if err != nil {
		return nil
	}
	return []doctor.Finding{{
		Check: "path", Severity: doctor.Passed, Where: "this end and " + host, What: "16 messages of 4 KiB arrived, and their data is right",
	}}
}

// peerName is what the other end is called in findings.
func peerName(p measure.PeerConfig) string {
	if p.Loopback {
		return "the other end"
	}
	return p.Host
}

// onlyUsed leaves the device that the test used.
func onlyUsed(e doctor.End, used report.Environment) doctor.End {
	e.Devices = slices.DeleteFunc(slices.Clone(e.Devices), func(d doctor.Device) bool { return d.Info.Name != used.Device })
	return e
}

func orEmpty(e *report.Environment) *report.Environment {
	if e == nil {
		return &report.Environment{}
	}
	return e
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
	if d.Clean {
		notes := len(slices.DeleteFunc(slices.Clone(d.Findings), func(f doctor.Finding) bool { return f.Severity != doctor.Note }))
		fmt.Fprintln(text, "clean: no problems"+plain.When(notes > 0, ", %s", plain.Plural(notes, "note")))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// groups orders the flags of the doctor.
func groups() []cmdline.FlagGroup {
	return []cmdline.FlagGroup{{Title: "Output", Names: []string{"format"}}, opendevice.Group(), measure.PeerGroup()}
}

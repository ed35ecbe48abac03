// Package run is the command 'run': it starts a program that uses libibverbs on the software device.
package run

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// config is a program to run and the device that it gets.
type config struct {
	program []string
	address netip.Addr // invalid: loopback
	emulate string
	pcap    string
	print   bool
}

// flags are the command's flags as they were typed.
type flags struct {
	device, emulate, pcap string
	print                 bool
}

// NewCommand makes 'run'.
func NewCommand(tool string, out output.Streams) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: "run [flags] -- PROGRAM [ARGUMENT...]", Short: "Run a program that uses libibverbs on the software device roce0",
		Long: "Run any program that uses libibverbs (ibv_*). It finds one device, roce0, which\n" +
			"needs no NIC, no kernel module and no root. The device is on loopback, for\n" +
			"programs on one host; -d roce0@INTERFACE puts it on the network.\n" +
			"The program's exit code is the exit code.",
		Example: "  " + tool + " run -- ibv_rc_pingpong -g 0            # on one terminal\n" +
			"  " + tool + " run -- ibv_rc_pingpong -g 0 localhost  # on the other\n" +
			"  " + tool + " run -d roce0@lo --emulate loss=1% --pcap t.pcap -- ib_write_bw alpha\n" +
			"  " + tool + " run --print                            # for eval \"$(...)\" in a shell",
		RunE: cmdline.Run(f.config, func(ctx context.Context, c config) error { return run(ctx, out, c) }),
	}
	fs := cmd.Flags()
	fs.SetInterspersed(false)
	fs.StringVarP(&f.device, "device", "d", "", "the `DEVICE`: roce0 (on loopback), roce0@eth1, roce0@ADDRESS")
	fs.StringVar(&f.emulate, "emulate", "", "emulate this `NETWORK`: loss=1%,delay=5us,seed=7")
	fs.StringVar(&f.pcap, "pcap", "", "write the device's packets to `FILE`, up to 1 GiB")
	fs.BoolVar(&f.print, "print", false, "print the environment for a shell, and run nothing")
	return cmd
}

// config checks the flags.
func (f *flags) config(args []string) (config, error) {
	c := config{program: args, emulate: f.emulate, print: f.print}
	var wrong cmdline.Faults
	wrong.If(len(args) == 0 && !f.print, "no program: gobw run -- PROGRAM [ARGUMENT...]")
	wrong.If(len(args) > 0 && f.print, "--print runs nothing: leave %s out", strings.Join(args, " "))
	_, err := netem.Parse(f.emulate)
	wrong.Note(cmdline.Prefixed("--emulate", err))
	if f.device != "" {
		c.address, err = opendevice.SoftwareAddress(f.device)
		wrong.Note(err)
	}
	if f.pcap != "" {
		if c.pcap, err = filepath.Abs(f.pcap); err == nil {
			err = report.CheckOwner(c.pcap)
		}
		wrong.Note(cmdline.Prefixed("--pcap", err))
	}
	return c, errors.Join(wrong...)
}

// run replaces this process by the program, so that signals and the exit code are the program's own.
func run(ctx context.Context, out output.Streams, c config) error {
	if err := context.Cause(ctx); err != nil { // interrupted: no program is started after that
		return err
	}
	path := ""
	if !c.print {
		var err error
		if path, err = find(c.program[0]); err != nil {
			return exit.With(exit.Setup, err)
		}
	}
	library, err := library(ctx, out)
	if err != nil {
		return exit.With(exit.Setup, err)
	}
	set := c.environment(library)
	if c.print {
		for _, v := range set {
			name, value, _ := strings.Cut(v, "=")
			if _, err := fmt.Fprintf(out.Out, "export %s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`)); err != nil {
				return err
			}
		}
		return nil
	}
	return exit.With(exit.Setup, execute(path, c.program, append(os.Environ(), set...)))
}

// environment is what makes a program load the library, and the device be as asked for.
func (c *config) environment(library string) []string {
	preload := library
	if before := os.Getenv("LD_PRELOAD"); before != "" && before != library {
		preload += ":" + before
	}
	set := []string{"LD_PRELOAD=" + preload}
	if c.address.IsValid() {
		set = append(set, "GOBW_ROCE_ADDRESS="+c.address.String())
	}
	if c.emulate != "" {
		set = append(set, "GOBW_ROCE_EMULATE="+c.emulate)
	}
	if c.pcap != "" {
		set = append(set, "GOBW_ROCE_PCAP="+c.pcap)
	}
	return set
}

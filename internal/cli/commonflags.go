package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs/roce"
)

// faults are the mistakes of a command line: all are told at once.
type faults []error

// note keeps an error, if there is one.
func (f *faults) note(err error) {
	if err != nil {
		*f = append(*f, err)
	}
}

// deviceFlags choose this end's device.
type deviceFlags struct {
	name, fabric, pcap, cpu string
	port, gid               int
}

func (f *deviceFlags) bind(fs *pflag.FlagSet) {
	fs.StringVarP(&f.name, "device", "d", "", "device: mlx5_0, rxe0, roce0 (see 'gobw devices')")
	fs.IntVarP(&f.port, "ib-port", "i", 0, "port of the device (first ACTIVE)")
	fs.IntVarP(&f.gid, "gid-index", "x", -1, "line of the GID table (the one that reaches)")
	fs.StringVar(&f.cpu, "cpu", "auto", "CPU to measure on: a number, auto or none")
	fs.StringVar(&f.fabric, "fabric", "", "bad network on roce0: loss=1%,delay=5us,seed=7")
	fs.StringVar(&f.pcap, "pcap", "", "write roce0's packets to this file")
}

func (f *deviceFlags) config() (deviceConfig, error) {
	c := deviceConfig{Name: f.name, Port: f.port, Fabric: f.fabric, Pcap: f.pcap}
	var errs []error
	if f.port < 0 || f.port > 255 {
		errs = append(errs, fmt.Errorf("--ib-port (-i) %d: want 1 or more", f.port))
	}
	switch {
	case f.gid >= 0:
		c.GID = &f.gid
	case f.gid < -1:
		errs = append(errs, fmt.Errorf("--gid-index (-x) %d: want 0 or more", f.gid))
	}
	if _, err := roce.ParseFabric(f.fabric); err != nil {
		errs = append(errs, fmt.Errorf("--fabric: %w", err))
	}
	return c, errors.Join(errs...)
}

// cpuChoice of the end that starts a test: the last CPU of those allowed; servers take the one before.
func (f *deviceFlags) cpuChoice() (bench.CPUChoice, error) { return parseCPU(f.cpu, 1) }

func parseCPU(s string, last int) (bench.CPUChoice, error) {
	switch s {
	case "auto", "":
		return bench.CPUChoice{Last: last}, nil
	case "none", "-1":
		return bench.CPUChoice{}, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return bench.CPUChoice{}, fmt.Errorf("--cpu %q: want a number, auto or none", s)
	}
	return bench.CPUChoice{Pinned: true, CPU: n}, nil
}

// peerFlags say who is at the other end.
type peerFlags struct {
	loopback    bool
	port        int
	source      string
	peerTimeout string
	wait        string
	perftest    string
}

func (f *peerFlags) bind(fs *pflag.FlagSet) {
	fs.BoolVar(&f.loopback, "loopback", false, "run the other end as a child process")
	fs.IntVarP(&f.port, "port", "p", control.DefaultPort, "TCP port of the server")
	fs.StringVar(&f.source, "source", "", "local IP address to connect from")
	fs.StringVar(&f.peerTimeout, "peer-timeout", "3s", "how long a silent peer is borne")
	fs.StringVar(&f.wait, "wait", "0s", "how long to go on trying while nobody serves or the server is busy")
	fs.StringVar(&f.perftest, "perftest-version", "", "version to tell a stock perftest (6.27; 6.29 negotiates)")
}

// peerConfig is who is at the other end.
type peerConfig struct {
	Host     string // empty: Loopback
	Loopback bool
	Port     int
	Source   netip.Addr
	Timeout  time.Duration
	Wait     time.Duration
	Perftest control.PerftestOptions
	// ControlCM makes the control connection one by RDMA CM, and the dialect perftest's.
	ControlCM bool
}

func (f *peerFlags) config(tool string, args []string) (peerConfig, error) {
	c := peerConfig{Loopback: f.loopback, Port: f.port, Perftest: control.PerftestOptions{Version: f.perftest}}
	var errs []error
	switch {
	case len(args) > 1:
		errs = append(errs, fmt.Errorf("%d hosts (%s): want one", len(args), strings.Join(args, ", ")))
	case len(args) == 1 && f.loopback:
		errs = append(errs, fmt.Errorf("--loopback runs both ends here: leave out the host %q", args[0]))
	case len(args) == 1:
		c.Host = args[0]
	case !f.loopback:
		errs = append(errs, fmt.Errorf("no host: name the one that runs '%s serve', or give --loopback", tool))
	}
	if f.port < 1 || f.port > 65535 {
		errs = append(errs, fmt.Errorf("--port (-p) %d: want 1 to 65535", f.port))
	}
	err := c.Perftest.Check()
	if err != nil {
		errs = append(errs, fmt.Errorf("--perftest-version: %w", err))
	}
	if f.source != "" {
		if c.Source, err = netip.ParseAddr(f.source); err != nil {
			errs = append(errs, fmt.Errorf("--source: %w", err))
		}
	}
	if c.Timeout, err = parseSeconds(f.peerTimeout); err != nil || c.Timeout <= 0 {
		errs = append(errs, fmt.Errorf("--peer-timeout %q: want more than 0 seconds", f.peerTimeout))
	}
	if c.Wait, err = parseSeconds(f.wait); err != nil {
		errs = append(errs, fmt.Errorf("--wait %q: want seconds", f.wait))
	}
	return c, errors.Join(errs...)
}

// outputFlags say what becomes of the result.
type outputFlags struct {
	format string
	save   string
	quiet  bool
}

func (f *outputFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&f.format, "format", "table", strings.Join(formatNames(), ", "))
	fs.StringVar(&f.save, "save", "", "save the result; the name's ending tells the format (.json)")
	fs.BoolVar(&f.quiet, "quiet", false, "no progress, no notes")
}

// outputConfig is what becomes of the result.
type outputConfig struct {
	Format report.Format
	Save   string
	saveAs report.Format
	Quiet  bool
}

func (f *outputFlags) config() (outputConfig, error) {
	c := outputConfig{Save: f.save, Quiet: f.quiet}
	var errs []error
	var err error
	if c.Format, err = formatNamed(f.format); err != nil {
		errs = append(errs, fmt.Errorf("--format: %w", err))
	}
	if f.save != "" {
		if c.saveAs, err = formatOfFile(f.save); err != nil {
			errs = append(errs, fmt.Errorf("--save %s: %w", f.save, err))
		}
	}
	return c, errors.Join(errs...)
}

// formatOfFile finds the format of a file's ending; none means JSON.
func formatOfFile(path string) (report.Format, error) {
	ending := filepath.Ext(path)
	if ending == "" {
		ending = ".json"
	}
	var known []string
	for _, f := range formats() {
		if f.Extension == ending {
			return f, nil
		}
		known = append(known, f.Extension)
	}
	return report.Format{}, fmt.Errorf("no format ends in %q; there are %s", ending, strings.Join(known, ", "))
}

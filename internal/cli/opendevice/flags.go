package opendevice

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// Flags choose this end's device.
type Flags struct {
	name, network string
	cpu, priority string
	pcap          string
	port, gid     int
}

// BindName adds --device alone, to a command that sends no messages.
func (f *Flags) BindName(fs *pflag.FlagSet) {
	f.gid = -1
	fs.StringVarP(&f.name, "device", "d", "", "use `DEVICE`: mlx5_0, roce0, roce0@eth1 ('gobw devices' lists them)")
}

// Bind adds the flags to a command.
func (f *Flags) Bind(fs *pflag.FlagSet) {
	f.BindName(fs)
	fs.IntVarP(&f.port, "ib-port", "i", 0, "port of the device (default: the first ACTIVE one)")
	fs.IntVarP(&f.gid, "gid-index", "x", -1, "GID index (default: one that reaches the peer)")
	fs.StringVar(&f.cpu, "cpu", "auto", "measure on `CPU`: 2 or 4-7, auto (near the device), none (any)")
	fs.StringVar(&f.priority, "priority", machine.PriorityNormal, "run with `PRIORITY`: normal; realtime keeps other programs off the measuring CPUs")
	fs.StringVar(&f.network, "emulate", "", "emulate this `NETWORK` (roce0): loss=1%,delay=5us,seed=7")
	fs.StringVar(&f.pcap, "pcap", "", "write roce0's packets to `FILE`, up to 1 GiB")
	cmdline.Group(fs, Heading)
}

// Heading is over these flags in the help.
const Heading = "Device and path"

// Several says that the command runs several devices at once.
func (f *Flags) Several(fs *pflag.FlagSet) { fs.Lookup("device").Usage += "; A,B for several" }

// Config checks the flags and names all mistakes at once.
func (f *Flags) Config() (Config, error) {
	c := Config{Name: f.name, Port: f.port, Emulate: f.network, Pcap: f.pcap}
	var wrong cmdline.Faults
	wrong.If(f.port < 0 || f.port > 255, "--ib-port (-i) %d: want 1 or more", f.port)
	wrong.If(f.gid < -1, "--gid-index (-x) %d: want 0 or more", f.gid)
	if f.gid >= 0 {
		c.GID = &f.gid
	}
	_, err := netem.Parse(f.network)
	wrong.Note(cmdline.Prefixed("--emulate", err))
	return c, errors.Join(wrong...)
}

// Words are the flags as they were given, the device's name apart, for a process of our own that opens devices for this one.
func (f *Flags) Words() []string {
	var words []string
	for _, w := range [][2]string{
		{"--ib-port", strconv.Itoa(f.port)},
		{"--gid-index", strconv.Itoa(f.gid)},
		{"--cpu", f.cpu},
		{"--priority", f.priority},
		{"--emulate", f.network},
		{"--pcap", f.pcap},
	} {
		if w[1] != "" {
			words = append(words, w[:]...)
		}
	}
	return words
}

// CPUChoice is the CPU to measure on, and the priority there; auto is the last but so many of those allowed: 1 where a test
// is started, 2 at a server.
func (f *Flags) CPUChoice(last int) (machine.CPUChoice, error) {
	c, err := parseCPU(f.cpu, last)
	switch f.priority {
	case machine.PriorityRealtime:
		c.Realtime = true
	case machine.PriorityNormal, "":
	default:
		err = errors.Join(err, fmt.Errorf("--priority %q: want %s or %s", f.priority, machine.PriorityNormal, machine.PriorityRealtime))
	}
	return c, err
}

func parseCPU(s string, last int) (machine.CPUChoice, error) {
	switch s {
	case "auto", "":
		return machine.CPUChoice{Last: last}, nil
	case "none", "-1":
		return machine.CPUChoice{}, nil
	}
	cpus, err := plan.ParseCPUs(s)
	if err != nil {
		return machine.CPUChoice{}, fmt.Errorf("--cpu %q: want a number, one for each thread such as 2,3 or 4-7, auto or none", s)
	}
	return machine.CPUChoice{CPUs: cpus}, nil
}

package opendevice

import (
	"fmt"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// Flags choose this end's device.
type Flags struct {
	typed Config // what stands there as it was typed
	cpu   string
	gid   int
	set   *pflag.FlagSet
}

// BindName adds --device alone, to a command that sends no messages.
func (f *Flags) BindName(fs *pflag.FlagSet) {
	f.gid = -1
	fs.StringVarP(&f.typed.Name, "device", "d", "", "use `DEVICE`: mlx5_0, roce0, roce0@eth1 ('gobw devices' lists them)")
}

// Bind adds the flags to a command.
func (f *Flags) Bind(fs *pflag.FlagSet) {
	all, c := fs, &f.typed
	fs = pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.SortFlags, f.set = false, fs
	f.BindName(fs)
	fs.IntVarP(&c.Port, "ib-port", "i", 0, "port of the device (default: the first ACTIVE one)")
	fs.IntVarP(&f.gid, "gid-index", "x", -1, "GID index (default: one that reaches the peer)")
	fs.StringVar(&f.cpu, "cpu", "auto",
		"measure on `CPU`: 2 or 4-7, auto (a CPU near the device; not pinned if it is busy), none (not pinned)")
	fs.StringVar(&c.Emulate, "emulate", "", "emulate this `NETWORK` (roce0): loss=1%,delay=5us,seed=7")
	fs.StringVar(&c.Pcap, "pcap", "", "write roce0's packets to `FILE`, up to 1 GiB")
	all.AddFlagSet(fs)
	cmdline.Group(all, Heading)
}

// Heading is over these flags in the help.
const Heading = "Device and path"

// Several says that the command runs several devices at once.
func (f *Flags) Several(fs *pflag.FlagSet) { fs.Lookup("device").Usage += "; A,B for several" }

// Config checks the flags.
func (f *Flags) Config(wrong *cmdline.Faults) Config {
	c := f.typed
	wrong.If(c.Port < 0 || c.Port > 255, "--ib-port (-i) %d: want 1 or more", c.Port)
	wrong.If(f.gid < -1, "--gid-index (-x) %d: want 0 or more", f.gid)
	if f.gid >= 0 {
		c.GID = &f.gid
	}
	_, err := netem.Parse(c.Emulate)
	wrong.Note(cmdline.Prefixed("--emulate", err))
	c.CPU, err = parseCPU(f.cpu)
	wrong.Note(err)
	return c
}

// Words are the flags as they were given, the device's name apart, for a process of our own that opens devices for this
// one.
func (f *Flags) Words() (words []string) {
	f.set.VisitAll(func(x *pflag.Flag) {
		if x.Changed && x.Name != "device" {
			words = append(words, "--"+x.Name, x.Value.String())
		}
	})
	return words
}

func parseCPU(s string) (machine.CPUChoice, error) {
	switch s {
	case "auto", "":
		return machine.CPUChoice{Last: 1}, nil
	case "none", "-1":
		return machine.CPUChoice{}, nil
	}
	cpus, err := plan.ParseCPUs(s)
	if err != nil {
		return machine.CPUChoice{},
			fmt.Errorf("--cpu %q: want a number, one for each thread such as 2,3 or 4-7, auto or none", s)
	}
	return machine.CPUChoice{CPUs: cpus}, nil
}

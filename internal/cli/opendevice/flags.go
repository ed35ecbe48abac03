package opendevice

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs/roce/netem"
)

// Flags choose this end's device.
type Flags struct {
	name, network            string
	cpu, priority            string
	pcap, pcapSize, pcapSnap string
	port, gid                int
}

// Bind adds the flags to a command.
func (f *Flags) Bind(fs *pflag.FlagSet) {
	fs.StringVarP(&f.name, "device", "d", "", "device: mlx5_0, rxe0, roce0, roce0@eth1, roce0@ADDRESS (see 'gobw devices'); bandwidth: several, A,B")
	fs.IntVarP(&f.port, "ib-port", "i", 0, "port of the device (first ACTIVE)")
	fs.IntVarP(&f.gid, "gid-index", "x", -1, "line of the GID table (the one that reaches)")
	fs.StringVar(&f.cpu, "cpu", "auto", "CPU to measure on, or CPUs (2,3 or 4-7), auto or none")
	fs.StringVar(&f.priority, "priority", bench.PriorityNormal, "while measuring: normal, or realtime: before all others")
	fs.StringVar(&f.network, "emulate", "", "bad network on roce0: loss=1%,delay=5us,seed=7")
	fs.StringVar(&f.network, "fabric", "", "")
	_ = fs.MarkHidden("fabric") // its name until version 1: a fabric is many hosts
	fs.StringVar(&f.pcap, "pcap", "", "write roce0's packets to this file")
	fs.StringVar(&f.pcapSize, "pcap-size", "1G", "size at which the file ends")
	fs.StringVar(&f.pcapSnap, "pcap-snap", "", "bytes kept of each packet: 128 (all)")
}

// minSnap keeps the headers from Ethernet to the longest of RoCE.
const minSnap = 96

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
	c.PcapBytes, err = plan.ParseBytes(f.pcapSize)
	wrong.Note(cmdline.Prefixed("--pcap-size", err))
	if f.pcapSnap != "" {
		c.PcapSnap, err = plan.ParseSize(f.pcapSnap)
		wrong.Note(cmdline.Prefixed("--pcap-snap", err))
		wrong.If(err == nil && (c.PcapSnap < minSnap || c.PcapSnap > 64<<10), "--pcap-snap %s: want %d (the headers) to 64K", f.pcapSnap, minSnap)
		wrong.If(f.pcap == "", "--pcap-snap goes with --pcap")
	}
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
		{"--pcap-size", f.pcapSize},
		{"--pcap-snap", f.pcapSnap},
	} {
		if w[1] != "" {
			words = append(words, w[:]...)
		}
	}
	return words
}

// CPUChoice is the CPU to measure on, and the priority there; auto is the last but so many of those allowed: 1 where a test
// is started, 2 at a server.
func (f *Flags) CPUChoice(last int) (bench.CPUChoice, error) {
	c, err := parseCPU(f.cpu, last)
	switch f.priority {
	case bench.PriorityRealtime:
		c.Realtime = true
	case bench.PriorityNormal, "":
	default:
		err = errors.Join(err, fmt.Errorf("--priority %q: want %s or %s", f.priority, bench.PriorityNormal, bench.PriorityRealtime))
	}
	return c, err
}

func parseCPU(s string, last int) (bench.CPUChoice, error) {
	switch s {
	case "auto", "":
		return bench.CPUChoice{Last: last}, nil
	case "none", "-1":
		return bench.CPUChoice{}, nil
	}
	cpus, err := plan.ParseCPUs(s)
	if err != nil {
		return bench.CPUChoice{}, fmt.Errorf("--cpu %q: want a number, one for each thread such as 2,3 or 4-7, auto or none", s)
	}
	return bench.CPUChoice{CPUs: cpus}, nil
}

// Group is their heading in the help.
func Group() cmdline.FlagGroup {
	return cmdline.FlagGroup{Title: "Device and path", Names: []string{
		"device", "ib-port", "gid-index", "mtu", "cpu", "priority", "sl", "tclass", "pkey", "qp-timeout", "retries", "rdma-cm", "tos",
		"emulate", "pcap", "pcap-size", "pcap-snap",
	}}
}

package doctor

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// severity tells how bad a finding is.
type severity string

// Severities, worst first.
const (
	problem severity = "problem" // a test will fail
	warning severity = "warning" // figures will suffer
	note    severity = "note"    // worth knowing; counts as clean
	passed  severity = "ok"      // what was tried and works
)

// finding is one thing that is not as it should be.
type finding struct {
	Check    string   `json:"check"` // stable name: "memlock", "port-state", ...
	Severity severity `json:"severity"`
	Where    string   `json:"where"` // "this end", "this end: mlx5_0 port 1"
	What     string   `json:"what"`
	Why      string   `json:"why,omitempty"`
	Fix      []string `json:"fix,omitempty"` // commands or lines, in order
}

// end is this end: its devices and its system.
type end struct {
	ibvError  string // empty: none
	ibvRemedy string
	hardware  bool                // libibverbs has a device
	devices   []opendevice.Listed // of those asked for, that could be opened
	closed    []opendevice.Listed // of libibverbs, that could not
	system    system
	named     bool // the devices were asked for by name
}

// thisEnd is where a finding is that is no device's.
const thisEnd = "this end"

// findings are gathered one after the other.
type findings []finding

// texts say of each check why it matters and how it is mended.
//
//go:embed findings.txt
var texts string

// add takes one, with its texts. values are words of the texts, and what is put in for them, by turns.
func (f *findings) add(check string, how severity, where, what string, values ...string) {
	name, _, _ := strings.Cut(check, "/")
	one := finding{Check: name, Severity: how, Where: where, What: what}
	_, text, _ := strings.Cut(texts, "\n\n"+check+"\n")
	text, _, _ = strings.Cut(text, "\n\n")
	for line := range strings.SplitSeq(strings.NewReplacer(append(values, "REMEDY", "")...).Replace(text), "\n") {
		if fix, is := strings.CutPrefix(line, "fix: "); !is {
			one.Why += strings.TrimPrefix(line, "-")
		} else if fix != "" {
			one.Fix = append(one.Fix, fix)
		}
	}
	*f = append(*f, one)
}

// has tells whether there is a finding of a check somewhere.
func (f *findings) has(check, where string) bool {
	return slices.ContainsFunc(*f, func(one finding) bool { return one.Check == check && one.Where == where })
}

// examine lists the faults of this end, worst first. need is how many bytes a test registers.
func examine(e end, need uint64) []finding {
	var all findings
	hardware := e.hardware || slices.ContainsFunc(e.devices, func(d opendevice.Listed) bool { return !d.Info.Software })
	if e.ibvError != "" {
		all.add("libibverbs", note, thisEnd, e.ibvError, "REMEDY", e.ibvRemedy)
	}
	// else libibverbs may hide a device
	asked := e.ibvError == "" || !e.system.VerbsLoaded || len(e.system.RDMAHardware) == 0
	if !hardware && e.system.Linux && asked {
		all.noHardware(&e.system)
	}
	for _, d := range e.closed {
		all.add("device", problem, thisEnd+": "+d.Name, d.Error, "REMEDY", d.Remedy)
	}
	if s := &e.system; hardware && !s.CanLockMemory && s.MemlockBytes >= 0 && uint64(s.MemlockBytes) < need {
		all.add("memlock", problem, thisEnd,
			fmt.Sprintf("the test registers %s, the locked-memory limit allows %s", plain.Bytes(float64(need)),
				plain.Bytes(float64(s.MemlockBytes))))
	}
	for _, d := range e.devices {
		for _, p := range d.Ports {
			all.port(fmt.Sprintf("%s: %s port %d", thisEnd, d.Info.Name, p.Number), p)
		}
		all.device(d, &e.system)
		if d.Provider == software {
			all.softwareDevice(d, &e)
		}
	}
	if e.system.LoopbackDown {
		all.add("loopback", warning, thisEnd, "the loopback interface is down")
	}
	if q := e.system.CPUQuota; q > 0 {
		all.quota(thisEnd, q)
	}
	all.processors(&e.system)
	if e.system.IOMMUTranslates &&
		slices.ContainsFunc(e.devices, func(d opendevice.Listed) bool { return d.Info.PCIAddress != "" }) {
		all.add("iommu", warning, thisEnd, "an IOMMU translates every DMA access")
	}
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	return all
}

// clean tells whether nothing needs doing.
func clean(f []finding) bool {
	return !slices.ContainsFunc(f, func(f finding) bool { return rank(f.Severity) < rank(note) })
}

func rank(s severity) int { return slices.Index([]severity{problem, warning, note, passed}, s) }

// noHardware looks for the kernel's part when no hardware device is there.
func (f *findings) noHardware(s *system) {
	if len(s.RDMAHardware) > 0 {
		check, what := "kernel-modules", "the kernel module ib_uverbs is not loaded"
		if s.VerbsLoaded {
			check, what = "kernel-modules/driver", "it has no verbs device"
		}
		f.add(check, problem, thisEnd, fmt.Sprintf("RDMA hardware is present (%v) but %s", s.RDMAHardware, what))
		return
	}
	check := "no-device" + plain.When(s.SoftRoCE, "/soft")
	f.add(check, note, thisEnd, "no RDMA device, and no PCI device whose driver can do RDMA", "INTERFACE",
		cmp.Or(s.DefaultInterface, "eth0"))
}

// port looks at a port's state, its MTU and its addresses.
func (f *findings) port(where string, p opendevice.ListedPort) {
	iface := []string{"INTERFACE", cmp.Or(p.NetInterface, "INTERFACE")}
	switch p.State {
	case verbs.PortActive, verbs.PortActiveDefer:
	case verbs.PortDown:
		check := "port-state/down"
		if p.NetInterface != "" {
			check = "port-state/interface"
		}
		f.add(check, problem, where, "the port is DOWN", iface...)
	case verbs.PortInit:
		f.add("port-state/init", problem, where, "the port is in INIT")
	case verbs.PortNop, verbs.PortArmed:
		f.add("port-state/armed", problem, where, "the port is "+p.State.String())
	}
	if m, n := p.ActiveMTU, p.MaxMTU; m != 0 && m < verbs.MTU1024 && n > m {
		f.add("mtu", warning, where, fmt.Sprintf("the active MTU is %v bytes of %v possible", m, n), iface...)
	}
	routable := func(g verbs.GIDEntry) bool { return g.Type == verbs.GIDRoCEv2 && !g.GID.IsLinkLocal() }
	switch {
	case p.LinkLayer != verbs.LinkEthernet || p.State != verbs.PortActive:
	case len(p.GIDs) == 0:
		f.add("gid-table/empty", problem, where, "the GID table is empty", iface...)
	case !slices.ContainsFunc(p.GIDs, routable):
		f.add("gid-table/local", warning, where, "no routable RoCE v2 GID (only link-local or RoCE v1)", iface...)
	}
}

// software is the provider of the software device, which has a socket. A device of libibverbs in software (rxe0) has
// the port of RoCE in the kernel.
const software = "roce"

// softwareDevice looks at the UDP port and at the buffers of the software device.
func (f *findings) softwareDevice(d opendevice.Listed, e *end) {
	s, where := &e.system, thisEnd+": "+d.Info.Name
	if !s.Linux {
		return
	}
	if s.Port4791 != nil {
		severe := note // Nobody asked for this device, and there is another.
		if e.named || !e.hardware {
			severe = problem
		}
		f.add("udp-4791", severe, where, "UDP port 4791 is taken: "+s.Port4791.What(), "REMEDY", s.Port4791.Remedy())
	}
	if b := s.ReceiveBufferMax; b > 0 && b < 1<<20 {
		f.add("rmem", note, where, "net.core.rmem_max is "+plain.Bytes(float64(b)))
	}
}

// device looks at where a device sits: its slot and its NUMA node.
func (f *findings) device(d opendevice.Listed, s *system) {
	where, info := thisEnd+": "+d.Info.Name, d.Info
	need := 0.
	for _, p := range d.Ports {
		need = max(need, p.RateBitsPerS)
	}
	// A x8 slot of 8 GT/s carries 63 Gb/s, whatever the port says.
	if carries := pcieBitsPerS(info.PCILinkSpeed, info.PCILinkWidth); carries > 0 && carries < need {
		f.add("pcie", warning, where,
			fmt.Sprintf("the PCIe link (%s, x%d) carries %.0f Gb/s, the port %.0f Gb/s", info.PCILinkSpeed, info.PCILinkWidth,
				carries/1e9, need/1e9),
			"DEVICE", cmp.Or(info.PCIAddress, "DEVICE"))
	}
	if node := info.NUMANode; node >= 0 && len(s.NUMANodes) >= 2 && !slices.Contains(s.AffinityNodes, node) {
		f.add("numa", warning, where,
			fmt.Sprintf("the device is on NUMA node %d, this process may only run on %v", node, s.AffinityNodes), "NODE",
			fmt.Sprint(node))
	}
}

func (f *findings) processors(s *system) {
	if s.Governor != "" && s.Governor != "performance" {
		f.add("cpu-governor", warning, thisEnd, "the CPU governor is "+s.Governor)
	}
	if free := float64(s.CPUs) - s.LoadAverage; s.CPUs > 1 && free < 1 {
		f.add("cpu-load", note, thisEnd,
			fmt.Sprintf("on average %.1f threads used or waited for the %d CPUs in the last minute", s.LoadAverage, s.CPUs))
	}
	if s.CPUs < 2 {
		f.add("cpus", warning, thisEnd, "only one CPU")
	}
}

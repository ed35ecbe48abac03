package doctor

import (
	"cmp"
	"fmt"
	"slices"

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

// end is what this end's providers said, and what its system looks like.
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

// add takes one; a fix without words is none.
func (f *findings) add(check string, how severity, where, what, why string, fix ...string) {
	*f = append(*f, finding{check, how, where, what, why, slices.DeleteFunc(fix, func(s string) bool { return s == "" })})
}

// has tells whether there is a finding of a check somewhere.
func (f *findings) has(check, where string) bool {
	return slices.ContainsFunc(*f, func(one finding) bool { return one.Check == check && one.Where == where })
}

// examine lists what is wrong with the end, worst first. need is the number of bytes that the test would register.
func examine(e end, need uint64) []finding {
	var all findings
	hardware := e.hardware || slices.ContainsFunc(e.devices, func(d opendevice.Listed) bool { return !d.Info.Software })
	if e.ibvError != "" {
		all.add("libibverbs", note, thisEnd, e.ibvError, "without libibverbs only the software device roce0 can be used; its figures are this machine's, not a NIC's",
			e.ibvRemedy, "apt-get install libibverbs1 ibverbs-providers   # or: dnf install libibverbs")
	}
	if !hardware && e.system.Linux && (e.ibvError == "" || !e.system.VerbsLoaded || len(e.system.RDMAHardware) == 0) { // else nobody could be asked
		all.noHardware(&e.system)
	}
	for _, d := range e.closed {
		all.add("device", problem, thisEnd+": "+d.Name, d.Error, "", d.Remedy)
	}
	if s := &e.system; hardware && !s.CanLockMemory && s.MemlockBytes >= 0 && uint64(s.MemlockBytes) < need {
		all.add("memlock", problem, thisEnd,
			fmt.Sprintf("the test registers %s, the locked-memory limit allows %s", plain.Bytes(float64(need)), plain.Bytes(float64(s.MemlockBytes))),
			"registered memory is pinned; ibv_reg_mr answers ENOMEM beyond the limit",
			"ulimit -l unlimited   # this shell, where the hard limit allows it",
			"echo '* - memlock unlimited' >> /etc/security/limits.conf   # then log in again",
			"LimitMEMLOCK=infinity   # in a systemd unit; DefaultLimitMEMLOCK=infinity in system.conf for all",
			"docker run --ulimit memlock=-1 ...")
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
		all.add("loopback", warning, thisEnd, "the loopback interface is down", "two ends on this host meet there (--loopback)", "ip link set lo up")
	}
	if q := e.system.CPUQuota; q > 0 {
		all.quota(thisEnd, q)
	}
	all.processors(&e.system)
	if e.system.IOMMUTranslates && slices.ContainsFunc(e.devices, func(d opendevice.Listed) bool { return d.Info.PCIAddress != "" }) {
		all.add("iommu", warning, thisEnd, "an IOMMU translates every DMA access", "small messages and many regions miss its cache",
			"add 'iommu=pt' to the kernel's command line (pass-through for host devices)")
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
		what, why := "the kernel module ib_uverbs is not loaded", "user space reaches a NIC through ib_uverbs"
		fix := []string{"modprobe ib_uverbs", "modprobe rdma_ucm"}
		if s.VerbsLoaded {
			what, why = "it has no verbs device", "the driver's module for RDMA (mlx5_ib for mlx5_core) is not loaded, or a container does not see the device"
			fix = []string{"dmesg | grep -iE 'mlx|rdma|infiniband'", "modprobe mlx5_ib   # or the one of your driver", "docker run --device /dev/infiniband ...   # in a container"}
		}
		f.add("kernel-modules", problem, thisEnd, fmt.Sprintf("RDMA hardware is present (%v) but %s", s.RDMAHardware, what), why, fix...)
		return
	}
	fix := []string{"lspci | grep -iE 'ethernet|infiniband'   # is there a NIC that can do RDMA?"}
	if s.SoftRoCE {
		fix = []string{fix[0], "modprobe rdma_rxe", "rdma link add rxe0 type rxe netdev " + cmp.Or(s.DefaultInterface, "eth0"), "gobw devices"}
	}
	f.add("no-device", note, thisEnd, "no RDMA device, and no PCI device whose driver can do RDMA", "tests without -d use roce0, a device in software; qualify, fabric and --expect use it only with -d roce0", fix...)
}

// port looks at a port's state, its MTU and its addresses.
func (f *findings) port(where string, p opendevice.ListedPort) {
	iface := cmp.Or(p.NetInterface, "INTERFACE")
	switch p.State {
	case verbs.PortActive, verbs.PortActiveDefer:
	case verbs.PortDown:
		fix := []string{"check the cable and the module, then 'ethtool -m' or 'mlxlink'"}
		if p.NetInterface != "" {
			fix = []string{"ip link set " + iface + " up", "ethtool " + iface + "   # 'Link detected: no' means cable or module"}
		}
		f.add("port-state", problem, where, "the port is DOWN", "no signal: cable, module, or the interface is administratively down", fix...)
	case verbs.PortInit:
		f.add("port-state", problem, where, "the port is in INIT", "the link is up but no subnet manager has configured it",
			"systemctl start opensm   # on one host of the fabric, or enable the switch's subnet manager", "sminfo")
	case verbs.PortNop, verbs.PortArmed:
		f.add("port-state", problem, where, "the port is "+p.State.String(), "the subnet manager has not finished", "ibstat; systemctl restart opensm")
	}
	if m, n := p.ActiveMTU, p.MaxMTU; m != 0 && m < verbs.MTU1024 && n > m {
		f.add("mtu", warning, where, fmt.Sprintf("the active MTU is %v bytes of %v possible", m, n), "small packets cost bandwidth",
			"ip link set "+iface+" mtu 4200   # on both ends and the switch")
	}
	switch {
	case p.LinkLayer != verbs.LinkEthernet || p.State != verbs.PortActive:
	case len(p.GIDs) == 0:
		f.add("gid-table", problem, where, "the GID table is empty", "without a GID no RoCE address can be formed; in a container the interface may be in another network namespace",
			"ip addr add 192.0.2.1/24 dev "+iface, "rdma system show   # 'netns exclusive' needs the device moved too")
	case !slices.ContainsFunc(p.GIDs, func(g verbs.GIDEntry) bool { return g.Type == verbs.GIDRoCEv2 && !g.GID.IsLinkLocal() }):
		f.add("gid-table", warning, where, "no routable RoCE v2 GID (only link-local or RoCE v1)", "two ends that pick GIDs of different kinds cannot talk; link-local ones do not cross routers",
			"ip addr add 192.0.2.1/24 dev "+iface+"   # an IPv4 or global IPv6 address on the interface makes one")
	}
}

// software is the provider of the software device, which has a socket. A device of libibverbs in software (rxe0) has the port of RoCE
// in the kernel.
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
		f.add("udp-4791", severe, where, "UDP port 4791 is taken: "+s.Port4791.What(),
			"the software device cannot have the port where another has it on every address", s.Port4791.Remedy())
	}
	if b := s.ReceiveBufferMax; b > 0 && b < 1<<20 {
		f.add("rmem", note, where, fmt.Sprintf("net.core.rmem_max is %s", plain.Bytes(float64(b))),
			"it bounds what may be in flight towards the software device; 1 MiB and more helps READ and many queue pairs",
			"sysctl -w net.core.rmem_max=4194304")
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
		f.add("pcie", warning, where, fmt.Sprintf("the PCIe link (%s, x%d) carries %.0f Gb/s, the port %.0f Gb/s", info.PCILinkSpeed, info.PCILinkWidth, carries/1e9, need/1e9),
			"the slot, not the network, will bound the bandwidth",
			"lspci -vv -s "+cmp.Or(info.PCIAddress, "DEVICE")+" | grep -E 'LnkCap|LnkSta'   # 'downgraded' means: reseat, or another slot")
	}
	if node := info.NUMANode; node >= 0 && len(s.NUMANodes) >= 2 && !slices.Contains(s.AffinityNodes, node) {
		f.add("numa", warning, where, fmt.Sprintf("the device is on NUMA node %d, this process may only run on %v", node, s.AffinityNodes),
			"every access crosses the processors' interconnect", fmt.Sprintf("numactl --cpunodebind=%d --membind=%[1]d gobw ...", node))
	}
}

func (f *findings) processors(s *system) {
	if s.Governor != "" && s.Governor != "performance" {
		f.add("cpu-governor", warning, thisEnd, "the CPU governor is "+s.Governor, "cores slow down between messages: latency suffers and varies", "cpupower frequency-set -g performance")
	}
	if free := float64(s.CPUs) - s.LoadAverage; s.CPUs > 1 && free < 1 {
		f.add("cpu-load", note, thisEnd, fmt.Sprintf("on average %.1f threads used or waited for the %d CPUs in the last minute", s.LoadAverage, s.CPUs),
			"other programs interrupt the measuring thread",
			"top -b -n 1 | head -n 15   # stop what is not needed, or wait", "chrt -r 1 gobw write HOST   # as root: before all normal programs")
	}
	if s.CPUs < 2 {
		f.add("cpus", warning, thisEnd, "only one CPU", "a spinning end takes it all; with --loopback both ends share it", "use -e (events), or another machine for one end")
	}
}

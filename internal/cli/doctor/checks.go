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
	ibvError  error
	ibvRemedy string
	devices   []opendevice.Listed // that could be opened
	system    system
}

// thisEnd is where a finding is that is no device's.
const thisEnd = "this end"

// examine lists what is wrong with the end, worst first. need is the number of bytes that the test would register.
func examine(e end, need uint64) []finding {
	all := slices.Concat(library(e), modules(e), deviceFiles(e), memlock(e, need))
	for _, d := range e.devices {
		all = slices.Concat(all, ports(d), gids(d), pcie(d), numa(e, d), softwareDevice(e, d))
	}
	all = slices.Concat(all, processors(e), iommu(e))
	slices.SortStableFunc(all, func(a, b finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	return all
}

// clean tells whether nothing needs doing.
func clean(f []finding) bool {
	return !slices.ContainsFunc(f, func(f finding) bool { return rank(f.Severity) < rank(note) })
}

func rank(s severity) int { return slices.Index([]severity{problem, warning, note, passed}, s) }

func library(e end) []finding {
	if e.ibvError == nil {
		return nil
	}
	return []finding{{
		Check: "libibverbs", Severity: note, Where: thisEnd, What: e.ibvError.Error(),
		Why: "without libibverbs only the software device roce0 can be used; its figures are this machine's, not a NIC's",
		Fix: nonEmpty(e.ibvRemedy, "apt-get install libibverbs1 ibverbs-providers   # or: dnf install libibverbs"),
	}}
}

// modules looks for the kernel's part when no hardware device is there.
func modules(e end) []finding {
	s := e.system
	if slices.ContainsFunc(e.devices, func(d opendevice.Listed) bool { return !d.Info.Software }) || !s.Linux {
		return nil
	}
	if len(s.RDMAHardware) > 0 && !s.Modules["ib_uverbs"] {
		return []finding{{
			Check: "kernel-modules", Severity: problem, Where: thisEnd,
			What: fmt.Sprintf("RDMA hardware is present (%v) but the kernel module ib_uverbs is not loaded", s.RDMAHardware),
			Why:  "user space reaches a NIC through ib_uverbs", Fix: []string{"modprobe ib_uverbs", "modprobe rdma_ucm"},
		}}
	}
	f := finding{
		Check: "no-device", Severity: note, Where: thisEnd, What: "no RDMA device",
		Why: "tests without -d use roce0, a device in software; qualify, fabric and --expect use it only with -d roce0",
	}
	if s.ModuleAvailable["rdma_rxe"] {
		f.Fix = []string{"modprobe rdma_rxe", "rdma link add rxe0 type rxe netdev " + cmp.Or(s.DefaultInterface, "eth0"), "gobw devices"}
	}
	return []finding{f}
}

func deviceFiles(e end) []finding {
	var all []finding
	for _, f := range e.system.DeniedDeviceFiles {
		all = append(all, finding{
			Check: "permission", Severity: problem, Where: thisEnd, What: "no permission to open " + f,
			Why: "every verbs call goes through this file", Fix: []string{
				"chmod a+rw " + f + "   # until the next boot; distributions do it by a udev rule of rdma-core",
				"docker run --device " + f + " ...   # in a container",
			},
		})
	}
	return all
}

func memlock(e end, need uint64) []finding {
	s := e.system
	hardware := slices.ContainsFunc(e.devices, func(d opendevice.Listed) bool { return !d.Info.Software })
	if !hardware || s.CanLockMemory || s.MemlockBytes < 0 || uint64(s.MemlockBytes) >= need {
		return nil
	}
	return []finding{{
		Check: "memlock", Severity: problem, Where: thisEnd,
		What: fmt.Sprintf("the test registers %s, the locked-memory limit allows %s", plain.Bytes(float64(need)), plain.Bytes(float64(s.MemlockBytes))),
		Why:  "registered memory is pinned; ibv_reg_mr answers ENOMEM beyond the limit",
		Fix: []string{
			"ulimit -l unlimited   # this shell, where the hard limit allows it",
			"echo '* - memlock unlimited' >> /etc/security/limits.conf   # then log in again",
			"LimitMEMLOCK=infinity   # in a systemd unit; DefaultLimitMEMLOCK=infinity in system.conf for all",
			"docker run --ulimit memlock=-1 ...",
		},
	}}
}

func ports(d opendevice.Listed) []finding {
	var all []finding
	for _, p := range d.Ports {
		where := fmt.Sprintf("%s: %s port %d", thisEnd, d.Info.Name, p.Number)
		switch p.State {
		case verbs.PortActive, verbs.PortActiveDefer:
		case verbs.PortDown:
			fix := []string{"check the cable and the module, then 'ethtool -m' or 'mlxlink'"}
			if p.NetInterface != "" {
				fix = []string{"ip link set " + p.NetInterface + " up", "ethtool " + p.NetInterface + "   # 'Link detected: no' means cable or module"}
			}
			all = append(all, finding{"port-state", problem, where, "the port is DOWN", "no signal: cable, module, or the interface is administratively down", fix})
		case verbs.PortInit:
			all = append(all, finding{
				"port-state", problem, where, "the port is in INIT", "the link is up but no subnet manager has configured it",
				[]string{"systemctl start opensm   # on one host of the fabric, or enable the switch's subnet manager", "sminfo"},
			})
		case verbs.PortNop, verbs.PortArmed:
			all = append(all, finding{"port-state", problem, where, "the port is " + p.State.String(), "the subnet manager has not finished", []string{"ibstat; systemctl restart opensm"}})
		}
		if m, n := p.ActiveMTU, p.MaxMTU; m != 0 && m < verbs.MTU1024 && n > m {
			all = append(all, finding{
				"mtu", warning, where, fmt.Sprintf("the active MTU is %v bytes of %v possible", m, n), "small packets cost bandwidth",
				[]string{"ip link set " + cmp.Or(p.NetInterface, "INTERFACE") + " mtu 4200   # on both ends and the switch"},
			})
		}
	}
	return all
}

func gids(d opendevice.Listed) []finding {
	var all []finding
	for _, p := range d.Ports {
		if p.LinkLayer != verbs.LinkEthernet || p.State != verbs.PortActive {
			continue
		}
		where := fmt.Sprintf("%s: %s port %d", thisEnd, d.Info.Name, p.Number)
		list := p.GIDs
		v2 := slices.ContainsFunc(list, func(g verbs.GIDEntry) bool { return g.Type == verbs.GIDRoCEv2 && !g.GID.IsLinkLocal() })
		iface := cmp.Or(p.NetInterface, "INTERFACE")
		switch {
		case len(list) == 0:
			all = append(all, finding{
				"gid-table", problem, where, "the GID table is empty", "without a GID no RoCE address can be formed; in a container the interface may be in another network namespace",
				[]string{"ip addr add 192.0.2.1/24 dev " + iface, "rdma system show   # 'netns exclusive' needs the device moved too"},
			})
		case !v2:
			all = append(all, finding{
				"gid-table", warning, where, "no routable RoCE v2 GID (only link-local or RoCE v1)", "two ends that pick GIDs of different kinds cannot talk; link-local ones do not cross routers",
				[]string{"ip addr add 192.0.2.1/24 dev " + iface + "   # an IPv4 or global IPv6 address on the interface makes one"},
			})
		}
	}
	return all
}

// pcie compares the slot with the link: a x8 slot of 8 GT/s carries 63 Gb/s, whatever the port says.
func pcie(d opendevice.Listed) []finding {
	carries := pcieBitsPerS(d.Info.PCILinkSpeed, d.Info.PCILinkWidth)
	var need float64
	for _, p := range d.Ports {
		need = max(need, p.RateBitsPerS)
	}
	if carries == 0 || need == 0 || carries >= need {
		return nil
	}
	return []finding{{
		"pcie", warning, thisEnd + ": " + d.Info.Name,
		fmt.Sprintf("the PCIe link (%s, x%d) carries %.0f Gb/s, the port %.0f Gb/s", d.Info.PCILinkSpeed, d.Info.PCILinkWidth, carries/1e9, need/1e9),
		"the slot, not the network, will bound the bandwidth",
		[]string{"lspci -vv -s " + cmp.Or(d.Info.PCIAddress, "DEVICE") + " | grep -E 'LnkCap|LnkSta'   # 'downgraded' means: reseat, or another slot"},
	}}
}

func numa(e end, d opendevice.Listed) []finding {
	s := e.system
	if d.Info.NUMANode < 0 || len(s.NUMANodes) < 2 || slices.Contains(s.AffinityNodes, d.Info.NUMANode) {
		return nil
	}
	return []finding{{
		"numa", warning, thisEnd + ": " + d.Info.Name,
		fmt.Sprintf("the device is on NUMA node %d, this process may only run on %v", d.Info.NUMANode, s.AffinityNodes),
		"every access crosses the processors' interconnect",
		[]string{fmt.Sprintf("numactl --cpunodebind=%d --membind=%d gobw ...", d.Info.NUMANode, d.Info.NUMANode)},
	}}
}

func softwareDevice(e end, d opendevice.Listed) []finding {
	if !d.Info.Software || !e.system.Linux {
		return nil
	}
	var all []finding
	where := thisEnd + ": " + d.Info.Name
	if holder := e.system.Port4791; holder != "" {
		all = append(all, finding{
			"udp-4791", problem, where, "UDP port 4791 is taken: " + holder,
			"the kernel's rdma_rxe holds the port in the initial network namespace on every address",
			[]string{"ip netns add soft   # and run gobw there, over a veth or macvlan", "rmmod rdma_rxe   # if Soft-RoCE is not needed"},
		})
	}
	if b := e.system.ReceiveBufferMax; b > 0 && b < 1<<20 {
		all = append(all, finding{
			"rmem", note, where, fmt.Sprintf("net.core.rmem_max is %s", plain.Bytes(float64(b))),
			"it bounds what may be in flight towards the software device; 1 MiB and more helps READ and many queue pairs",
			[]string{"sysctl -w net.core.rmem_max=4194304"},
		})
	}
	return all
}

func processors(e end) []finding {
	s := e.system
	var all []finding
	if s.Governor != "" && s.Governor != "performance" {
		all = append(all, finding{
			"cpu-governor", warning, thisEnd, "the CPU governor is " + s.Governor, "cores slow down between messages: latency suffers and varies",
			[]string{"cpupower frequency-set -g performance"},
		})
	}
	if free := float64(s.CPUs) - s.LoadAverage; s.CPUs > 1 && free < 1 {
		all = append(all, finding{
			"cpu-load", note, thisEnd, fmt.Sprintf("on average %.1f threads used or waited for the %d CPUs in the last minute", s.LoadAverage, s.CPUs),
			"other programs interrupt the measuring thread",
			[]string{"top -b -n 1 | head -n 15   # stop what is not needed, or wait", "gobw write HOST --priority realtime   # as root"},
		})
	}
	if s.CPUs < 2 {
		all = append(all, finding{
			"cpus", warning, thisEnd, "only one CPU", "a spinning end takes it all; with --loopback both ends share it", []string{"use -e (events), or another machine for one end"},
		})
	}
	return all
}

func iommu(e end) []finding {
	if !e.system.IOMMUTranslates || !slices.ContainsFunc(e.devices, func(d opendevice.Listed) bool { return d.Info.PCIAddress != "" }) {
		return nil
	}
	return []finding{{
		"iommu", warning, thisEnd, "an IOMMU translates every DMA access", "small messages and many regions miss its cache",
		[]string{"add 'iommu=pt' to the kernel's command line (pass-through for host devices)"},
	}}
}

func nonEmpty(s ...string) []string {
	return slices.DeleteFunc(s, func(s string) bool { return s == "" })
}

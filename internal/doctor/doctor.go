// Package doctor finds out why an RDMA test would not run, or not run well, and says what to do about it.
package doctor

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// Severity tells how bad a finding is.
type Severity string

// Severities, worst first.
const (
	Problem Severity = "problem" // a test will fail
	Warning Severity = "warning" // figures will suffer
	Note    Severity = "note"    // worth knowing; counts as clean
	Passed  Severity = "ok"      // what was tried and works
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Check    string   `json:"check"` // stable name: "memlock", "port-state", ...
	Severity Severity `json:"severity"`
	Where    string   `json:"where"` // "this end", "mlx5_0 port 1", "peer: rxe0"
	What     string   `json:"what"`
	Why      string   `json:"why,omitempty"`
	Fix      []string `json:"fix,omitempty"` // commands or lines, in order
}

// Device is one opened device with its ports, as the checks see it.
type Device struct {
	Info  verbs.DeviceInfo         `json:"info"`
	Ports []verbs.PortInfo         `json:"ports"`
	GIDs  map[int][]verbs.GIDEntry `json:"gids"` // by port
}

// End is one end of a test: what its providers said and what its system looks like.
type End struct {
	Name       string   `json:"name"` // "this end", "peer"
	IBVError   string   `json:"ibv_error,omitempty"`
	IBVLibrary string   `json:"ibv_library,omitempty"`
	IBVRemedy  string   `json:"ibv_remedy,omitempty"`
	Devices    []Device `json:"devices"`
	System     System   `json:"system"`
}

// Examine lists what is wrong with one end, worst first. need is the number of bytes that the test would register.
func Examine(e End, need uint64) []Finding {
	var all []Finding
	all = append(all, library(e)...)
	all = append(all, modules(e)...)
	all = append(all, deviceFiles(e)...)
	all = append(all, memlock(e, need)...)
	for _, d := range e.Devices {
		all = append(all, ports(e.Name, d)...)
		all = append(all, gids(e.Name, d)...)
		all = append(all, pcie(e.Name, d)...)
		all = append(all, numa(e, d)...)
		all = append(all, softwareDevice(e, d)...)
	}
	all = append(all, rails(e)...)
	all = append(all, processors(e)...)
	all = append(all, iommu(e)...)
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(rank(a.Severity), rank(b.Severity)) })
	return all
}

// Clean tells whether nothing needs doing.
func Clean(f []Finding) bool {
	return !slices.ContainsFunc(f, func(f Finding) bool { return rank(f.Severity) < rank(Note) })
}

func rank(s Severity) int { return slices.Index([]Severity{Problem, Warning, Note, Passed}, s) }

func library(e End) []Finding {
	if e.IBVError == "" {
		return nil
	}
	return []Finding{{
		Check: "libibverbs", Severity: Note, Where: e.Name, What: e.IBVError,
		Why: "without libibverbs only the software device roce0 can be used; its figures are this machine's, not a NIC's",
		Fix: nonEmpty(e.IBVRemedy, "apt-get install libibverbs1 ibverbs-providers   # or: dnf install libibverbs"),
	}}
}

// modules looks for the kernel's part when no hardware device is there.
func modules(e End) []Finding {
	s := e.System
	if slices.ContainsFunc(e.Devices, func(d Device) bool { return !d.Info.Software }) || !s.Linux {
		return nil
	}
	if len(s.RDMAHardware) > 0 && !s.Modules["ib_uverbs"] {
		return []Finding{{
			Check: "kernel-modules", Severity: Problem, Where: e.Name,
			What: fmt.Sprintf("RDMA hardware is present (%v) but the kernel module ib_uverbs is not loaded", s.RDMAHardware),
			Why:  "user space reaches a NIC through ib_uverbs", Fix: []string{"modprobe ib_uverbs", "modprobe rdma_ucm"},
		}}
	}
	f := Finding{
		Check: "no-device", Severity: Note, Where: e.Name, What: "no RDMA device",
		Why: "tests use roce0, a device in software",
	}
	if s.ModuleAvailable["rdma_rxe"] {
		f.Fix = []string{"modprobe rdma_rxe", "rdma link add rxe0 type rxe netdev " + cmp.Or(s.DefaultInterface, "eth0"), "gobw devices"}
	}
	return []Finding{f}
}

func deviceFiles(e End) []Finding {
	var all []Finding
	for _, f := range e.System.DeniedDeviceFiles {
		all = append(all, Finding{
			Check: "permission", Severity: Problem, Where: e.Name, What: "no permission to open " + f,
			Why: "every verbs call goes through this file", Fix: []string{
				"chmod a+rw " + f + "   # until the next boot; distributions do it by a udev rule of rdma-core",
				"docker run --device " + f + " ...   # in a container",
			},
		})
	}
	return all
}

func memlock(e End, need uint64) []Finding {
	s := e.System
	hardware := slices.ContainsFunc(e.Devices, func(d Device) bool { return !d.Info.Software })
	if !hardware || s.MemlockUnlimited || s.CanLockMemory || s.MemlockBytes >= need {
		return nil
	}
	return []Finding{{
		Check: "memlock", Severity: Problem, Where: e.Name,
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

func ports(end string, d Device) []Finding {
	var all []Finding
	for _, p := range d.Ports {
		where := fmt.Sprintf("%s: %s port %d", end, d.Info.Name, p.Number)
		switch p.State {
		case verbs.PortActive, verbs.PortActiveDefer:
		case verbs.PortDown:
			fix := []string{"check the cable and the module, then 'ethtool -m' or 'mlxlink'"}
			if p.NetInterface != "" {
				fix = []string{"ip link set " + p.NetInterface + " up", "ethtool " + p.NetInterface + "   # 'Link detected: no' means cable or module"}
			}
			all = append(all, Finding{"port-state", Problem, where, "the port is DOWN", "no signal: cable, module, or the interface is administratively down", fix})
		case verbs.PortInit:
			all = append(all, Finding{
				"port-state", Problem, where, "the port is in INIT", "the link is up but no subnet manager has configured it",
				[]string{"systemctl start opensm   # on one host of the fabric, or enable the switch's subnet manager", "sminfo"},
			})
		case verbs.PortNop, verbs.PortArmed:
			all = append(all, Finding{"port-state", Problem, where, "the port is " + p.State.String(), "the subnet manager has not finished", []string{"ibstat; systemctl restart opensm"}})
		}
		if m, n := p.ActiveMTU, p.MaxMTU; m != 0 && m < verbs.MTU1024 && n > m {
			all = append(all, Finding{
				"mtu", Warning, where, fmt.Sprintf("the active MTU is %v bytes of %v possible", m, n), "small packets cost bandwidth",
				[]string{"ip link set " + cmp.Or(p.NetInterface, "INTERFACE") + " mtu 4200   # on both ends and the switch"},
			})
		}
	}
	return all
}

func gids(end string, d Device) []Finding {
	var all []Finding
	for _, p := range d.Ports {
		if p.LinkLayer != verbs.LinkEthernet || p.State != verbs.PortActive {
			continue
		}
		where := fmt.Sprintf("%s: %s port %d", end, d.Info.Name, p.Number)
		list := d.GIDs[p.Number]
		v2 := slices.ContainsFunc(list, func(g verbs.GIDEntry) bool { return g.Type == verbs.GIDRoCEv2 && !g.GID.IsLinkLocal() })
		iface := cmp.Or(p.NetInterface, "INTERFACE")
		switch {
		case len(list) == 0:
			all = append(all, Finding{
				"gid-table", Problem, where, "the GID table is empty", "without a GID no RoCE address can be formed; in a container the interface may be in another network namespace",
				[]string{"ip addr add 192.0.2.1/24 dev " + iface, "rdma system show   # 'netns exclusive' needs the device moved too"},
			})
		case !v2:
			all = append(all, Finding{
				"gid-table", Warning, where, "no routable RoCE v2 GID (only link-local or RoCE v1)", "two ends that pick GIDs of different kinds cannot talk; link-local ones do not cross routers",
				[]string{"ip addr add 192.0.2.1/24 dev " + iface + "   # an IPv4 or global IPv6 address on the interface makes one"},
			})
		}
	}
	return all
}

// pcie compares the slot with the link: a x8 slot of 8 GT/s carries 63 Gb/s, whatever the port says.
func pcie(end string, d Device) []Finding {
	carries := PCIeBitsPerS(d.Info.PCILinkSpeed, d.Info.PCILinkWidth)
	var need float64
	for _, p := range d.Ports {
		need = max(need, p.RateBitsPerS)
	}
	if carries == 0 || need == 0 || carries >= need {
		return nil
	}
	return []Finding{{
		"pcie", Warning, end + ": " + d.Info.Name,
		fmt.Sprintf("the PCIe link (%s, x%d) carries %.0f Gb/s, the port %.0f Gb/s", d.Info.PCILinkSpeed, d.Info.PCILinkWidth, carries/1e9, need/1e9),
		"the slot, not the network, will bound the bandwidth",
		[]string{"lspci -vv -s " + cmp.Or(d.Info.PCIAddress, "DEVICE") + " | grep -E 'LnkCap|LnkSta'   # 'downgraded' means: reseat, or another slot"},
	}}
}

func numa(e End, d Device) []Finding {
	s := e.System
	if d.Info.NUMANode < 0 || len(s.NUMANodes) < 2 || slices.Contains(s.AffinityNodes, d.Info.NUMANode) {
		return nil
	}
	return []Finding{{
		"numa", Warning, e.Name + ": " + d.Info.Name,
		fmt.Sprintf("the device is on NUMA node %d, this process may only run on %v", d.Info.NUMANode, s.AffinityNodes),
		"every access crosses the processors' interconnect",
		[]string{fmt.Sprintf("numactl --cpunodebind=%d --membind=%d gobw ...", d.Info.NUMANode, d.Info.NUMANode)},
	}}
}

func softwareDevice(e End, d Device) []Finding {
	if !d.Info.Software || !e.System.Linux {
		return nil
	}
	var all []Finding
	where := e.Name + ": " + d.Info.Name
	if holder := e.System.Port4791; holder != "" {
		all = append(all, Finding{
			"udp-4791", Problem, where, "UDP port 4791 is taken: " + holder,
			"the kernel's rdma_rxe holds the port in the initial network namespace on every address",
			[]string{"ip netns add soft   # and run gobw there, over a veth or macvlan", "rmmod rdma_rxe   # if Soft-RoCE is not needed"},
		})
	}
	if b := e.System.ReceiveBufferMax; b > 0 && b < 1<<20 {
		all = append(all, Finding{
			"rmem", Note, where, fmt.Sprintf("net.core.rmem_max is %s", plain.Bytes(float64(b))),
			"it bounds what may be in flight towards the software device; 1 MiB and more helps READ and many queue pairs",
			[]string{"sysctl -w net.core.rmem_max=4194304"},
		})
	}
	return all
}

func processors(e End) []Finding {
	s := e.System
	var all []Finding
	if s.Governor != "" && s.Governor != "performance" {
		all = append(all, Finding{
			"cpu-governor", Warning, e.Name, "the CPU governor is " + s.Governor, "cores slow down between messages: latency suffers and varies",
			[]string{"cpupower frequency-set -g performance"},
		})
	}
	if free := float64(s.CPUs) - s.LoadAverage; s.CPUs > 1 && free < 1 {
		all = append(all, Finding{
			"cpu-load", Note, e.Name, fmt.Sprintf("%.1f threads ran or waited for the %d CPUs in the last minute", s.LoadAverage, s.CPUs),
			"other programs interrupt the measuring thread",
			[]string{"top -b -n 1 | head -n 15   # stop what is not needed, or wait", "gobw write HOST --priority realtime   # as root"},
		})
	}
	if s.CPUs < 2 {
		all = append(all, Finding{
			"cpus", Warning, e.Name, "only one CPU", "a spinning end takes it all; with --loopback both ends share it", []string{"use -e (events), or another machine for one end"},
		})
	}
	return all
}

func iommu(e End) []Finding {
	if !e.System.IOMMUTranslates || !slices.ContainsFunc(e.Devices, func(d Device) bool { return d.Info.PCIAddress != "" }) {
		return nil
	}
	return []Finding{{
		"iommu", Warning, e.Name, "an IOMMU translates every DMA access", "small messages and many regions miss its cache",
		[]string{"add 'iommu=pt' to the kernel's command line (pass-through for host devices)"},
	}}
}

func nonEmpty(s ...string) []string {
	return slices.DeleteFunc(s, func(s string) bool { return s == "" })
}

package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/internal/cli/hostmemory"
	"github.com/gobw/gobw/internal/plan"
)

// system is what the checks need to know of the operating system.
type system struct {
	Linux             bool
	CPUs              int
	Governor          string
	LoadAverage       float64 // threads that ran or wanted to, over a minute; 0: unknown
	NUMANodes         []int
	AffinityNodes     []int // nodes on which this process may run
	MemlockBytes      int64 // -1: no limit
	CanLockMemory     bool  // CAP_IPC_LOCK: the limit does not apply
	Modules           map[string]bool
	ModuleAvailable   map[string]bool
	RDMAHardware      []string // PCI functions that RDMA drivers serve
	DeniedDeviceFiles []string
	DefaultInterface  string
	IOMMUTranslates   bool
	ReceiveBufferMax  int
	Port4791          string // why the port cannot be bound; empty: free
}

// inspect reads the system below root (os.DirFS("/")). What cannot be read is left zero.
func inspect(root fs.FS) system {
	s := system{
		Linux: runtime.GOOS == "linux", CPUs: runtime.NumCPU(),
		Governor:        firstLine(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		Modules:         map[string]bool{},
		ModuleAvailable: map[string]bool{},
	}
	load, _, _ := strings.Cut(firstLine(root, "proc/loadavg"), " ")
	s.LoadAverage, _ = strconv.ParseFloat(load, 64)
	s.ReceiveBufferMax, _ = strconv.Atoi(firstLine(root, "proc/sys/net/core/rmem_max"))
	for _, m := range []string{"ib_uverbs", "rdma_ucm", "rdma_rxe"} {
		if _, err := fs.Stat(root, "sys/module/"+m); err == nil {
			s.Modules[m] = true
		}
	}
	release := firstLine(root, "proc/sys/kernel/osrelease")
	if dep, err := fs.ReadFile(root, "lib/modules/"+release+"/modules.dep"); err == nil {
		for _, m := range []string{"ib_uverbs", "rdma_rxe"} {
			s.ModuleAvailable[m] = strings.Contains(string(dep), "/"+m+".ko")
		}
	}
	s.RDMAHardware = rdmaFunctions(root)
	s.NUMANodes = numberedEntries(root, "sys/devices/system/node", "node")
	s.AffinityNodes = affinityNodes(root, s.NUMANodes)
	s.MemlockBytes = hostmemory.LockedLimit()
	s.CanLockMemory = hasCapability(root, capIPCLock)
	s.DefaultInterface = defaultInterface(root)
	if d, err := fs.ReadDir(root, "sys/class/iommu"); err == nil && len(d) > 0 {
		cmdline := firstLine(root, "proc/cmdline")
		s.IOMMUTranslates = !strings.Contains(cmdline, "iommu=pt") && !strings.Contains(cmdline, "iommu.passthrough=1")
	}
	s.Port4791 = udpPortTaken()
	s.DeniedDeviceFiles = deniedDeviceFiles(root)
	return s
}

const capIPCLock = 14

// rdmaDrivers are kernel drivers whose functions carry an RDMA device.
var rdmaDrivers = []string{"mlx5_core", "mlx4_core", "irdma", "i40iw", "bnxt_en", "efa", "hfi1", "qedr", "erdma", "ionic"}

func rdmaFunctions(root fs.FS) []string {
	var found []string
	for _, d := range rdmaDrivers {
		entries, err := fs.ReadDir(root, "sys/bus/pci/drivers/"+d)
		if err != nil {
			continue
		}
		for _, e := range entries {
			if strings.Count(e.Name(), ":") == 2 {
				found = append(found, d+" "+e.Name())
			}
		}
	}
	return found
}

func numberedEntries(root fs.FS, dir, prefix string) []int {
	var all []int
	entries, err := fs.ReadDir(root, dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if n, err := strconv.Atoi(strings.TrimPrefix(e.Name(), prefix)); err == nil && strings.HasPrefix(e.Name(), prefix) {
			all = append(all, n)
		}
	}
	return all
}

// affinityNodes lists the nodes that have a CPU on which this process may run.
func affinityNodes(root fs.FS, nodes []int) []int {
	allowed, _ := plan.ParseCPUs(statusField(root, "Cpus_allowed_list"))
	var all []int
	for _, n := range nodes {
		cpus, _ := plan.ParseCPUs(firstLine(root, fmt.Sprintf("sys/devices/system/node/node%d/cpulist", n)))
		if slices.ContainsFunc(cpus, func(cpu int) bool { return slices.Contains(allowed, cpu) }) {
			all = append(all, n)
		}
	}
	return all
}

func hasCapability(root fs.FS, bit int) bool {
	mask, err := strconv.ParseUint(statusField(root, "CapEff"), 16, 64)
	return err == nil && mask>>bit&1 == 1
}

func defaultInterface(root fs.FS) string {
	b, err := fs.ReadFile(root, "proc/net/route")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "00000000" {
			return f[0]
		}
	}
	return ""
}

func statusField(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, "proc/self/status")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

func firstLine(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, path.Clean(name))
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

// pcieBitsPerS is what a PCIe link carries one way, after encoding, in bits per second: speed as sysfs words it
// ("16.0 GT/s PCIe"), width in lanes. 0 when unknown. (PCI Express base specification: 8b/10b below 8 GT/s, 128b/130b up to
// 32, about 242/256 in flit mode from 64.)
func pcieBitsPerS(speed string, lanes int) float64 {
	number, _, _ := strings.Cut(speed, " ")
	gt, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0
	}
	efficiency := 128.0 / 130
	switch {
	case gt < 8:
		efficiency = 0.8
	case gt >= 64:
		efficiency = 242.0 / 256
	}
	return gt * 1e9 * efficiency * float64(lanes)
}

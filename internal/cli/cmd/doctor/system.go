package doctor

import (
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/plan"
)

// system is what the checks need to know of the operating system.
type system struct {
	Linux            bool
	CPUs             int
	Governor         string
	LoadAverage      float64 // threads that ran or wanted to, over a minute; 0: unknown
	NUMANodes        []int
	AffinityNodes    []int    // nodes on which this process may run
	MemlockBytes     int64    // -1: no limit
	CanLockMemory    bool     // CAP_IPC_LOCK: the limit does not apply
	VerbsLoaded      bool     // the kernel module ib_uverbs
	SoftRoCE         bool     // the kernel module rdma_rxe can be loaded
	RDMAHardware     []string // PCI functions that RDMA drivers serve
	DefaultInterface string
	IOMMUTranslates  bool
	ReceiveBufferMax int
	Port4791         *opendevice.Holder // who has the port on every address; nil: nobody
	LoopbackDown     bool
	CPUQuota         float64 // CPUs that its control groups grant; 0: no limit
}

// inspect reads the system below root (os.DirFS("/")). What cannot be read is left zero.
func inspect(root fs.FS) system {
	s := system{
		Linux: runtime.GOOS == "linux", CPUs: runtime.NumCPU(),
		Governor:     strings.TrimSpace(read(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
		MemlockBytes: machine.LockedLimit(), CPUQuota: machine.Host().CPUQuota, LoopbackDown: loopbackDown(),
	}
	if udpPortTaken() {
		holder := opendevice.PortHolder(root)
		s.Port4791 = &holder
	}
	load, _, _ := strings.Cut(read(root, "proc/loadavg"), " ")
	s.LoadAverage, _ = strconv.ParseFloat(load, 64)
	s.ReceiveBufferMax, _ = strconv.Atoi(strings.TrimSpace(read(root, "proc/sys/net/core/rmem_max")))
	s.VerbsLoaded = len(matching(root, "sys/module/ib_uverbs")) > 0
	release := strings.TrimSpace(read(root, "proc/sys/kernel/osrelease"))
	s.SoftRoCE = strings.Contains(read(root, "lib/modules/"+release+"/modules.dep"), "/rdma_rxe.ko")
	for _, driver := range rdmaDrivers {
		for _, function := range matching(root, "sys/bus/pci/drivers/"+driver+"/*:*:*") {
			s.RDMAHardware = append(s.RDMAHardware, driver+" "+path.Base(function))
		}
	}
	allowed, _ := plan.ParseCPUs(statusField(root, "Cpus_allowed_list"))
	for _, dir := range matching(root, "sys/devices/system/node/node[0-9]*") {
		n, _ := strconv.Atoi(strings.TrimPrefix(path.Base(dir), "node"))
		s.NUMANodes = append(s.NUMANodes, n)
		cpus, _ := plan.ParseCPUs(strings.TrimSpace(read(root, dir+"/cpulist")))
		if slices.ContainsFunc(cpus, func(cpu int) bool { return slices.Contains(allowed, cpu) }) {
			s.AffinityNodes = append(s.AffinityNodes, n)
		}
	}
	capabilities, _ := strconv.ParseUint(statusField(root, "CapEff"), 16, 64)
	s.CanLockMemory = capabilities>>capIPCLock&1 == 1
	for line := range strings.Lines(read(root, "proc/net/route")) {
		if f := strings.Fields(line); len(f) > 2 && f[1] == "00000000" && s.DefaultInterface == "" {
			s.DefaultInterface = f[0]
		}
	}
	options := read(root, "proc/cmdline")
	s.IOMMUTranslates = len(matching(root, "sys/class/iommu/*")) > 0 && !strings.Contains(options, "iommu=pt") &&
		!strings.Contains(options, "iommu.passthrough=1")
	return s
}

const capIPCLock = 14

// rdmaDrivers are kernel drivers whose functions carry an RDMA device.
var rdmaDrivers = []string{
	"mlx5_core", "mlx4_core", "irdma", "i40iw", "bnxt_en", "efa", "hfi1", "qedr", "erdma", "ionic",
}

// statusField is a line of this process's status; empty: not told.
func statusField(root fs.FS, name string) string {
	for line := range strings.Lines(read(root, "proc/self/status")) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// read is a file's text; empty where it cannot be read.
func read(root fs.FS, name string) string {
	b, _ := fs.ReadFile(root, path.Clean(name))
	return string(b)
}

// matching are the files of a pattern that there are.
func matching(root fs.FS, pattern string) []string {
	files, _ := fs.Glob(root, pattern)
	return files
}

// pcieBitsPerS is what a PCIe link carries one way, after encoding, in bits per second: speed as sysfs words it ("16.0
// GT/s PCIe"), width in lanes. 0 when unknown. (PCI Express base specification: 8b/10b below 8 GT/s, 128b/130b up to
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

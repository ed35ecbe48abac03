package bench

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// Host describes this machine and this program; fields of the device are left to [describe].
func Host() report.Environment {
	e := report.Environment{
		OS: osName(), Arch: runtime.GOARCH, CPU: cpuName(), CPUs: runtime.NumCPU(), NUMANodes: numaNodes(),
		Governor: firstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"), LLCBytes: lastLevelCache(),
		PinnedCPU: -1, GoVersion: runtime.Version(), Version: Version(), NUMANode: -1, GIDIndex: -1,
		GOMAXPROCS: runtime.GOMAXPROCS(0),
	}
	e.Host, _ = os.Hostname()
	return e
}

// Version is the version of this program as the Go tool recorded it: a tag, or the commit it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v, modified := info.Main.Version, ""
	if v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			v = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "+"
		}
	}
	if v == "" {
		v = "(devel)"
	}
	return v + modified
}

// describe adds the device and its port.
func describe(e report.Environment, dev verbs.Device, port verbs.PortInfo) report.Environment {
	i := dev.Info()
	e.Device, e.Provider, e.Software, e.Driver, e.Firmware = i.Name, i.Provider, i.Software, i.Driver, i.Firmware
	e.Fabric = i.EmulatedNetwork
	e.Port, e.LinkLayer, e.LinkBitsPerS, e.LinkState = port.Number, port.LinkLayer.String(), port.RateBitsPerS, port.State.String()
	e.MTU = port.ActiveMTU.Bytes()
	e.PCILinkSpeed, e.PCILinkWidth, e.NUMANode = i.PCILinkSpeed, i.PCILinkWidth, i.NUMANode
	if i.Software {
		e.LinkBitsPerS = 0
	}
	return e
}

func osName() string {
	name := runtime.GOOS
	if name == "linux" {
		name = "Linux"
	}
	if v := firstLine("/proc/sys/kernel/osrelease"); v != "" {
		name += " " + v
	}
	return name
}

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return strings.TrimSpace(line)
}

func cpuName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer func() { _ = f.Close() }()
	for s := bufio.NewScanner(f); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), ":")
		if k := strings.TrimSpace(key); k == "model name" || k == "Processor" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// CheckNUMANode refuses a node that this machine does not have. Numbers may have gaps: the highest counts, as for libnuma.
func CheckNUMANode(node int) error {
	paths, err := filepath.Glob("/sys/devices/system/node/node[0-9]*")
	if err != nil {
		return err
	}
	highest := 0
	for _, path := range paths {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), "node")); err == nil {
			highest = max(highest, n)
		}
	}
	if node > highest {
		return fmt.Errorf("NUMA node %d does not exist (available: 0-%d)", node, highest)
	}
	return nil
}

func numaNodes() int {
	nodes, err := filepath.Glob("/sys/devices/system/node/node[0-9]*")
	if err != nil || len(nodes) == 0 {
		return 1
	}
	return len(nodes)
}

// lastLevelCache is the size of CPU 0's last cache, 0 if unknown.
func lastLevelCache() int {
	c := pattern.HostCaches()
	if c.Guessed {
		return 0
	}
	return c.LastLevel
}

// cacheLine is the size of a cache line, 64 if unknown.
func cacheLine() int {
	n, err := strconv.Atoi(firstLine("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size"))
	if err != nil || n < 16 || n > 1024 {
		return 64
	}
	return n
}

// LocalFacts is what this end says of itself before a plan is known.
func LocalFacts(dev verbs.Device, port int) (control.Facts, error) {
	p, err := ChoosePort(dev, port)
	if err != nil {
		return control.Facts{}, err
	}
	info := dev.Info()
	return control.Facts{
		PageBytes: os.Getpagesize(), CacheLineBytes: cacheLine(), MTU: p.ActiveMTU, Limits: &info.Limits,
		MaxOutstanding: max(min(info.Limits.MaxRDAtomic, info.Limits.MaxInitRDAtomic), 1),
	}, nil
}

package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/report"
)

// Host describes this machine and this program; fields of the device are left empty.
func Host() report.Environment {
	e := report.Environment{
		OS: osName(), Arch: runtime.GOARCH, CPU: cpuName(), CPUs: runtime.NumCPU(), NUMANodes: NUMANodes(),
		Governor:  firstLine("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		PinnedCPU: -1, GoVersion: runtime.Version(), Version: Version(), NUMANode: -1, GIDIndex: -1,
		GOMAXPROCS: runtime.GOMAXPROCS(0), CPUQuota: cpuQuota("/"), LockedBytes: LockedLimit(),
	}
	if caches := pattern.HostCaches(); !caches.Guessed {
		e.LLCBytes = caches.LastLevel
	}
	e.Host, _ = os.Hostname()
	return e
}

// LoadAverage is how many threads used or waited for the CPUs in the last minute; 0: unknown.
func LoadAverage() float64 {
	first, _, _ := strings.Cut(firstLine("/proc/loadavg"), " ")
	load, _ := strconv.ParseFloat(first, 64)
	return load
}

// Version is the version of this program as the Go tool recorded it: of a tag, or of the commit it was built from.
func Version() string {
	info, known := debug.ReadBuildInfo()
	if !known || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
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

// textOf is a file of the kernel's, empty where there is none.
func textOf(path string) string {
	b, _ := os.ReadFile(path)
	return string(b)
}

func firstLine(path string) string {
	line, _, _ := strings.Cut(textOf(path), "\n")
	return strings.TrimSpace(line)
}

func cpuName() string {
	for line := range strings.Lines(textOf("/proc/cpuinfo")) {
		key, value, _ := strings.Cut(line, ":")
		if k := strings.TrimSpace(key); k == "model name" || k == "Processor" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// nodes are the numbers of this machine's NUMA nodes, which may have gaps; none: unknown.
func nodes() []int {
	paths, _ := filepath.Glob("/sys/devices/system/node/node[0-9]*") // the pattern is right
	var out []int
	for _, path := range paths {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(path), "node")); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// CheckNUMANode refuses a node that this machine does not have. The highest number counts, as for libnuma.
func CheckNUMANode(node int) error {
	if highest := slices.Max(append(nodes(), 0)); node > highest {
		return fmt.Errorf("NUMA node %d does not exist (available: 0-%d)", node, highest)
	}
	return nil
}

// NUMANodes is how many nodes this machine has, at least 1.
func NUMANodes() int { return max(len(nodes()), 1) }

// CacheLine is the size of a cache line, 64 if unknown.
func CacheLine() int {
	n, err := strconv.Atoi(firstLine("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size"))
	if err != nil || n < 16 || n > 1024 {
		return 64
	}
	return n
}

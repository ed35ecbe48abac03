package machine

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/report"
)

// Host describes this machine and this program; fields of the device are left empty.
func Host() report.Environment {
	e := report.Environment{
		OS: osName(), Arch: runtime.GOARCH, CPU: cpuName(), CPUs: runtime.NumCPU(), NUMANodes: NUMANodes(),
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

// NUMANodes is how many nodes this machine has, at least 1.
func NUMANodes() int {
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

// CacheLine is the size of a cache line, 64 if unknown.
func CacheLine() int {
	n, err := strconv.Atoi(firstLine("/sys/devices/system/cpu/cpu0/cache/index0/coherency_line_size"))
	if err != nil || n < 16 || n > 1024 {
		return 64
	}
	return n
}

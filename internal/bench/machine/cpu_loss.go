package machine

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/report/figure"
)

// cpuLosses are what was taken from a measurement's CPUs, as counters that only grow; counters that the system does not
// have stay 0.
type cpuLosses struct {
	steal     []time.Duration // per CPU: the hypervisor ran something else
	stops     int64           // periods in which a control group of this process had used up its CPU quota
	stopped   time.Duration   // how long its threads stood still for that
	throttles int64           // times that a CPU slowed down because it was hot
}

// stealTick is the unit of /proc/stat: USER_HZ is 100 wherever Go runs on Linux.
const stealTick = 10 * time.Millisecond

// since is what was taken since an earlier reading. The kernel rounds steal down to ticks: what is certain is a tick less
// than the difference.
func (t cpuLosses) since(before cpuLosses) figure.Disturbance {
	d := figure.Disturbance{Stops: t.stops - before.stops, Stopped: t.stopped - before.stopped, Throttles: t.throttles - before.throttles}
	if n := len(t.steal); n > 0 && n == len(before.steal) {
		for i := range n {
			d.Steal += max(t.steal[i]-before.steal[i]-stealTick, 0)
		}
		d.Steal /= time.Duration(n)
	}
	return d
}

// readCPULosses reads the counters of some CPUs and of this process's control groups below root, which is "/" but in tests.
// The files are the kernel's: Documentation/filesystems/proc.rst, admin-guide/cgroup-v1 and cgroup-v2.rst.
func readCPULosses(root string, cpus []int) cpuLosses {
	t := cpuLosses{steal: stealOf(path.Join(root, "proc/stat"), cpus)}
	for _, cpu := range cpus {
		t.throttles += number(path.Join(root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count", cpu)))
	}
	for _, dir := range cpuGroups(root) {
		stats := fieldsOf(path.Join(dir, "cpu.stat"))
		t.stops += stats["nr_throttled"]
		t.stopped += time.Duration(stats["throttled_usec"])*time.Microsecond + time.Duration(stats["throttled_time"])
	}
	return t
}

// stealOf reads the eighth figure of each CPU's line; nil where there is none.
func stealOf(file string, cpus []int) []time.Duration {
	lines := map[string][]string{}
	for line := range strings.Lines(textOf(file)) {
		if fields := strings.Fields(line); len(fields) > 8 {
			lines[fields[0]] = fields
		}
	}
	out := make([]time.Duration, len(cpus))
	for i, cpu := range cpus {
		fields := lines[fmt.Sprintf("cpu%d", cpu)]
		if fields == nil {
			return nil
		}
		ticks, err := strconv.ParseInt(fields[8], 10, 64)
		if err != nil {
			return nil
		}
		out[i] = time.Duration(ticks) * stealTick
	}
	return out
}

// cpuGroups are the control groups whose quotas bind this process: its own and all above it, of version 2 or of version
// 1's cpu controller.
func cpuGroups(root string) []string {
	var out []string
	for line := range strings.Lines(textOf(path.Join(root, "proc/self/cgroup"))) { // "4:cpu,cpuacct:/path" or "0::/path"
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, at, _ := strings.Cut(rest, ":")
		var tops []string
		switch {
		case controllers == "":
			tops = []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"}
		case strings.Contains(","+controllers+",", ",cpu,"):
			tops = []string{"sys/fs/cgroup/" + controllers, "sys/fs/cgroup/cpu"}
		}
		for _, top := range tops {
			top = path.Join(root, top)
			if _, err := os.Stat(path.Join(top, at)); err != nil {
				continue
			}
			for dir := path.Join(top, at); strings.HasPrefix(dir, top); dir = path.Dir(dir) {
				out = append(out, dir)
			}
			break
		}
	}
	return out
}

// fieldsOf reads a file of names and numbers.
func fieldsOf(file string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(textOf(file)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			out[name] = n
		}
	}
	return out
}

// number reads a file of one number, 0 if there is none.
func number(file string) int64 {
	n, _ := strconv.ParseInt(firstLine(file), 10, 64)
	return n
}

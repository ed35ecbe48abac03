package machine

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/report/figure"
)

// cpuLosses are what was taken from a measurement's CPUs, as counters that only grow; counters that the system does not
// have stay 0.
type cpuLosses struct {
	at        time.Time
	free      time.Duration   // of all CPUs of the test together: none of this machine's programs ran
	own       time.Duration   // CPU time of this process, and of the other end's where that is here
	steal     []time.Duration // per measuring CPU: the hypervisor ran something else
	stops     int64           // periods in which a control group of this process had used up its CPU quota
	stopped   time.Duration   // how long its threads stood still for that
	throttles int64           // times that a CPU slowed down because it was hot
}

// watched are the CPUs that a test uses.
type watched struct {
	cpus     []int // that the measuring threads may run on
	all      []int // that all threads of both ends may run on
	otherEnd int   // the process of the other end, 0 if that is elsewhere
}

// statTick is the unit of /proc/stat: USER_HZ is 100 wherever Go runs on Linux.
const statTick = 10 * time.Millisecond

// ticksLeast is how many ticks a measurement takes of which /proc/stat can tell who had the CPUs.
const ticksLeast = 10

// since is what was taken since an earlier reading. The kernel rounds steal down to ticks: what is
// certain is a tick less than the difference.
func (t cpuLosses) since(before cpuLosses) figure.Disturbance {
	d := figure.Disturbance{
		Stops: t.stops - before.stops, Stopped: t.stopped - before.stopped, Throttles: t.throttles - before.throttles,
	}
	for i := range t.steal {
		d.Steal += max(t.steal[i]-before.steal[i]-statTick, 0) / time.Duration(len(t.steal))
	}
	return d
}

// others is how much CPU time programs have had since an earlier reading that are not of this test, at most. A process
// has one clock for all its CPUs, so that all of them count.
func (t cpuLosses) others(before cpuLosses, cpus int) time.Duration {
	if t.free == 0 || t.own == 0 || t.at.Sub(before.at) < ticksLeast*statTick {
		return math.MaxInt64 // not known
	}
	return max(t.at.Sub(before.at)*time.Duration(cpus)-(t.free-before.free)-(t.own-before.own), 0)
}

// readCPULosses reads the counters of some CPUs and of this process's control groups below root, which is "/" but in
// tests. The files are the kernel's: Documentation/filesystems/proc.rst, admin-guide/cgroup-v1 and cgroup-v2.rst.
func readCPULosses(root string, w watched) cpuLosses {
	t := cpuLosses{at: time.Now(), own: processTime(0), steal: make([]time.Duration, len(w.cpus))}
	if w.otherEnd > 0 {
		t.own += processTime(w.otherEnd)
	}
	if file := path.Join(root, "proc/stat"); !emulated(file) {
		t.readStat(file, w)
	}
	for _, cpu := range w.cpus {
		t.throttles += number(
			path.Join(root, fmt.Sprintf("sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count", cpu)))
	}
	for _, dir := range groupsOf(root, "cpu") {
		stats := fieldsOf(path.Join(dir, "cpu.stat"))
		t.stops += stats["nr_throttled"]
		t.stopped += time.Duration(stats["throttled_usec"])*time.Microsecond + time.Duration(stats["throttled_time"])
	}
	return t
}

// readStat reads how long each CPU was idle (the 4th and 5th figure of its line), and stolen (the 8th).
func (t *cpuLosses) readStat(file string, w watched) {
	for line := range strings.Lines(textOf(file)) {
		fields := strings.Fields(line)
		if len(fields) <= 8 {
			continue
		}
		named := func(cpu int) bool { return fields[0] == fmt.Sprintf("cpu%d", cpu) }
		if slices.ContainsFunc(w.all, named) {
			t.free += ticks(fields[4]) + ticks(fields[5]) + ticks(fields[8])
		}
		if i := slices.IndexFunc(w.cpus, named); i >= 0 {
			t.steal[i] = ticks(fields[8])
		}
	}
}

func ticks(text string) time.Duration {
	n, _ := strconv.ParseInt(text, 10, 64)
	return time.Duration(n) * statTick
}

// cpuQuota is how many CPUs the control groups of this process grant it; 0: as many as there are.
func cpuQuota(root string) float64 {
	least := 0.0
	for _, dir := range groupsOf(root, "cpu") {
		quota, period := number(path.Join(dir, "cpu.cfs_quota_us")), number(path.Join(dir, "cpu.cfs_period_us"))
		if two := strings.Fields(firstLine(path.Join(dir, "cpu.max"))); len(two) == 2 { // "50000 100000", "max 100000"
			quota, _ = strconv.ParseInt(two[0], 10, 64)
			period, _ = strconv.ParseInt(two[1], 10, 64)
		}
		if granted := float64(quota) / float64(period); quota > 0 && period > 0 && (least == 0 || granted < least) {
			least = granted
		}
	}
	return least
}

// groupsOf are the control groups whose limits may bind this process: its own and all above it, of version 2 or of
// version 1's controller. Those that this process does not see have no files.
func groupsOf(root, controller string) []string {
	var out []string
	for line := range strings.Lines(textOf(path.Join(root, "proc/self/cgroup"))) { // "4:cpu,cpuacct:/path" or "0::/path"
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, at, _ := strings.Cut(rest, ":")
		if controllers != "" && !slices.Contains(strings.Split(controllers, ","), controller) {
			continue
		}
		top := path.Join(root, "sys/fs/cgroup", controllers)
		for dir := path.Join(top, at); strings.HasPrefix(dir, top); dir = path.Dir(dir) {
			out = append(out, dir)
		}
	}
	return out
}

// fieldsOf reads a file of names and numbers.
func fieldsOf(file string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(textOf(file)) {
		if fields := strings.Fields(line); len(fields) > 1 {
			out[fields[0]], _ = strconv.ParseInt(fields[1], 10, 64)
		}
	}
	return out
}

// number reads a file of one number, 0 if there is none.
func number(file string) int64 {
	n, _ := strconv.ParseInt(firstLine(file), 10, 64)
	return n
}

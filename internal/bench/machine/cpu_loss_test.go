package machine

import (
	"math"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/gobw/gobw/report/figure"
)

// kernelFiles writes a tree as the kernel shows it.
func kernelFiles(t *testing.T, root string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCPULosses(t *testing.T) {
	for _, tt := range []struct {
		name          string
		cpus          []int
		before, after map[string]string
		want          figure.Disturbance
		words         string // of the warning of a second's measurement
	}{
		{
			name: "nothing there", cpus: []int{0},
		},
		{
			// One tick of the five may have been nearly over when it was first read.
			name: "steal of the pinned CPU", cpus: []int{1},
			before: map[string]string{
				"proc/stat": "cpu  1 2 3 4 5 6 7 900 0 0\ncpu0 1 2 3 4 5 6 7 800 0 0\ncpu1 1 2 3 4 5 6 7 100 0 0\nintr 1\n",
			},
			after: map[string]string{
				"proc/stat": "cpu  1 2 3 4 5 6 7 999 0 0\ncpu0 1 2 3 4 5 6 7 894 0 0\ncpu1 1 2 3 4 5 6 7 105 0 0\nintr 1\n",
			},
			want:  figure.Disturbance{Steal: 40 * time.Millisecond},
			words: "disturbed: the hypervisor took 4.0 % of the measuring CPU's time, 40 ms",
		},
		{
			name: "a tick is not certain", cpus: []int{0},
			before: map[string]string{"proc/stat": "cpu  0 0 0 0 0 0 0 8 0 0\ncpu0 0 0 0 0 0 0 0 8 0 0\n"},
			after:  map[string]string{"proc/stat": "cpu  0 0 0 0 0 0 0 9 0 0\ncpu0 0 0 0 0 0 0 0 9 0 0\n"},
		},
		{
			name: "not pinned: the mean of the CPUs", cpus: []int{0, 1},
			before: map[string]string{"proc/stat": "cpu0 0 0 0 0 0 0 0 10 0 0\ncpu1 0 0 0 0 0 0 0 10 0 0\n"},
			after:  map[string]string{"proc/stat": "cpu0 0 0 0 0 0 0 0 21 0 0\ncpu1 0 0 0 0 0 0 0 10 0 0\n"},
			want:   figure.Disturbance{Steal: 50 * time.Millisecond},
			words:  "disturbed: the hypervisor took 5.0 % of the measuring CPU's time, 50 ms",
		},
		{
			name: "quota of a group above, version 2", cpus: []int{0},
			before: map[string]string{
				"proc/self/cgroup":                   "0::/pod/box\n",
				"sys/fs/cgroup/cpu.stat":             "usage_usec 5\n",
				"sys/fs/cgroup/pod/cpu.stat":         "usage_usec 5\nnr_periods 9\nnr_throttled 3\nthrottled_usec 1000\n",
				"sys/fs/cgroup/pod/box/cpu.stat":     "usage_usec 5\n",
				"sys/fs/cgroup/elsewhere/x/cpu.stat": "nr_throttled 1\n",
			},
			after: map[string]string{
				"sys/fs/cgroup/pod/cpu.stat":         "usage_usec 7\nnr_periods 12\nnr_throttled 5\nthrottled_usec 91000\n",
				"sys/fs/cgroup/elsewhere/x/cpu.stat": "nr_throttled 100\n",
			},
			want: figure.Disturbance{Stops: 2, Stopped: 90 * time.Millisecond},
			words: "disturbed: the CPU quota of this process's control group ran out 2 times, for 90 ms (9 % of the time); " +
				"raise the quota",
		},
		{
			name: "quota, version 1 beside an empty version 2", cpus: []int{0},
			before: map[string]string{
				"proc/self/cgroup":                       "4:cpu,cpuacct:/box\n2:cpuset:/\n0::/\n",
				"sys/fs/cgroup/cpu,cpuacct/box/cpu.stat": "nr_periods 1\nnr_throttled 0\nthrottled_time 0\n",
				"sys/fs/cgroup/unified/cgroup.procs":     "1\n",
			},
			after: map[string]string{
				"sys/fs/cgroup/cpu,cpuacct/box/cpu.stat": "nr_periods 9\nnr_throttled 1\nthrottled_time 30000000\n",
			},
			want: figure.Disturbance{Stops: 1, Stopped: 30 * time.Millisecond},
			words: "disturbed: the CPU quota of this process's control group ran out 1 times, for 30 ms (3 % of the time); " +
				"raise the quota",
		},
		{
			name: "heat", cpus: []int{2},
			before: map[string]string{"sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count": "7\n"},
			after:  map[string]string{"sys/devices/system/cpu/cpu2/thermal_throttle/core_throttle_count": "9\n"},
			want:   figure.Disturbance{Throttles: 2},
			words:  "disturbed: the CPU reported 2 thermal throttle events",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			kernelFiles(t, root, tt.before)
			before := readCPULosses(root, watched{cpus: tt.cpus})
			kernelFiles(t, root, tt.after)
			got := readCPULosses(root, watched{cpus: tt.cpus}).since(before)
			if got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
			c := figure.Conditions{Disturbance: got.Plus(figure.Disturbance{Wall: time.Second})}
			words := ""
			if w := c.Warnings(); len(w) > 0 {
				words = w[0]
			}
			if words != tt.words {
				t.Errorf("the warning is %q, want %q", words, tt.words)
			}
		})
	}
}

// TestOthers: what the CPUs did beside idling, being stolen and running this test, was done by others.
func TestOthers(t *testing.T) {
	const cpus, ms = 2, time.Millisecond
	began := time.Now()
	for _, tt := range []struct {
		name            string
		took, idle, own time.Duration
		stolen          time.Duration // of the second CPU
		want            time.Duration
	}{
		{"both ends alone", 1000 * ms, 20 * ms, 1980 * ms, 0, 0},
		{"more than there is, by the ticks' rounding", 1000 * ms, 20 * ms, 1985 * ms, 0, 0},
		{"a spinning program", 1000 * ms, 0, 1400 * ms, 0, 600 * ms},
		{"the hypervisor is told apart", 1000 * ms, 0, 1700 * ms, 200 * ms, 100 * ms},
		{"too few ticks", 90 * ms, 90 * ms, 90 * ms, 0, math.MaxInt64},
		{"no clock of processes", 1000 * ms, 20 * ms, -5 * ms, 0, math.MaxInt64},
	} {
		before := cpuLosses{at: began, free: 3 * ms, own: 5 * ms}
		now := cpuLosses{at: began.Add(tt.took), free: before.free + tt.idle + tt.stolen, own: before.own + tt.own}
		if got := now.others(before, cpus); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestOthersBesidePinnedEnd: the end that is pinned, and the other one, have two CPUs together. What they use of the
// one is not taken for the use of the other.
func TestOthersBesidePinnedEnd(t *testing.T) {
	root := t.TempDir()
	kernelFiles(t, root, map[string]string{"proc/stat": "cpu0 9 0 9 5 5 0 0 0 0 0\ncpu1 9 0 9 5 5 0 0 7 0 0\n"})
	w := watched{cpus: []int{1}, all: []int{0, 1}}
	before := readCPULosses(root, w)
	kernelFiles(t, root, map[string]string{"proc/stat": "cpu0 9 0 109 5 5 0 0 0 0 0\ncpu1 9 0 99 5 5 0 0 17 0 0\n"})
	now := readCPULosses(root, w)
	now.at, now.own = before.at.Add(time.Second), before.own+1400*time.Millisecond
	if got := now.others(before, len(w.all)); before.own > 0 && got != 500*time.Millisecond {
		t.Errorf("a program on the pinned CPU, for half a second, is %v", got)
	}
}

// TestProcessTime: the clock of a process tells what that process uses.
func TestProcessTime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("not known here")
	}
	began, before := time.Now(), processTime(0)
	for processTime(0)-before < 5*time.Millisecond {
		if time.Since(began) > 10*time.Second {
			t.Fatal("this process's clock stands still")
		}
	}
	if by := processTime(os.Getpid()); by < before+5*time.Millisecond || processTime(os.Getppid()) == 0 {
		t.Errorf("by its number this process had %v; the one that started it %v", by, processTime(os.Getppid()))
	}
}

// TestCPULossesHere reads this machine's: whatever they are, they do not shrink.
func TestCPULossesHere(t *testing.T) {
	cpus, err := AllowedCPUs()
	if err != nil {
		t.Skipf("no list of CPUs here: %v", err)
	}
	before := readCPULosses("/", watched{cpus: cpus, all: cpus})
	if len(before.steal) != len(cpus) {
		t.Fatalf("steal of %d CPUs, want %d", len(before.steal), len(cpus))
	}
	got := readCPULosses("/", watched{cpus: cpus, all: cpus}).since(before)
	if got.Steal < 0 || got.Stops < 0 || got.Stopped < 0 || got.Throttles < 0 {
		t.Errorf("a counter shrank: %+v", got)
	}
}

// TestQuota: the least of what the control groups grant, in either version.
func TestQuota(t *testing.T) {
	for _, tt := range []struct {
		name   string
		files  map[string]string
		cpus   float64
		memory int64
	}{
		{
			"none", map[string]string{
				"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "max\n",
			}, 0, 4 << 20,
		},
		{"version 2, a group above", map[string]string{
			"proc/self/cgroup": "0::/pod/box\n", "sys/fs/cgroup/pod/box/cpu.max": "150000 100000\n",
			"sys/fs/cgroup/pod/cpu.max":    "50000 100000\n",
			"sys/fs/cgroup/pod/memory.max": "1048576\n", "sys/fs/cgroup/pod/memory.current": "524288\n",
			"sys/fs/cgroup/pod/memory.stat": "anon 1\ninactive_file 1024\n",
		}, 0.5, 1<<19 + 1024},
		{"version 1", map[string]string{
			"proc/self/cgroup": "4:cpu,cpuacct:/box\n3:memory:/box\n",
			"sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us":  "4000\n",
			"sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/memory/box/memory.limit_in_bytes":  "2097152\n",
			"sys/fs/cgroup/memory/box/memory.usage_in_bytes":  "1048576\n",
		}, 0.04, 1 << 20},
	} {
		root := t.TempDir()
		kernelFiles(t, root, tt.files)
		kernelFiles(t, root, map[string]string{"proc/meminfo": "MemTotal: 8192 kB\nMemAvailable: 4096 kB\n"})
		if cpus, memory := cpuQuota(root), availableMemory(root); cpus != tt.cpus || memory != tt.memory {
			t.Errorf("%s: %g CPUs and %d bytes, want %g and %d", tt.name, cpus, memory, tt.cpus, tt.memory)
		}
	}
}

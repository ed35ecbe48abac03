package machine

import "testing"

// TestAvailableMemory: a process has no more memory than its control group, or one above it, has left.
func TestAvailableMemory(t *testing.T) {
	const gib = 1 << 30
	host := map[string]string{"proc/meminfo": "MemTotal: 33554432 kB\nMemAvailable: 16777216 kB\n"}
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no group", nil, 16 * gib},
		{
			"a group without a limit",
			map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"},
			16 * gib,
		},
		{"a limit above this group, and a cache", map[string]string{
			"proc/self/cgroup": "0::/pod/box\n", "sys/fs/cgroup/pod/memory.max": "4294967296\n",
			"sys/fs/cgroup/pod/memory.current": "3221225472\n",
			"sys/fs/cgroup/pod/memory.stat":    "anon 1\ninactive_file 1073741824\n",
		}, 2 * gib},
		{"version 1", map[string]string{
			"proc/self/cgroup": "5:cpu:/x\n4:memory:/box\n", "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "3221225472\n",
			"sys/fs/cgroup/memory/box/memory.usage_in_bytes": "1073741824\n",
		}, 2 * gib},
		{"a full group", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1024\n", "sys/fs/cgroup/memory.current": "2048\n",
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			kernelFiles(t, root, host)
			kernelFiles(t, root, tt.files)
			if got := availableMemory(root); got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

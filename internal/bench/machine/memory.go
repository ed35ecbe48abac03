package machine

import (
	"fmt"
	"path"

	"github.com/gobw/gobw/report/plain"
)

// AvailableMemory is what the kernel thinks can be allocated, in bytes; 0: unknown. A control group may have less than
// the machine: a process that takes more is killed.
func AvailableMemory() int64 { return availableMemory("/") }

func availableMemory(root string) int64 {
	free := fieldsOf(path.Join(root, "proc/meminfo"))["MemAvailable:"] << 10
	for _, dir := range groupsOf(root, "memory") {
		for limit, used := range map[string]string{
			"memory.max": "memory.current", "memory.limit_in_bytes": "memory.usage_in_bytes",
		} {
			if most := number(path.Join(dir, limit)); most > 0 { // the other version's file, or "max": 0
				cached := fieldsOf(path.Join(dir, "memory.stat"))["inactive_file"] // is given back first
				free = min(free, max(most-number(path.Join(dir, used))+cached, 1))
			}
		}
	}
	return free
}

// CheckMemory refuses a point of the non-contiguous experiment that would not fit into
// memory, or under the limit of locked memory.
func CheckMemory(bytes int64, loopback, software bool) error { //nolint:revive // two facts of the run
	ends := int64(1)
	if loopback {
		ends = 2
	}
	if free := AvailableMemory(); free > 0 && ends*bytes > free*9/10 {
		return fmt.Errorf("the largest point needs %s of memory, %s are available: use a smaller --tx-depth (-t), "+
			"--size (-s) or --nums",
			plain.Bytes(float64(ends*bytes)), plain.Bytes(float64(free)))
	}
	if limit := LockedLimit(); !software && limit >= 0 && bytes > limit {
		return fmt.Errorf("the largest point registers %s, the limit of locked memory is %s: 'ulimit -l unlimited', "+
			"or a smaller --tx-depth (-t)",
			plain.Bytes(float64(bytes)), plain.Bytes(float64(limit)))
	}
	return nil
}

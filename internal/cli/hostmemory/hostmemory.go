// Package hostmemory tells how much memory this host has for buffers.
package hostmemory

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// Check refuses what would not fit into memory, or under the limit of locked memory.
func Check(bytes int64, loopback, software bool) error { //nolint:revive // two facts of the run
	ends := int64(1)
	if loopback {
		ends = 2
	}
	if free := Available(); free > 0 && ends*bytes > free*9/10 {
		return fmt.Errorf("the largest point needs %s of memory, %s are available: use --cache hot, or a smaller --tx-depth (-t) or --size (-s)",
			plain.Bytes(float64(ends*bytes)), plain.Bytes(float64(free)))
	}
	if limit := LockedLimit(); !software && limit >= 0 && bytes > limit {
		return fmt.Errorf("the largest point registers %s, the limit of locked memory is %s: 'ulimit -l unlimited', or --cache hot",
			plain.Bytes(float64(bytes)), plain.Bytes(float64(limit)))
	}
	return nil
}

// Available is what the kernel thinks can be allocated, 0 where unknown.
func Available() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), "MemAvailable:"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0
			}
			return n << 10
		}
	}
	return 0
}

package perftest

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// warnOfFrequency warns of what perftest warns of without -F.
func (r *testRun) warnOfFrequency(cpuinfo string) {
	text, err := os.ReadFile(cpuinfo)
	if err != nil || r.v.AnyFrequency {
		return // not Linux: nothing is known
	}
	if conflict := frequencyConflict(string(text)); conflict != "" {
		fmt.Fprintln(r.out.Err, conflict)
	}
}

// frequencyConflict is perftest's warning where the CPUs' frequencies in /proc/cpuinfo are more than two hundredths apart, as they
// are while a governor saves power; empty where they agree, and where the kernel tells none.
func frequencyConflict(cpuinfo string) string {
	var first float64
	for line := range strings.Lines(cpuinfo) {
		name, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(name) != "cpu MHz" {
			continue
		}
		mhz, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		switch {
		case err != nil || mhz <= 0:
		case first == 0:
			first = mhz
		case math.Abs(first-mhz)/first > 0.02: // perftest's bound
			return fmt.Sprintf("Conflicting CPU frequency values detected: %f != %f. CPU Frequency is not max.", first, mhz)
		}
	}
	return ""
}

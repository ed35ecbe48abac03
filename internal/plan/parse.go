package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/pattern"
)

// MaxMessage is the largest message of any test, in bytes.
const MaxMessage = 1<<31 - 1

// Ladders end where a list of sizes would only be a mistake.
const (
	maxSizes = 4096
	maxCPU   = 8191 // the largest CPU number that Linux can have
)

// ParseSize reads a message size: bytes with an optional K, M or G (powers of 1024).
func ParseSize(s string) (int, error) {
	n, err := pattern.ParseBytes(s)
	if err != nil || n < 1 || n > MaxMessage {
		return 0, fmt.Errorf("%q: want 1 to %d bytes, such as 64, 4K or 1M", shorten(s), MaxMessage)
	}
	return int(n), nil
}

// ParseBytes reads any number of bytes with an optional K, M or G (powers of 1024).
func ParseBytes(s string) (int64, error) {
	n, err := pattern.ParseBytes(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of bytes; write 4096 or 4K", shorten(s))
	}
	return n, nil
}

// ParseSizes reads message sizes: 64,1000,4K and ranges 64:1M, which go up by a factor of
// 2, or by the one after a second colon.
func ParseSizes(s string) ([]int, error) {
	sizes, err := ladder[int](s)
	if err == nil && slices.Max(sizes) > MaxMessage {
		return nil, fmt.Errorf("%d: want 1 to %d bytes, such as 64, 4K or 1M", slices.Max(sizes), MaxMessage)
	}
	return sizes, err
}

// ParseLadder reads numbers of at least 1 in the grammar of [ParseSizes], in the order given.
func ParseLadder(s string) ([]int64, error) { return ladder[int64](s) }

func ladder[N int | int64](s string) ([]N, error) {
	var out []N
	for part := range strings.SplitSeq(s, ",") {
		fields := strings.Split(part, ":")
		if len(fields) > 3 {
			return nil, fmt.Errorf("%q: want FROM:TO or FROM:TO:FACTOR", shorten(part))
		}
		var ends [2]int64
		for i := range min(len(fields), 2) {
			n, err := pattern.ParseBytes(fields[i])
			if err != nil || n < 1 {
				return nil, fmt.Errorf("%q: want 1 or more, alone or with K, M or G, such as 64, 4K or 1M (sizes are in bytes); "+
					"a range is 64:1M", shorten(cmp.Or(fields[i], part)))
			}
			ends[i] = n
		}
		low, high, factor := ends[0], max(ends[1], ends[0]), int64(2)
		if len(fields) > 1 && ends[1] < low {
			return nil, fmt.Errorf("%q ends below its start: want the smaller first", shorten(part))
		}
		if len(fields) == 2 && low < high && high < 2*low {
			return nil, fmt.Errorf("%q: the next size after %d is %d: want a larger end", shorten(part), low, 2*low)
		}
		if len(fields) > 2 {
			f, err := strconv.ParseInt(fields[2], 10, 32)
			if err != nil || f < 2 {
				return nil, fmt.Errorf("%q: want a factor of at least 2", shorten(part))
			}
			factor = f
		}
		for n := low; ; n *= factor {
			if !slices.Contains(out, N(n)) { // one that is named twice is measured once
				out = append(out, N(n))
			}
			if len(out) > maxSizes {
				return nil, fmt.Errorf("%q: more than %d sizes", shorten(s), maxSizes)
			}
			if n > high/factor {
				break
			}
		}
	}
	return out, nil
}

// PowersOfTwo is the ladder from low to high.
func PowersOfTwo(low, high int) []int {
	var out []int
	for n := low; n <= high && n > 0; n *= 2 {
		out = append(out, n)
	}
	return out
}

// ParseSeconds reads seconds, or a duration with a unit.
func ParseSeconds(s string) (time.Duration, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		var d time.Duration
		d, err = time.ParseDuration(s)
		v = d.Seconds()
	}
	if err != nil || !(v >= 0 && v <= maxSeconds) {
		return 0, fmt.Errorf("%q: want 0 to %d seconds, or a time in ms, s, m or h, such as 500ms or 2m", shorten(s),
			maxSeconds)
	}
	return time.Duration(math.Round(v * 1e9)), nil
}

// ParseTime reads a time in the grammar of [ParseSeconds] that is not zero.
func ParseTime(s string) (time.Duration, error) {
	d, err := ParseSeconds(s)
	if err == nil && d <= 0 {
		err = fmt.Errorf("%q: want more than 0 seconds", shorten(s))
	}
	return d, err
}

// maxSeconds is the longest duration of a test: eleven days.
const maxSeconds = 1_000_000

// ParseRate reads bits per second with an optional K, M, G or T (powers of 1000).
func ParseRate(s string) (float64, error) {
	unit := 1.0
	digits := strings.TrimSuffix(strings.TrimSuffix(strings.ReplaceAll(s, " ", ""), "b/s"), "bit/s")
	for suffix, u := range map[string]float64{"K": 1e3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12} {
		if d, is := strings.CutSuffix(digits, suffix); is {
			digits, unit = d, u
			break
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	switch {
	case err != nil || !(v > 0) || math.IsInf(v*unit, 0):
		return 0, fmt.Errorf("%q: want bits per second, such as 10G or 500M", shorten(s))
	case v*unit < 1000: // 25 was meant to be gigabits, and a limit of 25 bits passes everything
		return 0, fmt.Errorf("%q is %g bits per second: write a unit, such as %sG or 500M", s, v*unit, digits)
	}
	return v * unit, nil
}

// ParseCPUs reads a list of CPUs such as 0-3,8, in the order given.
func ParseCPUs(s string) ([]int, error) {
	var list []int
	var seen [maxCPU + 1]bool
	named := uint64(0)
	for part := range strings.SplitSeq(s, ",") {
		low, high, ranged := strings.Cut(part, "-")
		a, err := strconv.ParseUint(low, 10, 16)
		b := a
		if err == nil && ranged {
			b, err = strconv.ParseUint(high, 10, 16)
		}
		if err != nil || b < a || b > maxCPU {
			return nil, fmt.Errorf("%q: want CPUs such as 0-3,8", shorten(s))
		}
		if named += b - a + 1; named > 2*(maxCPU+1) {
			return nil, fmt.Errorf("%q: it names the same CPUs again and again: want each once", shorten(s))
		}
		for cpu := a; cpu <= b; cpu++ {
			if !seen[cpu] {
				list = append(list, int(cpu))
			}
			seen[cpu] = true
		}
	}
	return list, nil
}

// MostLayoutBytes is the largest file of a layout that is read.
const MostLayoutBytes = 16 << 20

// ParseLayout reads a layout as its user wrote it, who may name a file.
func ParseLayout(s string, read func(name string, most int64) ([]byte, error)) (pattern.Layout, error) {
	return pattern.Parse(s,
		pattern.ParseOptions{ReadFile: func(name string) ([]byte, error) { return read(name, MostLayoutBytes) }})
}

// shorten keeps the text of somebody else's mistake within a line.
func shorten(s string) string {
	const most = 40
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

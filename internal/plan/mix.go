package plan

import (
	"fmt"
	"strconv"
	"strings"
)

// Bounds of a mix.
const (
	maxMix     = 8
	maxEntries = 1024 // of a message; devices have far fewer
)

// MixEntry is a message of a mix: its bytes, and the entries of its scatter/gather list, which name equal
// pieces that follow each other in memory.
type MixEntry struct{ Bytes, SGEs int }

// Mix is what messages cycle through: message k of a queue pair is entry k modulo their count. As text: 64,4K,64x4.
type Mix []MixEntry

func (m Mix) String() string {
	words := make([]string, len(m))
	for i, p := range m {
		words[i] = exactBytes(p.Bytes)
		if p.SGEs > 1 {
			words[i] += "x" + strconv.Itoa(p.SGEs)
		}
	}
	return strings.Join(words, ",")
}

// exactBytes writes a size as [ParseSize] reads it.
func exactBytes(n int) string {
	for _, u := range []string{"", "K", "M"} {
		if n%1024 != 0 {
			return strconv.Itoa(n) + u
		}
		n /= 1024
	}
	return strconv.Itoa(n) + "G"
}

// MarshalText implements [encoding.TextMarshaler].
func (m Mix) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads sizes, each with the count of its entries after an x. No text is no mix.
func (m *Mix) UnmarshalText(text []byte) error {
	*m = nil
	if len(text) == 0 {
		return nil
	}
	if n := strings.Count(string(text), ",") + 1; n > maxMix {
		return fmt.Errorf("%q: %d messages, want at most %d", shorten(string(text)), n, maxMix)
	}
	for word := range strings.SplitSeq(string(text), ",") {
		size, entries, listed := strings.Cut(word, "x")
		p := MixEntry{SGEs: 1}
		var err error
		if p.Bytes, err = ParseSize(size); err != nil {
			return err
		}
		if listed {
			if p.SGEs, err = strconv.Atoi(entries); err != nil || p.SGEs < 1 || p.SGEs > maxEntries {
				return fmt.Errorf("%q: want a size and 1 to %d entries of a scatter/gather list, such as 4Kx4", shorten(word),
					maxEntries)
			}
		}
		*m = append(*m, p)
	}
	return nil
}

// largest are the most bytes and the most entries of a message, and whether all are of as many bytes.
func (m Mix) largest() (bytes, entries int, same bool) {
	entries, same = 1, true
	for _, p := range m {
		bytes, entries, same = max(bytes, p.Bytes), max(entries, p.SGEs), same && p.Bytes == m[0].Bytes
	}
	return bytes, entries, same
}

// Cycle is what the messages of a round cycle through: the mix, or the one size.
func (s *Spec) Cycle(size int) Mix {
	if len(s.Mix) > 0 {
		return s.Mix
	}
	return Mix{{Bytes: size, SGEs: 1}}
}

// MeanBytes is the mean of a round's messages, over the cycle.
func (s *Spec) MeanBytes(size int) float64 {
	total, cycle := 0, s.Cycle(size)
	for _, p := range cycle {
		total += p.Bytes
	}
	return float64(total) / float64(len(cycle))
}

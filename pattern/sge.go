package pattern

import (
	"fmt"

	"github.com/gobw/gobw/verbs"
)

// AppendSGEs appends one scatter/gather entry per block, for a layout whose base lies at addr in the region with key
// lkey.
func (l *Layout) AppendSGEs(s []verbs.SGE, addr uint64, lkey uint32) []verbs.SGE {
	for it := l.Iterate(); ; {
		b, ok := it.Next()
		if !ok {
			return s
		}
		s = append(s, verbs.SGE{Addr: addr + uint64(b.Offset), Length: uint32(b.Length), LKey: lkey})
	}
}

// Lists is the number of work requests of at most max entries that the layout needs.
func (l Layout) Lists(max int) int64 { return (l.Blocks() + int64(max) - 1) / int64(max) }

// SplitSGEs cuts a scatter/gather list into lists of at most max entries, one per work request of a chain. The pieces
// share the memory of s.
func SplitSGEs(s []verbs.SGE, max int) ([][]verbs.SGE, error) {
	if max < 1 {
		return nil, fmt.Errorf("scatter/gather lists of %d entries: the device has none", max)
	}
	out := make([][]verbs.SGE, 0, (len(s)+max-1)/max)
	for len(s) > 0 {
		n := min(max, len(s))
		out = append(out, s[:n:n])
		s = s[n:]
	}
	return out, nil
}

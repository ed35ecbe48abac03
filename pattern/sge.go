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

// ListLimits bounds the scatter/gather list of one work request.
type ListLimits struct {
	Entries int
	Bytes   int64 // 0: any number; a block that is longer has a list of its own
}

// takes tells whether a list of n entries and so many bytes may have another block.
func (m ListLimits) takes(n int, bytes, block int64) bool {
	return n < m.Entries && (n == 0 || m.Bytes == 0 || bytes+block <= m.Bytes)
}

// Lists is the number of work requests that the layout needs. It costs a few passes over the list, whatever repeats it.
func (l Layout) Lists(m ListLimits) int64 {
	if m.Bytes == 0 || len(l.blocks) == 1 {
		per := int64(m.Entries)
		if m.Bytes > 0 {
			per = min(per, max(1, m.Bytes/l.blocks[0].Length))
		}
		return (l.Blocks() + per - 1) / per
	}
	// A pass over the list begins with some entries in the last request. They are the blocks before, so a pass depends on their number
	// alone: as soon as a number comes again, what lies between repeats.
	type before struct{ pass, lists int64 }
	seen := map[int]before{}
	lists, entries, bytes := int64(1), 0, int64(0)
	passes := l.inner.count * l.outer.count
	for pass := int64(0); pass < passes; pass++ {
		if was, again := seen[entries]; again {
			period := pass - was.pass
			repeats := (passes - pass) / period
			lists += repeats * (lists - was.lists)
			passes -= repeats * period
			clear(seen)
			if pass >= passes {
				break
			}
		}
		seen[entries] = before{pass, lists}
		for _, b := range l.blocks {
			if !m.takes(entries, bytes, b.Length) {
				lists++
				entries, bytes = 0, 0
			}
			entries++
			bytes += b.Length
		}
	}
	return lists
}

// SplitSGEs cuts a scatter/gather list into lists within limits, one per work request of a chain. The pieces share the
// memory of s.
func SplitSGEs(s []verbs.SGE, m ListLimits) ([][]verbs.SGE, error) {
	if m.Entries < 1 {
		return nil, fmt.Errorf("scatter/gather lists of %d entries: the device has none", m.Entries)
	}
	out := make([][]verbs.SGE, 0, (len(s)+m.Entries-1)/m.Entries)
	for len(s) > 0 {
		n, bytes := 0, int64(0)
		for n < len(s) && m.takes(n, bytes, int64(s[n].Length)) {
			bytes += int64(s[n].Length)
			n++
		}
		out = append(out, s[:n:n])
		s = s[n:]
	}
	return out, nil
}

package pattern

// Segment is a run of whole blocks of a layout: the unit of a pipelined pack. The planner would cut blocks, and what is
// cut is a list, which kernels pack more slowly than a loop.
type Segment struct {
	Layout Layout
	Packed int64 // offset of its first byte in the packed form
}

// cut is how many planes, or rows, or at last blocks of the list a segment of at most so many bytes takes.
func (l Layout) cut(bytes int64) (planes, rows int64) {
	per := l.size / (l.inner.count * l.outer.count) // payload of one pass over the list
	switch {
	case bytes >= per*l.inner.count:
		return bytes / (per * l.inner.count), l.inner.count
	case bytes >= per || len(l.blocks) == 1:
		return 1, max(1, bytes/per)
	default:
		return 1, 0
	}
}

// piece is how many blocks of the list a segment takes from block at on.
func (l Layout) piece(at int, bytes int64) int {
	end, n := at+1, l.blocks[at].Length
	for end < len(l.blocks) && n+l.blocks[end].Length <= bytes {
		n += l.blocks[end].Length
		end++
	}
	return end - at
}

// SegmentCount is how many segments [Layout.Segments] makes. It costs one pass over the list, whatever repeats it.
func (l Layout) SegmentCount(bytes int64) int64 {
	planes, rows := l.cut(bytes)
	switch {
	case planes >= l.outer.count && rows == l.inner.count:
		return 1
	case rows == l.inner.count:
		return (l.outer.count + planes - 1) / planes
	case rows > 0:
		return l.outer.count * ((l.inner.count + rows - 1) / rows)
	}
	pieces := int64(0)
	for at := 0; at < len(l.blocks); at += l.piece(at, bytes) {
		pieces++
	}
	return l.outer.count * l.inner.count * pieces
}

// Segments cuts the layout into runs of at most bytes of payload, but of at least one block. A layout of loops is cut
// so that every run is again one loop or whole rows of loops. The runs share the layout's list.
func (l Layout) Segments(bytes int64) []Segment {
	out := make([]Segment, 0, l.SegmentCount(bytes))
	packed := int64(0)
	add := func(shift int64, blocks []Block, outer, inner loop) {
		s := Layout{text: l.text, base: l.base + shift, blocks: blocks, outer: outer, inner: inner}
		for _, b := range blocks {
			s.size += b.Length
		}
		s.size *= outer.count * inner.count
		s.extent = s.base + blocks[len(blocks)-1].End() + (outer.count-1)*outer.step + (inner.count-1)*inner.step
		out = append(out, Segment{s, packed})
		packed += s.size
	}
	planes, rows := l.cut(bytes)
	for o := int64(0); o < l.outer.count; o += planes {
		outer := loop{min(planes, l.outer.count-o), l.outer.step}
		for at := int64(0); at < l.inner.count; at += max(rows, 1) {
			inner := loop{min(max(rows, 1), l.inner.count-at), l.inner.step}
			for b, n := 0, len(l.blocks); b < len(l.blocks); b += n {
				if rows == 0 {
					n = l.piece(b, bytes)
				}
				add(o*outer.step+at*inner.step, l.blocks[b:b+n], outer, inner)
			}
		}
	}
	return out
}

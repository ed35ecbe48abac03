package pattern

// Segment is a run of whole blocks of a layout: the unit of a pipelined pack.
type Segment struct {
	Layout Layout
	Packed int64 // offset of its first byte in the packed form
}

// Segments cuts the layout into runs of at most bytes of payload, but of at least one block. A layout of loops is cut so
// that every run is again one loop or whole rows of loops.
func (l Layout) Segments(bytes int64) []Segment {
	per := l.size / (l.inner.count * l.outer.count) // payload of one pass over the list
	rows := l.inner.count
	var out []Segment
	add := func(s Layout) {
		packed := int64(0)
		if n := len(out); n > 0 {
			packed = out[n-1].Packed + out[n-1].Layout.size
		}
		s.text = l.text
		out = append(out, Segment{Layout: s, Packed: packed})
	}
	perRow := per * rows
	switch {
	case l.size <= bytes:
		add(l)
	case bytes >= perRow: // whole rows
		step := bytes / perRow
		for at := int64(0); at < l.outer.count; at += step {
			add(l.part(at*l.outer.step, l.blocks, loop{min(step, l.outer.count-at), l.outer.step}, l.inner))
		}
	case bytes >= per || len(l.blocks) == 1: // parts of rows
		step := max(1, bytes/per)
		for o := range l.outer.count {
			for at := int64(0); at < rows; at += step {
				add(l.part(o*l.outer.step+at*l.inner.step, l.blocks, loop{1, 0}, loop{min(step, rows-at), l.inner.step}))
			}
		}
	default: // parts of the list
		for o := range l.outer.count {
			for r := range rows {
				for at := 0; at < len(l.blocks); {
					end, n := at+1, l.blocks[at].Length
					for end < len(l.blocks) && n+l.blocks[end].Length <= bytes {
						n += l.blocks[end].Length
						end++
					}
					add(l.part(o*l.outer.step+r*l.inner.step, l.blocks[at:end], loop{1, 0}, loop{1, 0}))
					at = end
				}
			}
		}
	}
	return out
}

// part is a piece of the layout, moved by shift bytes.
func (l Layout) part(shift int64, blocks []Block, outer, inner loop) Layout {
	moved := make([]Block, len(blocks))
	p := Layout{outer: outer, inner: inner}
	for i, b := range blocks {
		moved[i] = Block{b.Offset + shift, b.Length}
		p.size += b.Length
	}
	p.blocks = moved
	p.size *= outer.count * inner.count
	p.extent = moved[len(moved)-1].End() + (outer.count-1)*outer.step + (inner.count-1)*inner.step
	return p
}

package pattern

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// Errors that a refused layout wraps, so that callers can tell why.
var (
	ErrOverlap   = errors.New("blocks overlap")
	ErrBackwards = errors.New("blocks go backwards")
	ErrEmpty     = errors.New("layout is empty")
	ErrTooLarge  = errors.New("layout is too large")
)

// Limits of a layout: one block becomes one scatter/gather entry, whose length is 32 bits wide (31 are portable), and
// all arithmetic on offsets stays inside 62 bits.
const (
	MaxBlockBytes = 1 << 31
	MaxBlocks     = 1 << 40
	maxExtent     = 1 << 62
	// maxList is the longest list of blocks that is kept as a list.
	maxList = 1 << 22
)

// Block is one contiguous piece of a layout.
type Block struct {
	Offset int64 // bytes from the layout's base
	Length int64 // bytes
}

// End is the offset of the byte after the block.
func (b Block) End() int64 { return b.Offset + b.Length }

// loop repeats what is inside it count times, step bytes apart.
type loop struct{ count, step int64 }

// Layout is an immutable list of blocks: a short list, repeated by two nested loops. Make one with [Vector],
// [Subarray], [Indexed], [Struct] or [Parse]; the zero Layout is empty.
type Layout struct {
	text   string
	base   int64   // before everything: of a segment
	blocks []Block // the innermost list, never empty in a valid layout
	outer  loop
	inner  loop
	size   int64
	extent int64
}

// Vector is num blocks of block bytes, stride bytes from the start of one to the start of the next.
func Vector(block, num, stride int64) (Layout, error) {
	text := fmt.Sprintf("vector:block=%d,num=%d,stride=%d", block, num, stride)
	if num == 1 && stride == 0 {
		stride = block
	}
	return newLayout(text, []Block{{0, block}}, loop{1, 0}, loop{num, stride})
}

// Struct is num records, extent bytes apart, of the fields given, which it keeps.
func Struct(fields []Block, num, extent int64) (Layout, error) {
	text := fmt.Sprintf("struct:%s,extent=%d,num=%d", blocksText(fields), extent, num)
	return newLayout(text, fields, loop{1, 0}, loop{num, extent})
}

// Indexed is the blocks given, in rising order; it keeps them.
func Indexed(blocks []Block) (Layout, error) {
	return newLayout("indexed:"+blocksText(blocks), blocks, loop{1, 0}, loop{1, 0})
}

// Box describes part of an array of two or three dimensions. Dimension 0 ("x") is the one whose neighbours are
// adjacent in memory; "z" has the longest stride.
type Box struct {
	Dims    []int64 // elements of the whole array
	Start   []int64 // first element of the part; nil: the origin
	Part    []int64 // elements of the part
	Element int64   // bytes; 0: 8
}

// Face is one face of an array, width elements thick, as a halo exchange sends it: axis is "x", "y" or "z", at the low
// end or, with "+x", at the high end.
func Face(dims []int64, axis string, width int64) (Box, error) {
	high := strings.HasPrefix(axis, "+")
	name := strings.TrimLeft(axis, "+-")
	i := strings.Index("xyz", name)
	if len(name) != 1 || i < 0 || i >= len(dims) {
		return Box{}, fmt.Errorf("face %q: want one of %s, with + for the high side", axis,
			strings.Join(strings.Split("xyz"[:min(3, len(dims))], ""), ", "))
	}
	if width < 1 || width > dims[i] {
		return Box{}, fmt.Errorf("face %s: width %d: want 1 to %d elements", axis, width, dims[i])
	}
	b := Box{Dims: dims, Start: make([]int64, len(dims)), Part: slices.Clone(dims)}
	b.Part[i] = width
	if high {
		b.Start[i] = dims[i] - width
	}
	return b, nil
}

// Subarray is the rows of a box, each a block.
func Subarray(b Box) (Layout, error) {
	if b.Element == 0 {
		b.Element = 8
	}
	n := len(b.Dims)
	if n < 2 || n > 3 {
		return Layout{}, fmt.Errorf("subarray: %d dimensions: want 2 or 3", n)
	}
	if b.Start == nil {
		b.Start = make([]int64, n)
	}
	if len(b.Part) != n || len(b.Start) != n {
		return Layout{}, fmt.Errorf("subarray: %d dimensions, but size has %d and start %d", n, len(b.Part), len(b.Start))
	}
	if b.Element < 0 {
		return Layout{}, fmt.Errorf("subarray: element of %d bytes", b.Element)
	}
	step := [4]int64{b.Element}
	first := int64(0)
	for i := range n {
		if b.Part[i] < 1 || b.Start[i] < 0 || b.Dims[i] < 1 || b.Start[i] > b.Dims[i]-b.Part[i] {
			return Layout{}, fmt.Errorf("subarray: dimension %c: elements %d to %d of %d do not exist", "xyz"[i], b.Start[i],
				b.Start[i]+b.Part[i]-1, b.Dims[i])
		}
		var ok bool
		step[i+1], ok = mul(step[i], b.Dims[i])
		if !ok {
			return Layout{}, fmt.Errorf("subarray %s: %w", joinDims(b.Dims), ErrTooLarge)
		}
		first += step[i] * b.Start[i]
	}
	text := fmt.Sprintf("subarray:dims=%s,size=%s,start=%s,elem=%d", joinDims(b.Dims), joinDims(b.Part),
		joinDims(b.Start), b.Element)
	outer := loop{1, 0}
	if n == 3 {
		outer = loop{b.Part[2], step[2]}
	}
	return newLayout(text, []Block{{first, b.Part[0] * b.Element}}, outer, loop{b.Part[1], step[1]})
}

// newLayout checks the blocks and the loops and computes size and extent.
func newLayout(text string, blocks []Block, outer, inner loop) (Layout, error) {
	l := Layout{text: text, blocks: blocks, outer: outer, inner: inner}
	fail := func(format string, a ...any) (Layout, error) {
		return Layout{}, fmt.Errorf("layout %s: %w", shorten(text), fmt.Errorf(format, a...))
	}
	if len(blocks) == 0 {
		return fail("%w: no block", ErrEmpty)
	}
	if len(blocks) > maxList {
		return fail("%w: %d blocks in the list, at most %d", ErrTooLarge, len(blocks), maxList)
	}
	var size int64
	end := int64(0)
	for i, b := range blocks {
		switch {
		case b.Length <= 0:
			return fail("%w: block %d has %d bytes", ErrEmpty, i, b.Length)
		case b.Length > MaxBlockBytes:
			return fail("%w: block %d has %d bytes, at most %d", ErrTooLarge, i, b.Length, int64(MaxBlockBytes))
		case b.Offset < 0 || b.Offset > maxExtent:
			return fail("%w: block %d starts at %d", ErrTooLarge, i, b.Offset)
		case i > 0 && b.End() <= blocks[i-1].Offset:
			return fail("%w: block %d (at %d) lies before block %d (at %d): sort the list", ErrBackwards, i, b.Offset,
				i-1, blocks[i-1].Offset)
		case b.Offset < end && i > 0:
			return fail("%w: block %d starts at %d, inside block %d which ends at %d", ErrOverlap, i, b.Offset, i-1, end)
		}
		end = b.End()
		size += b.Length
	}
	span := end - blocks[0].Offset
	total := int64(1)
	for _, lp := range []struct {
		loop
		what string
	}{{inner, "blocks"}, {outer, "planes"}} {
		if lp.count < 1 {
			return fail("%w: %d %s", ErrEmpty, lp.count, lp.what)
		}
		if lp.count > 1 && lp.step < span {
			if lp.step < 0 {
				return fail("%w: stride %d", ErrBackwards, lp.step)
			}
			key, enough := "stride", span
			if strings.HasPrefix(text, "struct:") {
				key = "extent"
			}
			if size == span { // without a gap it would be contiguous data
				enough = 2 * span
			}
			return fail("%w: %s %d is smaller than the %d bytes repeated; try %s=%d", ErrOverlap, key, lp.step, span,
				key, enough)
		}
		reach, ok1 := mul(lp.count-1, lp.step)
		sum, ok2 := mul(size, lp.count)
		blocksTotal, ok3 := mul(total, lp.count)
		if !ok1 || !ok2 || !ok3 || reach > maxExtent-end || sum > maxExtent {
			return fail("%w: its extent overflows", ErrTooLarge)
		}
		span += reach
		end += reach
		size = sum
		total = blocksTotal
	}
	if n, ok := mul(total, int64(len(blocks))); !ok || n > MaxBlocks {
		return fail("%w: more than %d blocks", ErrTooLarge, int64(MaxBlocks))
	}
	l.size, l.extent = size, end
	return l, nil
}

// mul multiplies two numbers that are not negative and tells whether the product fits.
func mul(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), a >= 0 && b >= 0 && hi == 0 && lo <= math.MaxInt64
}

// String is the layout in the grammar of [Parse], files resolved: the peer of a test parses it without seeing the file.
func (l Layout) String() string { return l.text }

// Size is the payload in bytes: the sum of all blocks.
func (l Layout) Size() int64 { return l.size }

// Extent is the number of bytes from the base to the end of the last block.
func (l Layout) Extent() int64 { return l.extent }

// Blocks is the number of blocks.
func (l Layout) Blocks() int64 { return int64(len(l.blocks)) * l.inner.count * l.outer.count }

// MeanBlockBytes is the payload divided by the number of blocks.
func (l Layout) MeanBlockBytes() float64 { return float64(l.size) / float64(l.Blocks()) }

// Stride is the distance between the starts of neighbouring blocks, or 0 where there is no single one.
func (l Layout) Stride() int64 {
	if len(l.blocks) != 1 || l.outer.count > 1 && l.inner.count > 1 && l.outer.step != l.inner.count*l.inner.step {
		return 0
	}
	if l.inner.count > 1 {
		return l.inner.step
	}
	if l.outer.count > 1 {
		return l.outer.step
	}
	return l.blocks[0].Length
}

// Iterator walks the blocks of a layout in order; it allocates nothing. Copy it to remember a place.
type Iterator struct {
	layout     *Layout
	index      int
	inner      int64
	outer      int64
	rowOffset  int64
	baseOffset int64
}

// Iterate starts at the first block. The layout must outlive the iterator.
func (l *Layout) Iterate() Iterator {
	return Iterator{layout: l, rowOffset: l.base, baseOffset: l.base}
}

// Next returns the next block, and false after the last.
func (it *Iterator) Next() (Block, bool) {
	l := it.layout
	if it.outer >= l.outer.count || len(l.blocks) == 0 {
		return Block{}, false
	}
	b := l.blocks[it.index]
	b.Offset += it.rowOffset
	if it.index++; it.index == len(l.blocks) {
		it.index = 0
		it.rowOffset += l.inner.step
		if it.inner++; it.inner == l.inner.count {
			it.inner = 0
			it.outer++
			it.baseOffset += l.outer.step
			it.rowOffset = it.baseOffset
		}
	}
	return b, true
}

// Gaps are the bytes before, between and behind the blocks, of so many from the layout's base on.
func (l *Layout) Gaps(bytes int64) iter.Seq[Block] {
	return func(yield func(Block) bool) {
		rising := *l
		byOffset := func(a, b Block) int { return cmp.Compare(a.Offset, b.Offset) }
		if !slices.IsSortedFunc(l.blocks, byOffset) {
			rising.blocks = slices.Clone(l.blocks)
			slices.SortFunc(rising.blocks, byOffset)
		}
		end, it := int64(0), rising.Iterate()
		for more := true; more; {
			var b Block
			if b, more = it.Next(); !more {
				b.Offset = bytes
			}
			if gap := (Block{end, b.Offset - end}); gap.Length > 0 && !yield(gap) {
				return
			}
			end = max(end, b.End())
		}
	}
}

func blocksText(blocks []Block) string {
	b := make([]byte, 0, 8*len(blocks))
	for i, x := range blocks {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(strconv.AppendInt(b, x.Offset, 10), '+')
		b = strconv.AppendInt(b, x.Length, 10)
	}
	return string(b)
}

func joinDims(d []int64) string {
	s := make([]string, len(d))
	for i, v := range d {
		s[i] = strconv.FormatInt(v, 10)
	}
	return strings.Join(s, "x")
}

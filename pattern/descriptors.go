package pattern

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a list of descriptors.
const (
	MaxPieces = 10_000_000
	MaxSpan   = 1 << 30 // bytes from the first to the last, at either end

	maxTextBytes = 1 << 30 // of a file, unpacked
	maxLineBytes = 4096
	// BaseBytes: addresses become offsets from a multiple of this, so that lines and pages stay where they were.
	BaseBytes = 4096
)

// DescriptorGrammar is what a line of a file of descriptors holds.
const DescriptorGrammar = "local,remote,length[,count,local_stride,remote_stride]"

// Descriptors are what a transfer moves, as a file tells it: a line for each piece, or for a run of pieces.
type Descriptors struct {
	Pieces, Bytes int64
	runs          []descriptor
	base          [2]int64 // of each side: where offsets begin, as it stands in the file
}

// descriptor is a line: count pieces of one length, on each side so many bytes apart.
type descriptor struct {
	at, stride    [2]int64
	length, count int64
	line          int
}

// Sides of a list.
const (
	localSide = iota
	remoteSide
)

func sideNames() [2]string { return [2]string{"local", "remote"} }

// DescriptorOptions bound what is read; zero fields mean the bounds of a file.
type DescriptorOptions struct {
	TextBytes int64 // unpacked
	Pieces    int64
}

// ReadDescriptors reads a list in the form of [DescriptorGrammar], gzip or not. Addresses become offsets. Several
// mistakes are told together.
func ReadDescriptors(r io.Reader, o DescriptorOptions) (*Descriptors, error) {
	o.TextBytes, o.Pieces = cmp.Or(o.TextBytes, maxTextBytes), cmp.Or(o.Pieces, MaxPieces)
	in, what := bufio.NewReaderSize(r, maxLineBytes), ""
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		what = "the compressed data is cut off, damaged, or followed by other data: "
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%s%w", what, err)
		}
		in = bufio.NewReaderSize(unpacked, maxLineBytes)
	}
	d, errs, left := &Descriptors{}, []error(nil), o.TextBytes
	for n, last := 1, false; len(errs) < maxFaults && !last; n++ {
		text, err := in.ReadSlice('\n')
		if left -= int64(len(text)); left < 0 {
			return nil, fmt.Errorf("more than %d bytes of text", o.TextBytes)
		}
		last = err != nil
		line, _, _ := bytes.Cut(bytes.TrimRight(text, "\r\n"), []byte{'#'})
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		top := len(errs) == 0 && d.Pieces == 0
		switch wrong := otherForm(text); {
		case wrong != nil:
			return nil, fmt.Errorf("line %d: %w", n, wrong)
		case errors.Is(err, bufio.ErrBufferFull):
			err = fmt.Errorf("line %d: longer than %d bytes: want %s", n, maxLineBytes, DescriptorGrammar)
		case last && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("line %d: %s%w", n, what, err)
		case top && isHeader(line):
			continue
		default:
			err = d.line(line, n, o.Pieces)
		}
		if top && errors.Is(err, errNotNumber) && (line[0] < '0' || line[0] > '9') {
			err = fmt.Errorf("%w. A header has these names in this order, or begins with #: %s", err, DescriptorGrammar)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 && d.Pieces == 0 {
		errs = append(errs, fmt.Errorf("no line has a descriptor: want %s", DescriptorGrammar))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return d, d.rebase()
}

// byteOrderMark begins a text that some programs have saved.
const byteOrderMark = "\ufeff"

// otherForm says what is wrong with a text as a whole, by one of its lines.
func otherForm(line []byte) error {
	values, _, _ := bytes.Cut(line, []byte{'#'})
	switch {
	case bytes.IndexByte(line, 0) >= 0:
		return errors.New("a byte is zero, as in UTF-16: save the list as UTF-8")
	case bytes.IndexByte(bytes.TrimRight(line, "\r\n"), '\r') >= 0:
		return errors.New("lines end with a carriage return alone: want a line feed (tr '\\r' '\\n' < OLD > NEW)")
	case bytes.IndexByte(values, ';') >= 0:
		return errors.New("';' is between numbers: want a comma, a blank or a tab (tr ';' ',' < OLD > NEW)")
	}
	return nil
}

// columns are the names of a line's numbers.
func columns() []string {
	return strings.FieldsFunc(DescriptorGrammar, func(r rune) bool { return strings.ContainsRune(",[]", r) })
}

// isHeader tells whether a line has the names of the first columns, or nothing.
func isHeader(line []byte) bool {
	separates := func(r rune) bool { return strings.ContainsRune(", \t\"", r) }
	words := strings.FieldsFunc(strings.ToLower(string(line)), separates)
	return len(words) <= len(columns()) && slices.Equal(words, columns()[:len(words)])
}

// line reads one line, without its comment.
func (d *Descriptors) line(text []byte, number int, most int64) error {
	var v [6]int64
	at := [len(v) + 1]int{} // columns
	wrong := func(column int, format string, args ...any) error {
		return fmt.Errorf("line %d, column %d: %w", number, at[column], fmt.Errorf(format, args...))
	}
	n, comma := 0, true // comma: no number is between two
	for i := 0; i < len(text); {
		end := i
		for end < len(text) && strings.IndexByte(", \t", text[end]) < 0 {
			end++
		}
		at[n] = i + 1
		switch word := text[i:end]; {
		case end > i && n == len(v):
			return wrong(n, "%q is too much: want %s", shorten(string(word)), DescriptorGrammar)
		case end > i:
			var err error
			if v[n], err = descriptorNumber(string(word)); err != nil {
				return wrong(n, "%s %q %w", columns()[n], shorten(string(word)), err)
			}
			n, comma, i = n+1, false, end
			continue
		case text[i] == ',' && comma:
			return wrong(n, "%s is missing before the comma", columns()[min(n, len(v)-1)])
		case text[i] == ',':
			comma = true
		}
		i++
	}
	switch {
	case n == 0:
		return nil
	case n != 3 && n != len(v):
		return fmt.Errorf("line %d: %d numbers: want %s", number, n, DescriptorGrammar)
	case n == 3:
		v[3] = 1
	}
	x := descriptor{[2]int64{v[0], v[1]}, [2]int64{v[4], v[5]}, v[2], v[3], number}
	switch {
	case x.length == 0:
		return wrong(2, "length 0: leave the line out")
	case x.length > MaxSpan:
		return wrong(2, "length %d: at most %d bytes", x.length, MaxSpan)
	case x.count == 0:
		return wrong(3, "count 0: leave the line out")
	case x.count > most-d.Pieces:
		return wrong(3*min(n-3, 1), "more than %d pieces", most)
	}
	for side, stride := range x.stride {
		reach, ok := mul(x.count-1, stride)
		if !ok || reach > MaxSpan {
			return wrong(4*min(n-3, 1)+side, "the pieces of this line span more than %d bytes", MaxSpan)
		}
	}
	if x.count == 1 {
		x.stride = [2]int64{}
	}
	d.runs, d.Pieces, d.Bytes = append(d.runs, x), d.Pieces+x.count, d.Bytes+x.count*x.length
	return nil
}

var errNotNumber = errors.New("is not a number: write 4096 or 0x1000")

// descriptorNumber is a decimal number, or one with 0x, below 2^62: sums of a few stay numbers.
func descriptorNumber(word string) (int64, error) {
	base := 10
	if len(word) > 2 && (word[:2] == "0x" || word[:2] == "0X") {
		word, base = word[2:], 16
	}
	v, err := strconv.ParseUint(word, base, 62)
	switch {
	case errors.Is(err, strconv.ErrRange):
		err = fmt.Errorf("is larger than %d", v)
	case err != nil && strings.HasPrefix(word, "-"):
		err = errors.New("is negative: subtract the lowest place from all")
	case err != nil:
		err = errNotNumber
	}
	return int64(v), err
}

// rebase makes addresses offsets, and refuses what spans too much.
func (d *Descriptors) rebase() error {
	for side, name := range sideNames() {
		low, high := int64(math.MaxInt64), int64(0)
		first, last := 0, 0
		for i := range d.runs {
			x := &d.runs[i]
			if x.at[side] < low {
				low, first = x.at[side], x.line
			}
			if end := x.at[side] + (x.count-1)*x.stride[side] + x.length; end > high {
				high, last = end, x.line
			}
		}
		low -= low % BaseBytes
		if high-low > MaxSpan {
			return fmt.Errorf("lines %d and %d: the %s pieces span %d bytes, at most %d. Several regions of memory? Give "+
				"offsets, each region's behind the one before",
				first, last, name, high-low, MaxSpan)
		}
		d.base[side] = low
		for i := range d.runs {
			d.runs[i].at[side] -= low
		}
	}
	return nil
}

// Append writes the list, as [ReadDescriptors] reads it.
func (d *Descriptors) Append(b []byte) []byte {
	for _, x := range d.runs {
		v := []int64{x.at[localSide], x.at[remoteSide], x.length, x.count, x.stride[localSide], x.stride[remoteSide]}
		if x.count == 1 {
			v = v[:3]
		}
		for i, n := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = strconv.AppendInt(b, n, 10)
		}
		b = append(b, '\n')
	}
	return b
}

// Transfer is the list as pieces. Those of the side that is written must not overlap: the remote side, or the local one
// where the transfer reads.
func (d *Descriptors) Transfer(reads bool) (Transfer, error) { //nolint:revive // the direction
	var sides [2][]Block
	for side := range sides {
		sides[side] = make([]Block, 0, d.Pieces)
		for _, x := range d.runs {
			for k := range x.count {
				sides[side] = append(sides[side], Block{x.at[side] + k*x.stride[side], x.length})
			}
		}
	}
	written := remoteSide
	if reads {
		written = localSide
	}
	target, name := sides[written], sideNames()[written]
	a, b := 0, 0 // two that overlap
	walk(target, func(at, before int, end int64) {
		if target[at].Offset < end && a == b {
			a, b = before, at
		}
	})
	if a != b {
		lines := fmt.Sprintf("lines %d and %d", d.lineOf(min(a, b)), d.lineOf(max(a, b)))
		if first := d.lineOf(a); first == d.lineOf(b) {
			lines = fmt.Sprintf("line %d, whose %s_stride is below its length", first, name)
		}
		return Transfer{}, fmt.Errorf("%s: the %s %w, and all are written, from %d (%#[4]x) on", lines, name, ErrOverlap,
			d.base[written]+max(target[a].Offset, target[b].Offset))
	}
	return Transfer{scattered("", sides[localSide]), scattered("", sides[remoteSide])}, nil
}

// lineOf is the line of a piece.
func (d *Descriptors) lineOf(piece int) int {
	for _, x := range d.runs {
		if piece -= int(x.count); piece < 0 {
			return x.line
		}
	}
	return 0
}

// walk goes through blocks by rising offset. end is the highest of those before, which is that of the block before.
func walk(blocks []Block, visit func(at, before int, end int64)) {
	order := make([]uint64, len(blocks)) // offsets have 31 bits, indices 24
	for i, b := range blocks {
		order[i] = uint64(b.Offset)<<24 | uint64(i)
	}
	if !slices.IsSorted(order) {
		slices.Sort(order)
	}
	before, end := 0, int64(0)
	for _, key := range order {
		at := int(key & (1<<24 - 1))
		visit(at, before, end)
		if e := blocks[at].End(); e > end {
			before, end = at, e
		}
	}
}

// Scaled is the list with its lengths and gaps multiplied so that pieces have so many bytes on average. What touched or
// overlapped still does, in the same order.
func (t Transfer) Scaled(mean int64) (Transfer, error) {
	ratio := float64(mean) * float64(t.Local.Blocks()) / float64(t.Local.size)
	scale := func(n int64) int64 { return int64(min(math.Round(float64(n)*ratio), MaxSpan+1)) }
	lengths := make([]int64, t.Local.Blocks())
	for i, b := range t.Local.blocks {
		lengths[i] = max(scale(b.Length), 1)
	}
	side := func(blocks []Block) (Layout, error) {
		out := make([]Block, len(blocks))
		newEnd := int64(0)
		walk(blocks, func(at, before int, end int64) {
			b, offset := blocks[at], newEnd
			switch gap := b.Offset - end; {
			case gap > 0:
				unit := min(b.Offset&-b.Offset, 64) // what lay on a cache line still does
				offset = (newEnd + max(scale(gap), 1) + unit - 1) / unit * unit
			case gap < 0:
				offset = out[before].Offset + scale(max(b.Offset-blocks[before].Offset, 0))
			}
			out[at] = Block{min(offset, MaxSpan+1), lengths[at]}
			newEnd = max(newEnd, out[at].End())
		})
		l := scattered("", out)
		if l.extent > MaxSpan {
			return l, fmt.Errorf("%w: pieces of %d bytes span more than %d", ErrTooLarge, mean, MaxSpan)
		}
		return l, nil
	}
	local, err := side(t.Local.blocks)
	if err != nil {
		return t, err
	}
	remote, err := side(t.Remote.blocks)
	return Transfer{local, remote}, err
}

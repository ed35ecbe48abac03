package pattern

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// ParseOptions say what a layout's text may reach.
type ParseOptions struct {
	// ReadFile opens what indexed:file= names; nil refuses files (a peer's plan has none).
	ReadFile func(name string) ([]byte, error)
}

// Grammar is the layout grammar in a few lines, for help texts.
const Grammar = `vector:block=64,num=256,stride=256       256 blocks of 64 B, starting every
                                         256 B
subarray:dims=512x512x8,face=y           a face of an array of ZxYxX elements
  elem=8: bytes of an element (default 8); width=2: thickness of the face in
  elements (default 1); face=y: the low side; face=+y: the high side
subarray:dims=64x64,size=8x64,start=4x0  a part of an array: size and start
indexed:0+64,256+16,1024+64              offset+length of each block, sorted
                                         by offset
indexed:file=blocks.txt                  a file: offset,length on each line
struct:0+4,8+8,extent=32,num=100         100 records of 32 B with two fields:
                                         offset+length
Numbers may have K, M or G (4K is 4096).`

// fields is a parsed "key=value,..." list; items without "=" are blocks.
type fields struct {
	values map[string]string
	blocks []Block
	used   map[string]bool
	errs   []error
}

// maxFaults is how many mistakes of one text are told.
const maxFaults = 16

func (f *fields) fault(err error) {
	if len(f.errs) < maxFaults {
		f.errs = append(f.errs, err)
	}
}

// Parse reads a layout in the grammar of [Grammar]. All faults are reported together.
func Parse(text string, o ParseOptions) (Layout, error) {
	kind, rest, ok := strings.Cut(strings.TrimSpace(text), ":")
	if !ok {
		return Layout{}, fmt.Errorf("layout %q: want KIND:key=value,...; for example vector:block=64,num=256,stride=256",
			shorten(text))
	}
	f := parseFields(rest)
	l, err := f.layout(kind, o)
	f.unknown()
	if len(f.errs) > 0 { // what newLayout says of half-read numbers would only confuse
		return Layout{}, fmt.Errorf("layout %q: %w", shorten(text), errors.Join(f.errs...))
	}
	return l, err
}

func unknown(what, word string, known ...string) error {
	return fmt.Errorf("unknown %s %q: want %s", what, shorten(word), strings.Join(known, ", "))
}

// unknown tells the keys that the grammar does not have there.
func (f *fields) unknown() {
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		if !f.used[key] {
			f.fault(unknown("key", key, slices.Sorted(maps.Keys(f.used))...))
		}
	}
}

func (f *fields) layout(kind string, o ParseOptions) (Layout, error) {
	if kind != "struct" && kind != "indexed" && len(f.blocks) > 0 {
		f.fault(fmt.Errorf("%d+%d: only indexed and struct list blocks", f.blocks[0].Offset, f.blocks[0].Length))
	}
	switch kind {
	case "vector":
		block, num := f.number("block", -1), f.number("num", -1)
		return Vector(block, num, f.number("stride", max(block, 0)))
	case "subarray":
		return f.subarray()
	case "struct":
		last := int64(0)
		if n := len(f.blocks); n > 0 {
			last = f.blocks[n-1].End()
		}
		return Struct(f.blocks, f.number("num", 1), f.number("extent", last))
	case "indexed":
		name, ok := f.values["file"]
		f.used["file"] = true
		if !ok {
			return Indexed(f.blocks)
		}
		if len(f.blocks) > 0 {
			f.fault(errors.New("a file and inline blocks: give one of them"))
		}
		if o.ReadFile == nil {
			return Layout{}, fmt.Errorf("layout indexed:file=%s: files cannot be read here; list the blocks inline", name)
		}
		b, err := o.ReadFile(name)
		if err != nil {
			return Layout{}, fmt.Errorf("layout indexed: %w (each of its lines is the \"offset,length\" of a block)", err)
		}
		blocks, err := ParseBlocks(string(b))
		if err != nil {
			return Layout{}, fmt.Errorf("layout indexed:file=%s: %w", name, err)
		}
		return Indexed(blocks)
	default:
		clear(f.values) // no key is known
		return Layout{}, fmt.Errorf("layout: %w", unknown("kind", kind, "vector", "subarray", "indexed", "struct"))
	}
}

func (f *fields) subarray() (Layout, error) {
	dims, elem := f.numbers("dims"), f.number("elem", 8)
	for _, key := range []string{"size", "start", "face", "width"} {
		f.used[key] = true
	}
	if len(dims) < 2 || len(dims) > 3 {
		f.fault(errors.New("dims: want two or three sizes, as in dims=512x512x8"))
		return Layout{}, nil
	}
	face, byFace := f.values["face"]
	for _, key := range []string{"size", "start", "width"} {
		if _, given := f.values[key]; given && (key == "width") != byFace {
			f.fault(fmt.Errorf("%s: face goes with width, size with start", key))
		}
	}
	if byFace {
		box, err := Face(dims, face, f.number("width", 1))
		if err != nil {
			f.fault(err)
			return Layout{}, err
		}
		box.Element = elem
		return Subarray(box)
	}
	box := Box{Dims: dims, Part: f.numbers("size"), Start: f.numbers("start"), Element: elem}
	if box.Part == nil {
		f.fault(errors.New("give face=x, y or z, or size=AxBxC"))
	}
	return Subarray(box)
}

// ParseBlocks reads one "offset,length" (or "offset+length") a line; empty lines and those with # are skipped.
func ParseBlocks(text string) ([]Block, error) {
	var out []Block
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		b, err := parseBlock(strings.Replace(line, ",", "+", 1))
		if err != nil {
			return nil, fmt.Errorf("line %d: %q: want offset,length: %w", n, shorten(line), err)
		}
		if len(out) == maxList {
			return nil, fmt.Errorf("%w: more than %d blocks", ErrTooLarge, maxList)
		}
		out = append(out, b)
	}
	return out, nil
}

// parseBlock reads "offset+length".
func parseBlock(text string) (Block, error) {
	a, b, _ := strings.Cut(text, "+")
	offset, err1 := ParseBytes(a)
	length, err2 := ParseBytes(b)
	return Block{offset, length}, errors.Join(err1, err2)
}

// ParseBytes reads a number of bytes, with an optional K, M or G (or KiB, ...) for powers of 1024.
func ParseBytes(s string) (int64, error) {
	t := strings.TrimSpace(s)
	t = strings.TrimSuffix(strings.TrimSuffix(t, "B"), "i")
	shift := 0
	if n := len(t); n > 0 {
		if i := strings.IndexByte("KMG", t[n-1]&^0x20); i >= 0 {
			shift = 10 * (i + 1)
			t = t[:n-1]
		}
	}
	v, err := strconv.ParseUint(t, 10, 63)
	if err != nil || v != 0 && bits.Len64(v)+shift > 63 {
		return 0, fmt.Errorf("%q is not a number of bytes; write 4096 or 4K", shorten(s))
	}
	return int64(v << shift), nil
}

func parseFields(text string) *fields {
	f := &fields{values: map[string]string{}, used: map[string]bool{}}
	if text == "" {
		return f
	}
	f.blocks = make([]Block, 0, min(strings.Count(text, "+"), len(text)/len("0+1,")+1))
	for item := range strings.SplitSeq(text, ",") {
		if len(f.errs) == maxFaults {
			break
		}
		if key, value, ok := strings.Cut(item, "="); ok {
			key = strings.TrimSpace(key)
			if len(f.values) == maxFaults {
				f.fault(fmt.Errorf("%q: more than %d keys", shorten(item), maxFaults))
				break
			}
			if _, twice := f.values[key]; twice {
				f.fault(fmt.Errorf("%s is given twice", shorten(key)))
			}
			f.values[key] = strings.TrimSpace(value)
			continue
		}
		b, err := parseBlock(item)
		if err != nil {
			f.fault(fmt.Errorf("%q: want key=value or offset+length", shorten(item)))
			continue
		}
		f.blocks = append(f.blocks, b)
	}
	return f
}

// number takes a value by key; fallback -1 makes it required.
func (f *fields) number(key string, fallback int64) int64 {
	f.used[key] = true
	s, ok := f.values[key]
	if !ok {
		if fallback < 0 {
			f.fault(fmt.Errorf("%s is missing", key))
		}
		return fallback
	}
	v, err := ParseBytes(s)
	if err != nil {
		f.fault(fmt.Errorf("%s: %w", key, err))
	}
	return v
}

func (f *fields) numbers(key string) []int64 {
	f.used[key] = true
	s, ok := f.values[key]
	if !ok {
		return nil
	}
	var out []int64
	if strings.Count(s, "x") > 2 {
		f.fault(fmt.Errorf("%s: %q: want two or three numbers", key, shorten(s)))
		return out
	}
	for p := range strings.SplitSeq(s, "x") {
		v, err := ParseBytes(p)
		if err != nil {
			f.fault(fmt.Errorf("%s: %w", key, err))
			return out
		}
		out = append(out, v)
	}
	return out
}

func shorten(s string) string {
	if len(s) > 60 {
		return s[:57] + "..."
	}
	return s
}

package pattern

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
)

func blocksOf(l Layout) []Block {
	var out []Block
	for it := l.Iterate(); ; {
		b, ok := it.Next()
		if !ok {
			return out
		}
		out = append(out, b)
	}
}

func TestLayouts(t *testing.T) {
	for _, c := range []struct {
		text         string
		size, extent int64
		blocks       []Block
	}{
		{"vector:block=64,num=3,stride=256", 192, 576, []Block{{0, 64}, {256, 64}, {512, 64}}},
		{"vector:block=4K,num=1", 4096, 4096, []Block{{0, 4096}}},
		{"vector:block=8,num=3", 24, 24, []Block{{0, 8}, {8, 8}, {16, 8}}},
		{"indexed:0+4,16+2,18+6", 12, 24, []Block{{0, 4}, {16, 2}, {18, 6}}},
		{"struct:0+4,8+8,extent=24,num=2", 24, 40, []Block{{0, 4}, {8, 8}, {24, 4}, {32, 8}}},
		{"subarray:dims=4x3,size=2x2,start=1x1,elem=8", 32, 88, []Block{{40, 16}, {72, 16}}},
		{"subarray:dims=4x3x2,face=x", 48, 168, []Block{{0, 8}, {32, 8}, {64, 8}, {96, 8}, {128, 8}, {160, 8}}},
		{"subarray:dims=4x3x2,face=+x", 48, 192, []Block{{24, 8}, {56, 8}, {88, 8}, {120, 8}, {152, 8}, {184, 8}}},
		{"subarray:dims=4x3x2,face=y", 64, 128, []Block{{0, 32}, {96, 32}}},
		{"subarray:dims=4x3x2,face=+y,elem=4", 32, 96, []Block{{32, 16}, {80, 16}}},
		{"subarray:dims=4x3x2,face=z", 96, 96, []Block{{0, 32}, {32, 32}, {64, 32}}},
	} {
		t.Run(c.text, func(t *testing.T) {
			l, err := Parse(c.text, ParseOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if l.Size() != c.size || l.Extent() != c.extent || l.Blocks() != int64(len(c.blocks)) {
				t.Errorf("got size %d, extent %d, %d blocks; want %d, %d, %d", l.Size(), l.Extent(), l.Blocks(), c.size, c.extent,
					len(c.blocks))
			}
			if got := blocksOf(l); !slices.Equal(got, c.blocks) {
				t.Errorf("got blocks %v, want %v", got, c.blocks)
			}
			again, err := Parse(l.String(), ParseOptions{})
			if err != nil {
				t.Fatalf("its own text: %v", err)
			}
			if got := blocksOf(again); !slices.Equal(got, c.blocks) {
				t.Errorf("its own text %s gives %v", l, got)
			}
		})
	}
}

func TestRefusedLayouts(t *testing.T) {
	for _, c := range []struct {
		text string
		want error
	}{
		{"vector:block=64,num=4,stride=63", ErrOverlap},
		{"vector:block=0,num=4,stride=64", ErrEmpty},
		{"vector:block=64,num=0,stride=64", ErrEmpty},
		{"vector:block=4G,num=1", ErrTooLarge},
		{"vector:block=1,num=9223372036854775807,stride=9223372036854775807", ErrTooLarge},
		{"vector:block=1,num=4611686018427387904,stride=2", ErrTooLarge},
		{"indexed:64+4,0+4", ErrBackwards},
		{"indexed:0+8,4+8", ErrOverlap},
		{"indexed:8+8,4+8", ErrOverlap},
		{"indexed:0+0", ErrEmpty},
		{"indexed:", ErrEmpty},
		{"struct:0+4,8+8,extent=12,num=2", ErrOverlap},
		{"subarray:dims=4611686018427387904x4611686018427387904,face=x", ErrTooLarge},
	} {
		t.Run(c.text, func(t *testing.T) {
			if l, err := Parse(c.text, ParseOptions{}); !errors.Is(err, c.want) {
				t.Errorf("got %v, %v; want %v", l, err, c.want)
			}
		})
	}
	for _, text := range []string{
		"", "vector", "vector:", "tensor:block=1", "vector:block=64", "vector:block=64,num=4,stride=x",
		"vector:block=64,block=32,num=1",
		"vector:block=64,num=4,stride=128,colour=red", "vector:0+4,block=64,num=1", "indexed:file=x",
		"subarray:dims=4,face=x", "subarray:dims=4x4,face=z", "subarray:dims=4x4,face=x,width=5", "subarray:dims=4x4",
		"subarray:dims=4x4,size=2x2x2", "subarray:dims=4x4,size=3x3,start=2x0",
		"subarray:dims=9999999999999999999999x1,face=x",
	} {
		if l, err := Parse(text, ParseOptions{}); err == nil {
			t.Errorf("%q: got %v, want an error", text, l)
		}
	}
}

func TestParseReportsAllFaults(t *testing.T) {
	_, err := Parse("vector:blok=64,num=x,stride=y", ParseOptions{})
	want := "layout \"vector:blok=64,num=x,stride=y\": block is missing\nnum: \"x\" is not a number of bytes; " +
		"write 4096 or 4K\nstride: \"y\" is not a number of bytes; write 4096 or 4K\nunknown key \"blok\": want block, " +
		"num, stride"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestIndexedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "blocks.txt")
	if err := os.WriteFile(name, []byte("# offset, length\n0, 64\n\n1K,16 # a tail\n4096+32\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Parse("indexed:file="+name, ParseOptions{ReadFile: os.ReadFile})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.String(), "indexed:0+64,1024+16,4096+32"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestIterateDoesNotAllocate(t *testing.T) {
	l, err := Vector(8, 1000, 64)
	if err != nil {
		t.Fatal(err)
	}
	var sum int64
	n := testing.AllocsPerRun(100, func() {
		for it := l.Iterate(); ; {
			b, ok := it.Next()
			if !ok {
				break
			}
			sum += b.Offset
		}
	})
	if n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func TestCutByBytes(t *testing.T) {
	for _, c := range []struct {
		layout string
		cut    Cut
		want   []int // entries of each list
	}{
		{"vector:block=64,num=9,stride=128", Cut{Entries: 32, Bytes: 256}, []int{4, 4, 1}},
		{"vector:block=64,num=9,stride=128", Cut{Entries: 3, Bytes: 256}, []int{3, 3, 3}},
		{"vector:block=64,num=3,stride=128", Cut{Entries: 32, Bytes: 63}, []int{1, 1, 1}},
		{"struct:0+40,100+8,200+16,extent=300,num=2", Cut{Entries: 32, Bytes: 64}, []int{3, 3}},
		{"struct:0+40,100+8,200+16,extent=300,num=3", Cut{Entries: 32, Bytes: 80}, []int{3, 3, 3}},
		{"indexed:0+10,20+100,200+10,300+10,400+10", Cut{Entries: 2, Bytes: 30}, []int{1, 1, 2, 1}},
	} {
		l, err := Parse(c.layout, ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		transfer := Gathered(l)
		var got []int
		for list := range transfer.Requests(c.cut) {
			got = append(got, len(list))
		}
		if n := transfer.Count(c.cut, 100).Requests; !slices.Equal(got, c.want) || n != len(c.want) {
			t.Errorf("%s in %+v: got %v and %d, want %v", c.layout, c.cut, got, n, c.want)
		}
	}
}

// TestSegments: the segments of a layout are its blocks in order, and the loops of a layout stay loops.
func TestSegments(t *testing.T) {
	for _, text := range []string{
		"vector:block=64,num=100,stride=256", "vector:block=24,num=100,stride=64", "subarray:dims=16x8x4,face=x",
		"subarray:dims=16x8x4,size=4x4x4,start=1x1x0", "struct:0+4,8+8,24+100,extent=200,num=17",
		"indexed:0+4,16+200,1000+3,2000+1000",
	} {
		l, err := Parse(text, ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, bytes := range []int64{1, 7, 64, 100, 1000, 1 << 20} {
			var got []Block
			at := int64(0)
			segments := l.Segments(bytes)
			if n := l.SegmentCount(bytes); n != int64(len(segments)) {
				t.Errorf("%s by %d: %d segments, counted %d", text, bytes, len(segments), n)
			}
			for _, s := range segments {
				if s.Packed != at {
					t.Errorf("%s by %d: segment at %d, want %d", text, bytes, s.Packed, at)
				}
				at += s.Layout.Size()
				b := blocksOf(s.Layout)
				if len(b) > 1 && s.Layout.Size() > bytes {
					t.Errorf("%s by %d: a segment of %d blocks and %d bytes", text, bytes, len(b), s.Layout.Size())
				}
				if len(s.Layout.blocks) > len(l.blocks) {
					t.Errorf("%s by %d: a list of %d blocks", text, bytes, len(s.Layout.blocks))
				}
				if end := b[len(b)-1].End(); s.Layout.Extent() != end {
					t.Errorf("%s by %d: segment extent %d, want %d", text, bytes, s.Layout.Extent(), end)
				}
				got = append(got, b...)
			}
			if !slices.Equal(got, blocksOf(l)) {
				t.Errorf("%s by %d: segments are not the layout", text, bytes)
			}
		}
	}
}

// TestScattered: the parts of a layout are whole, and pieces that are equally long and far apart become a loop.
func TestScattered(t *testing.T) {
	for text, loops := range map[string]bool{
		"vector:block=64,num=100,stride=256": true, "struct:0+4,8+8,24+100,extent=200,num=17": false,
	} {
		l, err := Parse(text, ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, bytes := range []int64{1, 7, 64, 100, 1000, 1 << 20} {
			transfer, size := Gathered(l), int64(0)
			for pieces := range transfer.Requests(Cut{Bytes: bytes, Merge: true, Split: true}) {
				s := Scattered(pieces)
				if loops && bytes%64 == 0 && len(s.blocks) != 1 {
					t.Errorf("%s by %d: a list of %d blocks", text, bytes, len(s.blocks))
				}
				var want []Block
				for _, p := range pieces {
					want = append(want, Block{p.Local, p.Length})
				}
				if got := blocksOf(s); !slices.Equal(got, want) || s.Size() != min(bytes, l.Size()-size) {
					t.Errorf("%s by %d: %d bytes of %v, want %v", text, bytes, s.Size(), got, want)
				}
				if s.Extent() != want[len(want)-1].End() {
					t.Errorf("%s by %d: extent %d, want %d", text, bytes, s.Extent(), want[len(want)-1].End())
				}
				size += s.Size()
			}
			if size != l.Size() {
				t.Errorf("%s by %d: %d bytes in all", text, bytes, size)
			}
		}
	}
}

func TestExtentArithmetic(t *testing.T) {
	l, err := Vector(MaxBlockBytes, 2, math.MaxInt64/4)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := l.Extent(), int64(math.MaxInt64/4+MaxBlockBytes); got != want {
		t.Errorf("got extent %d, want %d", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"vector:block=64,num=256,stride=256", "subarray:dims=512x512x8,face=y", "subarray:dims=8x8,size=2x3,start=1x1",
		"indexed:0+4,16+2,18+6", "struct:0+4,8+8,extent=24,num=2", "struct:0+4,12+4,extent=16,num=3",
	} {
		f.Add(s)
	}
	testrun.Fuzz(f, func(t *testing.T, text string) {
		testrun.Within(t, 100*time.Millisecond, 1<<20, func() { _, _ = Parse(text[:min(len(text), 64<<10)], ParseOptions{}) })
		l, err := Parse(text, ParseOptions{})
		if err != nil {
			return
		}
		if l.Size() < 1 || l.Extent() < l.Size() || l.Blocks() < 1 {
			t.Errorf("%q: size %d, extent %d, %d blocks", text, l.Size(), l.Extent(), l.Blocks())
		}
		again, err := Parse(l.String(), ParseOptions{})
		if err != nil {
			t.Fatalf("%q became %s: %v", text, l, err)
		}
		if again.Size() != l.Size() || again.Extent() != l.Extent() || again.Blocks() != l.Blocks() {
			t.Errorf("%q became %s: %d/%d/%d, not %d/%d/%d", text, l, again.Size(), again.Extent(), again.Blocks(), l.Size(),
				l.Extent(), l.Blocks())
		}
		if l.Blocks() > 1000 {
			return
		}
		end, size := int64(0), int64(0)
		for it := l.Iterate(); ; {
			b, ok := it.Next()
			if !ok {
				break
			}
			if b.Offset < end || b.Length < 1 {
				t.Fatalf("%q: block %v begins before %d", text, b, end)
			}
			end = b.End()
			size += b.Length
		}
		if size != l.Size() || end != l.Extent() {
			t.Errorf("%q: blocks sum to %d and end at %d, not %d and %d", text, size, end, l.Size(), l.Extent())
		}
	})
}

// TestGaps: gaps and blocks together are every byte once, of loops and of lists in any order.
func TestGaps(t *testing.T) {
	vector, _ := Vector(8, 3, 20)
	cube, _ := Subarray(Box{Dims: []int64{8, 4, 3}, Start: []int64{1, 1, 0}, Part: []int64{2, 2, 3}, Element: 4})
	for _, l := range []Layout{vector, cube, vector.Packed(), scattered("", []Block{{40, 8}, {5, 1}, {6, 10}}), {}} {
		const bytes = 512
		seen := make([]int, bytes)
		mark := func(b Block) {
			for i := b.Offset; i < b.End(); i++ {
				seen[i]++
			}
		}
		for it := l.Iterate(); ; {
			b, more := it.Next()
			if !more {
				break
			}
			mark(b)
		}
		for gap := range l.Gaps(bytes) {
			mark(gap)
		}
		if slices.ContainsFunc(seen, func(n int) bool { return n != 1 }) {
			t.Errorf("%v: bytes are in a gap or a block so many times: %v", l, seen)
		}
	}
}

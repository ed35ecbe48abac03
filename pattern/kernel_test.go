package pattern

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

func ptr(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// buffer is memory outside the heap that ends with the test.
func buffer(tb testing.TB, n int) []byte {
	tb.Helper()
	b, err := verbs.Alloc(n, verbs.MemoryOptions{Touch: true})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = b.Close() })
	return b.Bytes()
}

// languages are the ways to run a work: every kernel must do the same.
func languages() map[string]func(job.Work) {
	l := map[string]func(job.Work){"go": func(w job.Work) { w.Go(w.Arg) }}
	for _, isa := range instructionSets() {
		l["go/"+isa] = func(w job.Work) {
			a := (*copyArgs)(w.Arg)
			kernelFor(isa, a.op, a.flags)(w.Arg)
		}
	}
	return l
}

// checkRoundTrip packs and unpacks the layout and looks at every byte.
func checkRoundTrip(t *testing.T, l Layout, o KernelOptions) {
	t.Helper()
	const guard = 64
	extent, size := int(l.Extent()), int(l.Size())
	src, dst := buffer(t, extent), buffer(t, extent+guard)
	packed := buffer(t, size+guard)
	k := NewKernels(o)
	defer func() { _ = k.Close() }()
	pack, err := k.Pack(l, src, packed)
	if err != nil {
		t.Fatal(err)
	}
	unpack, err := k.Unpack(l, dst, packed)
	if err != nil {
		t.Fatal(err)
	}
	for i := range src {
		src[i] = byte(rand.Uint32())
	}
	wantPacked := bytes.Repeat([]byte{0xee}, size+guard)
	wantDst := bytes.Repeat([]byte{0xdd}, extent+guard)
	at := 0
	for _, b := range blocksOf(l) {
		at += copy(wantPacked[at:], src[b.Offset:b.End()])
		copy(wantDst[b.Offset:], src[b.Offset:b.End()])
	}
	for name, run := range languages() {
		for i := range packed {
			packed[i] = 0xee
		}
		for i := range dst {
			dst[i] = 0xdd
		}
		run(pack)
		if !bytes.Equal(packed, wantPacked) {
			t.Fatalf("%s: %s with %+v: packed bytes differ first at %d", name, l, o, firstDifference(packed, wantPacked))
		}
		run(unpack)
		if !bytes.Equal(dst, wantDst) {
			t.Fatalf("%s: %s with %+v: unpacked bytes differ first at %d", name, l, o, firstDifference(dst, wantDst))
		}
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// kernelChoices makes every path run on a small layout: as it is, asking ahead, storing past the cache.
func kernelChoices() []KernelOptions {
	return []KernelOptions{
		{},
		{Footprint: 1 << 40},
		{Footprint: 1 << 40, PackedFootprint: 1 << 40},
	}
}

func TestKernelsOfEveryBlockSize(t *testing.T) {
	sizes := []int64{}
	for b := int64(1); b <= 300; b++ {
		if b <= 66 || b%8 <= 1 || testrun.Whole() {
			sizes = append(sizes, b)
		}
	}
	sizes = append(sizes, 512, 1000, 1024, 2047, 2048, 4096, 5000)
	for _, o := range kernelChoices() {
		for _, block := range sizes {
			for _, stride := range []int64{block, block + 1, (block + 127) &^ 63} {
				l, err := Vector(block, 37, stride)
				if err != nil {
					t.Fatal(err)
				}
				checkRoundTrip(t, l, o)
			}
		}
	}
}

// TestKernelsOfEvenLists has lists of blocks of one length, at whole lines and elsewhere, in one pass and several.
func TestKernelsOfEvenLists(t *testing.T) {
	near := KernelOptions{
		Footprint: 1 << 20, PackedFootprint: 1 << 20, Caches: Caches{L1: 1 << 10, L2: 1 << 30, LastLevel: 1 << 30},
	}
	for _, o := range append(kernelChoices(), near) {
		for _, block := range []int64{63, 64, 65, 128, 192, 256, 320, 512, 1024, 4096} {
			for _, n := range []int{2, 3, 4, 5, 6, 7, 8, 21} {
				for _, unit := range []int64{64, 1} {
					var blocks []Block
					at := int64(0)
					for i := range n {
						at += int64(i%3) * unit
						blocks = append(blocks, Block{at, block})
						at += block
					}
					for passes := range int64(3) {
						l, err := Struct(blocks, 1+passes, (at+127)&^63)
						if err != nil {
							t.Fatal(err)
						}
						checkRoundTrip(t, l, o)
					}
				}
			}
		}
	}
}

func TestKernelsOfRandomLayouts(t *testing.T) {
	seed := uint64(20261121)
	r := rand.New(rand.NewPCG(seed, 1))
	layouts := 400
	if !testrun.Whole() {
		layouts = 100
	}
	for i := range layouts {
		l := randomLayout(t, r)
		o := kernelChoices()[i%3]
		checkRoundTrip(t, l, o)
		transfer, j := Gathered(l), 0
		for pieces := range transfer.Requests(Cut{Bytes: 1 + r.Int64N(l.Size()), Merge: true, Split: true}) {
			if j++; j > 8 {
				break
			}
			checkRoundTrip(t, Scattered(pieces), o)
		}
		for j, s := range l.Segments(1 + r.Int64N(l.Size())) {
			if j > 8 {
				break
			}
			checkRoundTrip(t, s.Layout, o)
		}
	}
}

func randomLayout(t *testing.T, r *rand.Rand) Layout {
	t.Helper()
	var l Layout
	var err error
	fields := func(n int) ([]Block, int64) {
		var b []Block
		at := int64(0)
		for range n {
			at += r.Int64N(40)
			length := 1 + r.Int64N(1<<r.IntN(9))
			b = append(b, Block{at, length})
			at += length
		}
		return b, at
	}
	switch r.IntN(4) {
	case 0:
		block := 1 + r.Int64N(1<<r.IntN(12))
		l, err = Vector(block, 1+r.Int64N(50), block+r.Int64N(200))
	case 1:
		dims := []int64{1 + r.Int64N(20), 1 + r.Int64N(20), 1 + r.Int64N(20)}[:2+r.IntN(2)]
		b := Box{Dims: dims, Element: 1 + r.Int64N(16)}
		for _, d := range dims {
			s := r.Int64N(d)
			b.Start = append(b.Start, s)
			b.Part = append(b.Part, 1+r.Int64N(d-s))
		}
		l, err = Subarray(b)
	case 2:
		b, _ := fields(1 + r.IntN(60))
		l, err = Indexed(b)
	default:
		b, end := fields(1 + r.IntN(6))
		l, err = Struct(b, 1+r.Int64N(20), end+r.Int64N(30))
	}
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestKernelsRefuseShortBuffers(t *testing.T) {
	l, err := Vector(64, 4, 128)
	if err != nil {
		t.Fatal(err)
	}
	k := NewKernels(KernelOptions{})
	defer func() { _ = k.Close() }()
	b := buffer(t, 4096)
	if _, err := k.Pack(l, b[:447], b[1024:]); err == nil {
		t.Error("packed from too little memory")
	}
	if _, err := k.Unpack(l, b, b[1024:1279]); err == nil {
		t.Error("unpacked from too little memory")
	}
}

func TestWorkDoesNotAllocate(t *testing.T) {
	k := NewKernels(KernelOptions{})
	defer func() { _ = k.Close() }()
	for _, text := range []string{
		"vector:block=8,num=10,stride=64", "vector:block=256,num=10,stride=512", "struct:0+4,8+80,extent=128,num=10",
	} {
		l, err := Parse(text, ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := k.Pack(l, buffer(t, int(l.Extent())), buffer(t, int(l.Size())))
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { w.Go(w.Arg) }); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", text, n)
		}
	}
}

func TestArgsAreTwins(t *testing.T) {
	if got := unsafe.Sizeof(copyArgs{}); got != 104 {
		t.Errorf("copyArgs has %d bytes, its twin in C 104", got)
	}
}

func ExampleParse() {
	l, err := Parse("vector:block=64,num=256,stride=256", ParseOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(l.Size(), "bytes in", l.Blocks(), "blocks over", l.Extent())
	// Output: 16384 bytes in 256 blocks over 65344
}

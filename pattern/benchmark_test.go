//go:build cgo && (amd64 || arm64)

package pattern

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/gobw/gobw/pattern/internal/yardstick"
	"github.com/gobw/gobw/verbs/job"
)

// scene is a layout repeated over a footprint: message k packs from its own place into its own
// packed buffer, or unpacks into its place.
type scene struct {
	args  yardstick.Args
	works []job.Work
	per   int64 // payload of one message
}

// newScene lays copies of l over footprint bytes, packed into at most packed bytes.
func newScene(tb testing.TB, verb string, l Layout, footprint, packed int64) *scene {
	tb.Helper()
	pitch := (l.Extent() + 63) &^ 63
	n := max(1, footprint/pitch)
	slot := (l.Size() + 63) &^ 63
	slots := min(n, max(1, packed/slot))
	far, near := buffer(tb, int(n*pitch)), buffer(tb, int(slots*slot))
	for i := range far {
		far[i] = byte(i)
	}
	k := NewKernels(KernelOptions{Footprint: n * pitch, PackedFootprint: slots * slot})
	tb.Cleanup(func() { _ = k.Close() })
	prepare := k.Pack
	if verb == "unpack" {
		prepare = k.Unpack
	}
	// One argument after another in memory, so that C can walk them.
	all := buffer(tb, int(n)*argsBytes)
	s := &scene{args: yardstick.Args{First: ptr(all), Count: int(n), Stride: argsBytes}, per: l.Size()}
	for i := range n {
		w, err := prepare(l, far[i*pitch:], near[i%slots*slot:])
		if err != nil {
			tb.Fatal(err)
		}
		p := unsafe.Add(s.args.First, i*argsBytes)
		*(*copyArgs)(p) = *(*copyArgs)(w.Arg)
		w.Arg = p
		s.works = append(s.works, w)
	}
	return s
}

// part is n messages of the scene from the first on.
func (s *scene) part(first, n int) *scene {
	return &scene{
		args:  yardstick.Args{First: unsafe.Add(s.args.First, first*s.args.Stride), Count: n, Stride: s.args.Stride},
		works: s.works[first : first+n], per: s.per,
	}
}

func (s *scene) runGo(reps int) {
	for range reps {
		for i := range s.works {
			s.works[i].Go(s.works[i].Arg)
		}
	}
}

// contenders run a scene: the kernels, then the yardsticks, of which memcpy comes twice as a control.
func contenders() []func(s *scene, reps int) {
	return []func(*scene, int){
		(*scene).runGo,
		func(s *scene, reps int) { yardstick.ReadLines(s.args, reps) },
		func(s *scene, reps int) { yardstick.MemcpyBlocks(s.args, reps) },
		func(s *scene, reps int) { yardstick.MemcpyBlocks(s.args, reps) },
	}
}

const (
	ofGo = iota
	ofRead
	ofMemcpy
	ofMemcpyAgain
)

// BenchmarkCopy holds the pack and unpack kernels, for vectors and for lists of blocks, against a C loop
// that only reads the same cache lines and against C memcpy per block: go/read is the kernel's speed in units of the
// reading loop's. control is memcpy against itself.
func BenchmarkCopy(b *testing.B) {
	caches := HostCaches()
	states := []struct {
		name              string
		footprint, packed int64
	}{
		{"hot", int64(caches.L1) * 2 / 3, int64(caches.L1) / 3},
		{"warm", int64(caches.L2) / 4, 16 << 10},
		{"cold", 4 * int64(caches.LastLevel), 1 << 20},
		{"far", 4 * int64(caches.LastLevel), 2 * int64(caches.LastLevel)},
	}
	for _, verb := range []string{"pack", "unpack"} {
		for _, kind := range []string{"vector", "list"} {
			for _, state := range states {
				for _, block := range []int64{8, 24, 64, 128, 256, 512, 1024, 4096, 16384} {
					b.Run(fmt.Sprintf("verb=%s/layout=%s/cache=%s/block=%d", verb, kind, state.name, block), func(b *testing.B) {
						compareKernels(b,
							newScene(b, verb, benchmarkLayout(b, kind, block, state.footprint), state.footprint, state.packed))
					})
				}
			}
		}
	}
}

// benchmarkLayout has messages of 16 KiB and two blocks or more where the footprint allows: every other block of a
// vector, or a list with gaps of none to two blocks between.
func benchmarkLayout(b *testing.B, kind string, block, footprint int64) Layout {
	b.Helper()
	stride := max(2*block, 64)
	least := int64(1)
	if footprint > 1<<20 {
		least = 2
	}
	num := max(1, min(max((16<<10)/block, least), 1024, footprint/stride))
	if kind == "vector" {
		l, err := Vector(block, num, stride)
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	random := rand.New(rand.NewPCG(uint64(block), uint64(num)))
	blocks, at := make([]Block, num), int64(0)
	for i := range blocks {
		blocks[i] = Block{Offset: at, Length: block}
		at += block + max(random.Int64N(3)*block, 64-block)
	}
	l, err := Indexed(blocks)
	if err != nil {
		b.Fatal(err)
	}
	return l
}

// compareKernels lets the contenders take turns on pieces of the scene so short that a lost processor spoils few of
// them. A piece comes round again when all others have been walked, and then to another contender.
func compareKernels(b *testing.B, s *scene) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const turn = 128 << 10 // bytes of payload
	runs := contenders()
	size, pieces, reps := s.args.Count, 1, int(1+8*turn/(s.per*int64(s.args.Count)))
	warm := s.per*int64(s.args.Count) <= 8*turn // stays in cache: all of it at each turn, and once before
	if !warm {
		size, reps = int(max(1, turn/s.per)), 1
		pieces = s.args.Count / size
		if pieces%len(runs) == 0 {
			pieces--
		}
	}
	times := make([][]float64, len(runs))
	next := 0
	for round := 0; b.Loop(); round++ {
		for j := range runs {
			i := (round + j) % len(runs)
			part := s.part(next%pieces*size, size)
			next++
			if warm {
				runs[i](part, 1)
			}
			start := job.Now()
			runs[i](part, reps)
			times[i] = append(times[i], float64(job.Now()-start))
		}
	}
	median := make([]float64, len(runs))
	for i := range times {
		slices.Sort(times[i])
		median[i] = times[i][len(times[i])/2]
	}
	read, memcpy := median[ofRead], median[ofMemcpy]
	b.ReportMetric(read/median[ofGo], "go/read")
	b.ReportMetric(memcpy/median[ofGo], "go/memcpy")
	b.ReportMetric(memcpy/median[ofMemcpyAgain], "control")
	b.ReportMetric(0, "ns/op") // a round of all contenders: no one's time
}

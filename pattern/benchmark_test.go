package pattern

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/gobw/gobw/pattern/internal/ckernel"
	"github.com/gobw/gobw/verbs"
)

func ptr(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// scene is a layout repeated over a footprint: message k packs from its own place into its own packed buffer.
type scene struct {
	args  ckernel.Args
	works []verbs.Work
	bytes int64 // payload of one walk
}

// newScene lays copies of l over footprint bytes, packed into at most packed bytes.
func newScene(tb testing.TB, l Layout, footprint, packed int64) *scene {
	tb.Helper()
	pitch := (l.Extent() + 63) &^ 63
	n := max(1, footprint/pitch)
	slot := (l.Size() + 63) &^ 63
	slots := min(n, max(1, packed/slot))
	src, dst := buffer(tb, int(n*pitch)), buffer(tb, int(slots*slot))
	for i := range src {
		src[i] = byte(i)
	}
	k := NewKernels(KernelOptions{Footprint: n * pitch, PackedFootprint: slots * slot})
	tb.Cleanup(func() { _ = k.Close() })
	// One argument after another in memory, so that C can walk them.
	all := buffer(tb, int(n)*argsBytes)
	s := &scene{args: ckernel.Args{First: ptr(all), Count: int(n), Stride: argsBytes}, bytes: n * l.Size()}
	for i := range n {
		w, err := k.Pack(l, src[i*pitch:], dst[i%slots*slot:])
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

func (s *scene) runGo(reps int) {
	for range reps {
		for i := range s.works {
			s.works[i].Go(s.works[i].Arg)
		}
	}
}

func (s *scene) runC(reps int)      { ckernel.Run(s.works[0].C, s.args, reps) }
func (s *scene) runRead(reps int)   { ckernel.ReadLines(s.args, reps) }
func (s *scene) runMemcpy(reps int) { ckernel.MemcpyBlocks(s.args, reps) }

// BenchmarkPack holds the pack kernels of both languages against a C loop that only reads the same cache lines and
// against C memcpy per block. All four run in turn within the same benchmark; the ratios are medians over the rounds:
// x/read is the kernel's speed in units of the reading loop's, x/memcpy in units of memcpy's.
func BenchmarkPack(b *testing.B) {
	if a, _ := ckernel.Kernel(); a == 0 {
		b.Skip("built without cgo: no yardstick")
	}
	caches := HostCaches()
	for _, state := range []struct {
		name              string
		footprint, packed int64
	}{
		{"hot", int64(caches.L1) * 2 / 3, int64(caches.L1) / 3},
		{"warm", int64(caches.L2) / 4, 16 << 10},
		{"cold", 4 * int64(caches.LastLevel), 1 << 20},
		{"far", 4 * int64(caches.LastLevel), 2 * int64(caches.LastLevel)},
	} {
		for _, block := range []int64{4, 8, 16, 24, 32, 64, 128, 256, 512, 1024, 4096, 16384} {
			stride := max(2*block, 64)
			num := min(max(16<<10/block, 1), 1024)
			num = max(1, min(num, state.footprint/stride))
			b.Run(fmt.Sprintf("cache=%s/block=%d", state.name, block), func(b *testing.B) {
				l, err := Vector(block, num, stride)
				if err != nil {
					b.Fatal(err)
				}
				compareKernels(b, newScene(b, l, state.footprint, state.packed))
			})
		}
	}
}

// compareKernels times the kernels and the yardsticks in turn, round after round, each round at least a millisecond.
func compareKernels(b *testing.B, s *scene) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	runs := []func(int){s.runGo, s.runC, s.runRead, s.runMemcpy}
	reps := 1
	for ; reps < 1<<20; reps *= 2 {
		start := time.Now()
		s.runGo(reps)
		if time.Since(start) > time.Millisecond {
			break
		}
	}
	times := make([][]float64, len(runs))
	for round := 0; b.Loop(); round++ {
		for j := range runs { // each goes first in turn
			i := (round + j) % len(runs)
			start := verbs.Now()
			runs[i](reps)
			times[i] = append(times[i], float64(verbs.Now()-start))
		}
	}
	ratio := func(of, to int) float64 {
		r := make([]float64, len(times[of]))
		for i := range r {
			r[i] = times[to][i] / times[of][i]
		}
		slices.Sort(r)
		return r[len(r)/2]
	}
	b.ReportMetric(ratio(0, 2), "go/read")
	b.ReportMetric(ratio(1, 2), "c/read")
	b.ReportMetric(ratio(0, 3), "go/memcpy")
	b.ReportMetric(ratio(1, 3), "c/memcpy")
	b.ReportMetric(float64(s.bytes)*float64(reps)*float64(b.N)/1e9*4/b.Elapsed().Seconds(), "GB/s(mean)")
}

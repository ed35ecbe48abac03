package endpoint

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// checkedMemory is a destination after a round, for tests of the checker.
func checkedMemory(t *testing.T) (*layouts, *Endpoint) {
	t.Helper()
	spec := plan.Spec{
		Transport: verbs.RC, Duration: 1e9, Noncontig: &plan.Noncontig{
			Shape: "both", Strategy: "gather-send", Layout: "vector:block=16,num=5,stride=48", Window: 2,
		},
	}
	lim := verbs.Limits{MaxSGE: 32, MaxQPWR: 1024}
	end := func(dialled bool) *plan.Settled {
		p, err := plan.Settle(spec, plan.Limits{Device: verbs.DeviceInfo{Name: "roce0", Limits: lim}, Dialled: dialled},
			plan.Peer{}, plan.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	source, destination := end(true), end(false)
	send, recv := source.Buffers.SendBytes, destination.Buffers.RecvBytes // each end has the memory of its side
	b, err := verbs.Alloc(send+recv, verbs.MemoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	part := func(at, bytes int) slot { return slot{bytes: b.Bytes()[at:][:bytes]} }
	qp := &pair{moved: movement{sent: 1, received: 1}}
	qp.send, qp.recv = part(0, send), part(send, recv)
	e := &Endpoint{qps: []*pair{qp}, plan: source, spec: source.Spec, work: workloadOf(source)}
	e.Arm(0, 7)
	e.plan, e.work = destination, workloadOf(destination)
	e.Arm(0, 7)
	return e.work.(*layouts), e
}

func TestCheckFindsDamage(t *testing.T) {
	w, e := checkedMemory(t)
	sent, recv := e.qps[0].send.bytes, e.qps[0].recv.bytes
	check := func() (uint64, error) { return e.Check(0, 7, 0) }
	if _, err := check(); !errors.Is(err, control.ErrCorrupt) {
		t.Errorf("nothing arrived, and the check said %v", err)
	}
	for it := w.Layout.Iterate(); ; {
		b, ok := it.Next()
		if !ok {
			break
		}
		copy(recv[b.Offset:b.End()], sent[b.Offset:b.End()])
	}
	if whole, err := check(); err != nil || whole != 1 {
		t.Errorf("whole message: %d, %v", whole, err)
	}
	recv[50]++
	if _, err := check(); !errors.Is(err, control.ErrCorrupt) {
		t.Errorf("damaged block: got %v, want a corrupt message", err)
	}
	recv[50]--
	recv[20]++
	if _, err := check(); !errors.Is(err, control.ErrCorrupt) ||
		!strings.Contains(err.Error(), "at offset 20 of place 0, outside the blocks") {
		t.Errorf("written gap: got %v, want offset 20", err)
	}
}

// A receive completed over UD and its memory is untouched: that is not right, though messages may be lost.
func TestNothingArrived(t *testing.T) {
	_, e := checkedMemory(t)
	e.spec.Transport = verbs.UD
	if whole, err := e.Check(0, 7, 0); !errors.Is(err, control.ErrCorrupt) {
		t.Errorf("a receive completed, nothing was written: %d whole, %v (addressed %v)", whole, err, e.plan.Row.Addressed())
	}
}

// TestSegmentsArePackedAsTheLayout: segments of a layout are whole blocks, or records, and the kernel that packs the
// layout packs them.
func TestSegmentsArePackedAsTheLayout(t *testing.T) {
	for text, unit := range map[string]int64{
		"vector:block=24,num=4000,stride=64": 24, "vector:block=96,num=1000,stride=192": 96,
		"struct:0+4,8+8,24+100,extent=200,num=900": 112, "subarray:dims=64x256x8,face=x,width=3": 24,
		"vector:block=20000,num=5,stride=20100": 20000, // longer than a segment
	} {
		w := workloadOf(segmented(t, text)).(*layouts)
		size, extent := w.Layout.Size(), w.Layout.Extent()
		b, err := verbs.Alloc(int(extent+2*size), verbs.MemoryOptions{})
		if err != nil {
			t.Fatal(err)
		}
		kernels := pattern.NewKernels(pattern.KernelOptions{Footprint: extent, PackedFootprint: size})
		strided, packed, other := b.Bytes()[:extent], b.Bytes()[extent:][:size], b.Bytes()[extent+size:]
		rand.NewChaCha8([32]byte{}).Read(strided) //nolint:errcheck // never fails
		whole, err := kernels.Pack(w.Layout, strided, other)
		if err != nil {
			t.Fatal(err)
		}
		portions := w.portions(&w.Transfer)[0]
		if len(portions) != w.Load.WRs || len(portions) < 3 {
			t.Errorf("%s: %d segments, planned %d", text, len(portions), w.Load.WRs)
		}
		for _, p := range portions {
			work, err := kernels.Pack(p.layout, strided, packed[p.packed:])
			if err != nil {
				t.Fatal(err)
			}
			if work.Go(work.Arg); reflect.ValueOf(work.Go).Pointer() != reflect.ValueOf(whole.Go).Pointer() {
				t.Errorf("%s: the segment at %d has another kernel", text, p.packed)
			}
			if p.layout.Size()%unit != 0 || p.other != int64(p.packed) {
				t.Errorf("%s: a segment of %d bytes at %d, %d", text, p.layout.Size(), p.packed, p.other)
			}
		}
		var want []byte
		for it := w.Layout.Iterate(); ; {
			b, ok := it.Next()
			if !ok {
				break
			}
			want = append(want, strided[b.Offset:b.End()]...)
		}
		if !bytes.Equal(packed, want) {
			t.Errorf("%s: packed wrongly", text)
		}
		if err := errors.Join(kernels.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	}
}

// segmented is a plan of a layout that is packed by segments.
func segmented(t *testing.T, layout string) *plan.Settled {
	t.Helper()
	s, err := plan.Settle(plan.Spec{Transport: verbs.RC, Duration: 1e9, Noncontig: &plan.Noncontig{
		Shape: "gather", Strategy: "pack-pipelined", Layout: layout, Window: 1, Segment: 16 << 10,
	}}, plan.Limits{
		Device: verbs.DeviceInfo{Name: "roce0", Limits: verbs.Limits{MaxSGE: 32, MaxQPWR: 1024}}, Dialled: true,
	}, plan.Peer{}, plan.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

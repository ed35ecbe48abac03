package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

func TestNoncontigRefusals(t *testing.T) {
	lim := verbs.Limits{MaxSGE: 4, MaxSGERead: 2, MaxQPWR: 100, MaxMessageBytes: 1 << 20}
	for _, c := range []struct {
		name      string
		transport verbs.Transport
		n         Noncontig
		want      bool // refused
	}{
		{
			"fits", verbs.RC,
			Noncontig{Shape: "gather", Strategy: "gather-write", Layout: "vector:block=8,num=40,stride=16", Window: 10},
			false,
		},
		{
			"queue", verbs.RC,
			Noncontig{Shape: "gather", Strategy: "multi-wr", Layout: "vector:block=8,num=40,stride=16", Window: 10},
			true,
		},
		{"message", verbs.RC, Noncontig{Shape: "gather", Strategy: "pack", Layout: "vector:block=4M,num=1", Window: 1}, true},
		{
			"read over UC", verbs.UC,
			Noncontig{Shape: "scatter", Strategy: "scatter-read", Layout: "vector:block=8,num=2,stride=16", Window: 1},
			true,
		},
		{
			"chain over UC", verbs.UC,
			Noncontig{Shape: "both", Strategy: "gather-send", Layout: "vector:block=8,num=5,stride=16", Window: 1},
			true,
		},
		{
			"UD beyond the MTU", verbs.UD,
			Noncontig{Shape: "both", Strategy: "pack-send-unpack", Layout: "vector:block=1K,num=5,stride=2K", Window: 1},
			true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			settled := &Settled{
				Spec: Spec{Transport: c.transport, Noncontig: &c.n}, limits: Limits{Device: verbs.DeviceInfo{Limits: lim}},
			}
			if wrong := new(Faults); true {
				if settled.choosePoint(wrong); len(*wrong) > 0 {
					t.Fatal(*wrong)
				}
			}
			if got := refusals(&settled.Spec, settled.Point, lim, 4096); (len(got) > 0) != c.want {
				t.Errorf("got %v, want refused %v", got, c.want)
			}
		})
	}
}

func TestNoncontigLoads(t *testing.T) {
	l, err := pattern.Vector(64, 70, 128)
	if err != nil {
		t.Fatal(err)
	}
	limits := Limits{Device: verbs.DeviceInfo{Limits: verbs.Limits{MaxSGE: 32, MaxSGERead: 16}}}
	for _, c := range []struct {
		shape, strategy           string
		listBytes                 int
		wrs, sges, recvWRs, recvs int
	}{
		{"gather", "gather-write", 0, 3, 70, 0, 0},
		{"gather", "gather-write", 1024, 5, 70, 0, 0},
		{"gather", "gather-write", 32, 3, 70, 0, 0}, // shorter than a block
		{"gather", "pack", 1024, 1, 1, 0, 0},
		{"gather", "pack-pipelined", 0, 4, 4, 0, 0}, // 23 whole blocks each
		{"gather", "multi-wr", 1024, 70, 70, 0, 0},
		{"scatter", "scatter-read", 0, 5, 70, 0, 0},
		{"both", "gather-send", 1024, 3, 70, 3, 70}, // the peer cuts its receives alike
		{"both", "pack-send-unpack", 0, 1, 1, 1, 1},
	} {
		wrong, s := new(Faults), Settled{limits: limits, Spec: Spec{Noncontig: &Noncontig{
			Shape: c.shape, Strategy: c.strategy, Layout: l.String(), Window: 1, Segment: 1500, ListBytes: c.listBytes,
		}}}
		if !s.choosePoint(wrong) {
			t.Fatal(*wrong)
		}
		got := s.Point.Load
		if got.WRs != c.wrs || got.SGEs != c.sges || got.RecvWRs != c.recvWRs || got.RecvSGEs != c.recvs {
			t.Errorf("%s/%s: got %+v, want %d, %d, %d, %d", c.shape, c.strategy, got, c.wrs, c.sges, c.recvWRs, c.recvs)
		}
	}
}

// TestApart: any so many ring entries that follow each other, around the ring, have different slots.
func TestApart(t *testing.T) {
	for n := 1; n < 60; n++ {
		for differ := 1; differ <= n; differ++ {
			slot, slots := Apart(n, differ)
			for i := range n {
				if at := slot(i); at < 0 || at >= slots {
					t.Fatalf("%d entries, %d apart: entry %d has slot %d of %d", n, differ, i, at, slots)
				}
				for k := 1; k < differ; k++ {
					if slot(i) == slot((i+k)%n) {
						t.Fatalf("%d entries, %d apart: %d and %d share slot %d", n, differ, i, (i+k)%n, slot(i))
					}
				}
			}
			if slots >= 2*differ+differ {
				t.Errorf("%d entries, %d apart: %d slots", n, differ, slots)
			}
		}
	}
}

// listOf is a list that the client writes.
func listOf(t *testing.T, text string) *pattern.Transfer {
	t.Helper()
	d, err := pattern.ReadDescriptors(strings.NewReader(text), pattern.DescriptorOptions{})
	if err != nil {
		t.Fatal(err)
	}
	transfer, err := d.Transfer(false)
	if err != nil {
		t.Fatal(err)
	}
	return &transfer
}

// TestPackedRequests: of a list that is packed so many requests are prepared as there are messages, and no more than
// of other roads.
func TestPackedRequests(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name    string
		pieces  []int // of a queue pair each
		segment int
		wrs     int // 0: refused
		refused string
	}{
		{"256 MiB", []int{256 * mib}, 64, 1 << 22, ""},
		{"more", []int{257 * mib}, 64, 0, "4210688 requests: at most 4194304 requests are prepared: use a larger --segment"},
		{"more, in larger segments", []int{257 * mib}, 128, 257 * mib / 128, ""},
		{"one queue pair has nearly all", []int{512 * mib, 100}, 64, 200, ""},
		{"as many on the smaller one", []int{190 * mib, 60 * mib}, 64, 0, "6225920 requests: at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var text strings.Builder
			at := 0
			for _, n := range c.pieces {
				fmt.Fprintf(&text, "%d,%d,%d\n", at, at, n)
				at += n
			}
			list := listOf(t, text.String())
			s, err := Settle(Spec{Transport: verbs.RC, QPs: len(c.pieces), Noncontig: &Noncontig{
				Shape: WritesList, Strategy: "pack", Window: 1, Segment: c.segment, Descriptors: Describe("x", 100, list, 0),
			}}, Limits{
				Device:  verbs.DeviceInfo{Name: "mlx5_0", Limits: verbs.Limits{MaxSGE: 30, MaxQPWR: 4096}},
				Dialled: true, List: list,
			}, Peer{}, Policy{})
			switch {
			case c.wrs == 0 && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("got %v, want %q", err, c.refused)
			case c.wrs > 0 && (err != nil || s.Point.Load.WRs != c.wrs || s.Point.Messages*len(c.pieces) != c.wrs):
				t.Errorf("got %v, want %d requests", err, c.wrs)
			}
		})
	}
}

// TestListPoints: what each road makes of a list, and that an end that does not
// know the list goes by what is said of it.
func TestListPoints(t *testing.T) {
	const rows, row = 3000, 576
	kv := listOf(t, fmt.Sprintf("0,0,%d,%d,%d,%[1]d\n", row, rows, 8*row))
	spread := listOf(t, fmt.Sprintf("0,0,%d,%d,%d,%d\n", row, rows, 8*row, 2*row))
	for _, c := range []struct {
		name, shape, strategy string
		list                  *pattern.Transfer
		qps                   int
		operation             Operation
		wrs, sges, recvs      int
		reversed              bool
	}{
		{"lists", WritesList, "lists", kv, 1, Write, 100, rows, 0, false},
		{"lists of a READ", ReadsList, "lists", kv, 2, Read, 200, rows, 0, false}, // 16 entries; 1500 pieces need 94
		{"a request a piece", WritesList, "multi-wr", kv, 4, Write, rows, rows, 0, false},
		{"nothing to merge", WritesList, "coalesce", kv, 1, Write, rows, rows, 0, false},
		{"lists need a range", WritesList, "lists", spread, 1, Write, rows, rows, 0, false},
		{"packed into place", WritesList, "pack", kv, 1, Write, 27, 27, 0, false},
		{"packed and unpacked", WritesList, "pack", spread, 1, Send, 27, 27, 27, false},
		{"read and unpacked", ReadsList, "pack", kv, 1, Read, 27, 27, 0, false},
		{"packed by the server", ReadsList, "pack", spread, 1, Send, 27, 27, 27, true},
		{"bound", WritesList, "contiguous", kv, 3, Write, 3, 3, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			lim := verbs.Limits{MaxSGE: 30, MaxSGERead: 16, MaxQPWR: 4096, MaxMessageBytes: 1 << 30}
			spec := Spec{Transport: verbs.RC, QPs: c.qps, Noncontig: &Noncontig{
				Shape: c.shape, Strategy: c.strategy, Window: 1, Segment: 64 << 10, Descriptors: Describe("x", 100, c.list, 0),
			}}
			known := Limits{Device: verbs.DeviceInfo{Name: "mlx5_0", Limits: lim}, Dialled: true, List: c.list}
			s, err := Settle(spec, known, Peer{}, Policy{})
			if err != nil {
				t.Fatal(err)
			}
			p := s.Point
			if c.shape == ReadsList && c.strategy == "lists" {
				c.wrs = 188
			}
			if p.Strategy.Operation != c.operation || p.Load.WRs != c.wrs || p.Load.SGEs != c.sges ||
				p.Load.RecvWRs != c.recvs || p.Strategy.Reversed != c.reversed {
				t.Errorf("%s: %+v", p.Strategy.Operation, p.Load)
			}
			if q := s.Queues; q.SendWRs > listDepth+listMessages {
				t.Errorf("%d requests at once, want at most %d", q.SendWRs, listDepth)
			}
			unknown := known
			unknown.List, unknown.Dialled = nil, false
			server, err := Settle(s.Proposal(), unknown, Peer{}, Policy{})
			if err != nil {
				t.Fatal(err)
			}
			if a, b := server.Memory, s.Memory; a.Buffers > b.Buffers || b.Buffers > a.Buffers+32<<20 {
				t.Errorf("without the list %v, with it %v", a, b)
			}
			other := *c.list
			other.Remote = other.Local
			unknown.List = &other
			if _, err := Settle(s.Proposal(), unknown, Peer{}, Policy{}); err == nil ||
				!strings.Contains(err.Error(), "not the one that the plan names") {
				t.Errorf("another list: %v", err)
			}
		})
	}
}

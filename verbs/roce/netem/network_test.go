package netem

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Options
		text string
		err  string // part of it
	}{
		{"", Options{}, "", ""},
		{
			"loss=1%,dup=0.1%,reorder=1%,delay=5us,seed=7",
			Options{Loss: 0.01, Duplicate: 0.001, Reorder: 0.01, Delay: 5 * time.Microsecond, Seed: 7},
			"loss=1%,dup=0.1%,reorder=1%,delay=5µs,seed=7", "",
		},
		{"loss=0.25", Options{Loss: 0.25}, "loss=25%", ""},
		{"loss=100%", Options{Loss: 1}, "loss=100%", ""},
		{"loss=0.5%, burst=8", Options{Loss: 0.005, Burst: 8}, "loss=0.5%,burst=8", ""},
		{
			"delay=100ms,rate=10G,queue=256KiB",
			Options{Delay: 100 * time.Millisecond, Rate: 1e10, Queue: 256 << 10},
			"delay=100ms,rate=10G,queue=256K", "",
		},
		{
			"delay=1s,seed=18446744073709551615",
			Options{Delay: time.Second, Seed: 1<<64 - 1},
			"delay=1s,seed=18446744073709551615", "",
		},
		{"rate=10GB", Options{}, "", "10G (bits per second)"},
		{"rate=2.5g", Options{Rate: 2.5e9}, "rate=2.5G", ""},
		{"loss=1", Options{}, "", "write 1% or 0.01"},
		{"dup=5", Options{}, "", "write 5% or 0.01"},
		{"loss=101%", Options{}, "", "0 to 100%"},
		{"loss=x", Options{}, "", "want 0 to 100%"},
		{"loss=NaN", Options{}, "", "0 to 100%"},
		{"jitter=1", Options{}, "", "want loss, burst"},
		{"delay=-1s", Options{}, "", "delay -1s"},
		{"delay=5", Options{}, "", "want 0 to 10s"},
		{"rate=10", Options{}, "", "want 1K to 10T"},
		{"rate=fast", Options{}, "", "10G (bits per second)"},
		{"rate=-1G", Options{}, "", "10G (bits per second)"},
		{"queue=64K", Options{}, "", "without a rate"},
		{"rate=1G,queue=9999999999999999999T", Options{}, "", "at most 1G bytes"},
		{"burst=4", Options{}, "", "Give loss too"},
		{"loss=1,rate=x,what", Options{}, "", "want loss, burst"}, // all of them
	} {
		t.Run(tt.in, func(t *testing.T) {
			got, err := Parse(tt.in)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got.String() != tt.text {
				t.Errorf("prints %q, want %q", got.String(), tt.text)
			}
			if again, err := Parse(got.String()); err != nil || again != got {
				t.Errorf("does not read back: %+v, %v", again, err)
			}
		})
	}
}

// second is the clock of these tests: a tick is a nanosecond.
const second = 1e9

// run sends n packets, one every gap ticks, and returns which arrived and when.
func run(t *testing.T, o Options, n, bytes int, gap Time) (order []int, at []Time) {
	t.Helper()
	var now Time
	net := New(o, second, func(p Packet[int]) {
		if len(p.Bytes) != bytes || bytes > 0 && p.Bytes[0] != byte(p.From) {
			t.Fatalf("packet %d arrives as %d bytes starting with %v", p.From, len(p.Bytes), p.Bytes[:1])
		}
		order, at = append(order, p.From), append(at, now)
	})
	b := make([]byte, bytes) // one for all: what is held must be copied
	for i := range n {
		for next := net.Next(); next <= Time(i)*gap; next = net.Next() {
			now = max(now, next)
			net.Release(now)
		}
		now = Time(i) * gap
		for k := range b {
			b[k] = byte(i)
		}
		net.Admit(Packet[int]{From: i, Bytes: b}, now)
	}
	for next := net.Next(); next != Never; next = net.Next() {
		now = max(now, next)
		net.Release(now)
	}
	return order, at
}

func TestFates(t *testing.T) {
	const n = 200_000
	for _, tt := range []struct {
		in           string
		lost, copies float64 // of n
		overtaken    float64
	}{
		{"loss=1%,seed=1", 0.01, 0, 0},
		{"loss=5%,burst=10,seed=2", 0.05, 0, 0},
		{"dup=2%,seed=3", 0, 0.02, 0},
		{"reorder=3%,seed=4", 0, 0, 0.03},
		{"loss=1%,dup=1%,reorder=1%,delay=1ms,seed=5", 0.01, 0.01, 0.01},
	} {
		t.Run(tt.in, func(t *testing.T) {
			o, err := Parse(tt.in)
			if err != nil {
				t.Fatal(err)
			}
			order, _ := run(t, o, n, 4, 1000)
			again, _ := run(t, o, n, 4, 1000)
			if fmt.Sprint(order) != fmt.Sprint(again) {
				t.Error("the same seed gives another fate")
			}
			seen := make([]int, n)
			overtaken, highest, runs := 0, -1, 0
			for _, i := range order {
				seen[i]++
				if i < highest && seen[i] == 1 {
					overtaken++
				}
				highest = max(highest, i)
			}
			lost, copies := 0, 0
			for i, k := range seen {
				if k == 0 {
					lost++
					if i > 0 && seen[i-1] != 0 {
						runs++
					}
				}
				copies += max(k-1, 0)
			}
			near := func(what string, got int, want float64) {
				t.Helper()
				if math.Abs(float64(got)-want*n) > 0.15*want*n {
					t.Errorf("%d packets %s, want %v", got, what, want*n)
				}
			}
			near("lost", lost, tt.lost)
			near("twice", copies, tt.copies)
			near("overtaken", overtaken, tt.overtaken)
			if o.Burst > 1 {
				if mean := float64(lost) / float64(runs); math.Abs(mean-o.Burst) > 0.1*o.Burst {
					t.Errorf("bursts of %.1f packets, want %v", mean, o.Burst)
				}
			}
		})
	}
}

func TestDelay(t *testing.T) {
	order, at := run(t, Options{Delay: 100 * time.Millisecond}, 1000, 100, 5000)
	if len(order) != 1000 {
		t.Fatalf("%d packets arrive, want all", len(order))
	}
	for i, k := range order {
		if k != i || at[i] != Time(i)*5000+100_000_000 {
			t.Fatalf("arrival %d is packet %d at %d", i, k, at[i])
		}
	}
}

// TestRate offers twice what the link carries: half is dropped, after the queue has filled.
func TestRate(t *testing.T) {
	o := Options{Rate: 1e9, Queue: 100_000} // 8 µs for 1000 bytes
	order, at := run(t, o, 10_000, 1000, 4000)
	span := at[len(at)-1] - at[0]
	if rate := float64(len(order)-1) * 8000 / (float64(span) / second); math.Abs(rate-o.Rate) > 0.01*o.Rate {
		t.Errorf("%.3g bit/s, want %.3g", rate, o.Rate)
	}
	if len(order) < 5050 || len(order) > 5200 {
		t.Errorf("%d of 10000 packets arrive, want half and a queue", len(order))
	}
	if order[99] != 99 {
		t.Errorf("packet 99 does not fit the queue")
	}
}

// TestBounds holds more than there is room for.
func TestBounds(t *testing.T) {
	arrived := 0
	net := New(Options{Delay: time.Second}, second, func(Packet[struct{}]) { arrived++ })
	b := make([]byte, 1<<20)
	for range 100 {
		net.Admit(Packet[struct{}]{Bytes: b}, 0)
	}
	if net.Dropped != 36 {
		t.Errorf("%d dropped, want 36", net.Dropped)
	}
	net.Release(second)
	if arrived != 64 || net.Next() != Never || net.heldBytes != 0 {
		t.Errorf("%d arrived, %d bytes are held", arrived, net.heldBytes)
	}
}

// TestSteadyState passes packets without allocating.
func TestSteadyState(t *testing.T) {
	net := New(Options{Delay: 100, Loss: 0.1, Duplicate: 0.1, Reorder: 0.1, Rate: 1e12}, second, func(Packet[int]) {})
	b := make([]byte, 4096)
	var now Time
	step := func() {
		for range 100 {
			now += 50
			net.Admit(Packet[int]{Bytes: b}, now)
			net.Release(now)
		}
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("a hundred packets allocate %v times", n)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("loss=1%,burst=4,dup=0.1%,reorder=1%,delay=5ms,rate=10G,queue=1M,seed=7")
	f.Add("rate=10G,queue=0.1M") // no whole number of bytes
	testrun.Fuzz(f, func(t *testing.T, s string) {
		o, err := Parse(s)
		if err != nil || o.IsGood() {
			return
		}
		again, err := Parse(o.String())
		if err != nil {
			t.Errorf("%q prints as %q: %v", s, o, err)
		} else if again.String() != o.String() {
			t.Errorf("%q prints as %q and reads back as %q", s, o, again)
		}
	})
}

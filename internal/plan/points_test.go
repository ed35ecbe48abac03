package plan

import (
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
		{"fits", verbs.RC, Noncontig{Shape: "gather", Strategy: "gather-write", Layout: "vector:block=8,num=40,stride=16", Window: 10}, false},
		{"queue", verbs.RC, Noncontig{Shape: "gather", Strategy: "multi-wr", Layout: "vector:block=8,num=40,stride=16", Window: 10}, true},
		{"message", verbs.RC, Noncontig{Shape: "gather", Strategy: "pack", Layout: "vector:block=4M,num=1", Window: 1}, true},
		{"read over UC", verbs.UC, Noncontig{Shape: "scatter", Strategy: "scatter-read", Layout: "vector:block=8,num=2,stride=16", Window: 1}, true},
		{"chain over UC", verbs.UC, Noncontig{Shape: "both", Strategy: "gather-send", Layout: "vector:block=8,num=5,stride=16", Window: 1}, true},
		{"UD beyond the MTU", verbs.UD, Noncontig{Shape: "both", Strategy: "pack-send-unpack", Layout: "vector:block=1K,num=5,stride=2K", Window: 1}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, l, err := parsePoint(&c.n)
			if err != nil {
				t.Fatal(err)
			}
			point := &Point{Strategy: s, Layout: l, Window: c.n.Window, Load: LoadOf(s, l, lim, &c.n)}
			if got := refusals(&Spec{Transport: c.transport, Noncontig: &c.n}, point, lim, 4096); (len(got) > 0) != c.want {
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
	lim := verbs.Limits{MaxSGE: 32, MaxSGERead: 16}
	for _, c := range []struct {
		shape, strategy           string
		listBytes                 int
		wrs, sges, recvWRs, recvs int
	}{
		{"gather", "gather-write", 0, 3, 70, 0, 0},
		{"gather", "gather-write", 1024, 5, 70, 0, 0},
		{"gather", "gather-write", 32, 3, 70, 0, 0}, // shorter than a block
		{"gather", "pack", 1024, 1, 1, 0, 0},
		{"gather", "pack-pipelined", 0, 5, 5, 0, 0},
		{"gather", "multi-wr", 1024, 70, 70, 0, 0},
		{"scatter", "scatter-read", 0, 5, 70, 0, 0},
		{"both", "gather-send", 1024, 3, 70, 3, 70}, // the peer cuts its receives alike
		{"both", "pack-send-unpack", 0, 1, 1, 1, 1},
	} {
		s, err := StrategyNamed(c.shape, c.strategy)
		if err != nil {
			t.Fatal(err)
		}
		got := LoadOf(s, l, lim, &Noncontig{Segment: 1024, ListBytes: c.listBytes})
		if got.WRs != c.wrs || got.SGEs != c.sges || got.RecvWRs != c.recvWRs || got.RecvSGEs != c.recvs {
			t.Errorf("%s/%s: got %+v, want %d, %d, %d, %d", c.shape, c.strategy, got, c.wrs, c.sges, c.recvWRs, c.recvs)
		}
	}
}

package noncontig

import (
	"strings"
	"testing"

	"github.com/gobw/gobw/report/stats"
)

// TestRoadsWithoutAFastest: where no road is the fastest of all, each comparison says which road beats which.
func TestRoadsWithoutAFastest(t *testing.T) {
	series := []Cell{{Layout: "kv.csv"}}
	for word, roads := range map[stats.Word][2]string{
		stats.Better: {"lists", "multi-wr"}, stats.Worse: {"coalesce", "pack"}, stats.CannotTell: {"lists", "pack"},
	} {
		j := Judgement{Strategy: roads[0], Against: roads[1]}
		j.Word = word
		series[0].judged = append(series[0].judged, &j)
	}
	said := strings.Join((&Grid{}).listInWords(series, nil), "\n")
	for _, want := range []string{"lists beats multi-wr", "pack beats coalesce", "lists and pack: cannot tell"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q lacks %q", said, want)
		}
	}
}

// TestMostInWords: a factor is neither 1 nor has an exponent.
func TestMostInWords(t *testing.T) {
	for speedup, want := range map[float64]string{
		1.024: "by 1.02×", 1 / 1.06: "by 1.06×", 1.1: "by 1.1×", 2: "by 2×", 22.4: "by 22×", 1. / 248: "by 248×",
		1.004: "by less than 0.5 %", 1 / 1.001: "by less than 0.5 %",
	} {
		if got := mostInWords([]Cell{{Question: &Judgement{Speedup: speedup}}}); got != want {
			t.Errorf("a ratio of %v: %q, want %q", speedup, got, want)
		}
	}
	for speedup, want := range map[float64]string{1.004: "at most 1.005×", 1.016: "1.02×", 12.34: "12×", 1024: "1024×"} {
		if got := times(speedup); got != want {
			t.Errorf("a factor of %v: %q, want %q", speedup, got, want)
		}
	}
}

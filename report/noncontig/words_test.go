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

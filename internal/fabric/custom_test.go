package fabric

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
)

func TestCustom(t *testing.T) {
	all := []int{0, 1, 2, 3}
	one := []int{0, -1, 1, 2} // n2 has not come
	names := func(ranks []int) map[string]int {
		return map[string]int{"n1": ranks[0], "n2": ranks[1], "n3": ranks[2], "n4": ranks[3]}
	}
	for _, tt := range []struct {
		name, text, want string
		ranks            []int
	}{
		{"ClusterKit", "0 n1 n2\n0 n3 n4 # the other two\n\n1 n1 n4\n", "[{0 1} {1 0} {2 3} {3 2}] [{0 3} {3 0}]", all},
		{"ClusterKit, ranks", "7 0 1\n3 2 3\n", "[{0 1} {1 0}] [{2 3} {3 2}]", all},
		{"SuperBench", "0,1;2,3\n0,3;1,2\n", "[{0 1} {1 0} {2 3} {3 2}] [{0 3} {3 0} {1 2} {2 1}]", all},
		{"SuperBench, names", "n1,n2;\n", "[{0 1} {1 0}]", all},
		{"a host is absent", "0 n1 n2\n0 n3 n4\n1 n1 n4\n2 n2 n4\n", "[{1 2} {2 1}] [{0 2} {2 0}]", one},
		{"a host is absent, ranks", "0,1;2,3\n0,3;1,2\n", "[{1 2} {2 1}] [{0 2} {2 0}]", one},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rounds, err := ReadCustom(strings.NewReader(tt.text), tt.ranks, names(tt.ranks))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range rounds {
				got = append(got, fmt.Sprint(r.Flows))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %v, want %s", got, tt.want)
			}
		})
	}
	for text, want := range map[string]string{
		"":                  "no round",
		"# nothing\n":       "no round",
		"0 n1\n":            "line 1: want",
		"x n1 n2\n":         `round "x"`,
		"0 n1 n9\n":         `host "n9" is not one of this run`,
		"0 n1 n1\n":         "paired with itself",
		"0 0 4\n":           "ranks 0 to 3",
		"0,1\n0 n1 n2\n":    "line 2: want",
		"0,1;2\n":           "comma between",
		"0,-1\n":            "rank -1",
		"0 n1 n2\n1 n1,n2 ": "line 2",
	} {
		if _, err := ReadCustom(strings.NewReader(text), all, names(all)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
}

func FuzzCustom(f *testing.F) {
	f.Add("0 n1 n2\n1 n1 n3")
	f.Add("0,1;2,0\n")
	testrun.Fuzz(f, func(t *testing.T, text string) {
		rounds, err := ReadCustom(strings.NewReader(text), []int{0, 1, 2, -1}, map[string]int{"n1": 0, "n2": 1, "n3": 2, "n4": -1})
		if err != nil {
			return
		}
		for _, r := range rounds {
			for _, fl := range r.Flows {
				if fl.From == fl.To || min(fl.From, fl.To) < 0 || max(fl.From, fl.To) > 2 {
					t.Errorf("flow %v", fl)
				}
			}
		}
	})
}

package fabric

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
)

func TestLeafOfAddress(t *testing.T) {
	for in, want := range map[string]string{"spine.leaf2.node5": "spine.leaf2", "node1": "", "": "", "leaf1.n": "leaf1"} {
		if got := leafOfAddress(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestReadTopology(t *testing.T) {
	conf := "# two tiers\nSwitchName=leaf1 Nodes=node[1-2]\nSwitchName=leaf2 Nodes=node3 LinkSpeed=900\nSwitchName=spine Switches=leaf[1-2]\n"
	for _, text := range []string{conf, "node1 leaf1\nnode2\tleaf1\nnode3 leaf2 # last\n"} {
		got, err := ReadTopology(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if want := "map[node1:leaf1 node2:leaf1 node3:leaf2]"; fmt.Sprint(got) != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}
	for text, want := range map[string]string{
		"":                                 "no host",
		"a b c":                            "line 1: 3 words",
		"Nodes=a":                          "no SwitchName",
		"SwitchName=l Nodes=n[1":           "without ]",
		"n1 a\nn1 b\n":                     "line 2: host n1 hangs on a and on b",
		"SwitchName=spine Switches=l[1-2]": "no host",
	} {
		if _, err := ReadTopology(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func TestNumberLeaves(t *testing.T) {
	for _, tt := range []struct {
		leaf []string
		want string
	}{
		{[]string{"b", "a", "b"}, "[0 1 0] [b a]"},
		{[]string{"", "", ""}, "[0 0 0] []"},
		{[]string{"a", "", ""}, "[0 1 2] [a  ]"},
	} {
		numbers, names := numberLeaves(tt.leaf)
		if got := fmt.Sprint(numbers, " ", names); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.leaf, got, tt.want)
		}
	}
}

func FuzzReadTopology(f *testing.F) {
	f.Add("SwitchName=leaf1 Nodes=node[1-2]\nSwitchName=spine Switches=leaf[1-2]")
	f.Add("n l\n")
	f.Fuzz(func(t *testing.T, text string) {
		testrun.Within(t, 200*time.Millisecond, 16<<20, func() { _, _ = ReadTopology(strings.NewReader(text)) })
	})
}

package launch

import (
	"fmt"
	"testing"
)

func TestLeafOfATopologyAddress(t *testing.T) {
	for in, want := range map[string]string{"spine.leaf2.node5": "spine.leaf2", "node1": "", "": "", "leaf1.n": "leaf1"} {
		if got := before(in, "."); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
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
		numbers, names := NumberLeaves(tt.leaf)
		if got := fmt.Sprint(numbers, " ", names); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.leaf, got, tt.want)
		}
	}
}

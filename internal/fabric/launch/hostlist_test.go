package launch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report/matrix"
)

// TestExpand holds scontrol's own answers (Slurm 22.05).
func TestExpandHosts(t *testing.T) {
	for list, want := range map[string]string{
		"":                 "",
		"node1":            "node1",
		"node[1-4]":        "node1 node2 node3 node4",
		"r[1-2]n[01-03,7]": "r1n01 r1n02 r1n03 r1n7 r2n01 r2n02 r2n03 r2n7",
		"r1-c[1-2]-n[0-1]": "r1-c1-n0 r1-c1-n1 r1-c2-n0 r1-c2-n1",
		"n[1,01,001]":      "n1 n01 n001",
		"n[08-10]":         "n08 n09 n10",
		"n[8-10]":          "n8 n9 n10",
		"x,x,y":            "x x y",
		"node1-ib,node2":   "node1-ib node2",
		"a1b[01-02],a2b01": "a1b01 a1b02 a2b01",
		"10.0.0.[1-2]":     "10.0.0.1 10.0.0.2",
		"n[10,2,1]":        "n10 n2 n1",
		"node[1,3-4]":      "node1 node3 node4",
		" a , b ":          "a b",
	} {
		got, err := ExpandHosts(list)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: %v, %v; want %s", list, got, err, want)
		}
	}
	for list, want := range map[string]string{
		"n[1-":            `host list "n[1-": "]" is missing`,
		"n1]":             `"[" is missing`,
		"][0]":            `"[" is missing`,
		"n[0]]":           `"[" is missing`,
		"n[3-1]":          "backwards",
		"n[a-b]":          "not a number",
		"n[]":             "not a number",
		"n[1-2-3]":        "not a number",
		"n[0-9999999999]": "more than",
		"n[0-99999][0-9]": "more than",
		"n[-1]":           "not a number",
	} {
		if got, err := ExpandHosts(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", list, len(got), err, want)
		}
	}
}

// FuzzExpandHosts expands any list, and what reports write of its hosts, to be pasted into commands: the same hosts.
func FuzzExpandHosts(f *testing.F) {
	for _, s := range []string{"r[1-2]n[01-03,7]", "n[08-10],x", "a[", "[1]", "n[0-9][0-9]", "][0]"} {
		f.Add(s)
	}
	testrun.Fuzz(f, func(t *testing.T, list string) {
		testrun.Within(t, 200*time.Millisecond, 16<<20, func() { _, _ = ExpandHosts(list) })
		hosts, err := ExpandHosts(list)
		if err != nil {
			return
		}
		hosts = slices.DeleteFunc(hosts, func(h string) bool { return !matrix.Pasteable(h) })
		again, err := ExpandHosts(strings.Join(hosts, ","))
		if err != nil || !slices.Equal(again, hosts) {
			t.Errorf("%q: %q, then %q, %v", list, hosts, again, err)
		}
	})
}

func TestRankOf(t *testing.T) {
	for host, want := range map[string]int{
		"node2": 1, "node2.lab": 1, "node3": 2, "node3.lab": 2, "node3.elsewhere": -1, "node": -1, "node20": -1,
	} {
		if got := RankOf([]string{"node1", "node2", "node3.lab"}, host); got != want {
			t.Errorf("%s: %d, want %d", host, got, want)
		}
	}
	if got := RankOf([]string{"10.0.0.1", "node3"}, "node2", "10.0.0.2", "10.0.0.1"); got != 0 {
		t.Errorf("a host in the list by one of its addresses: %d", got)
	}
}

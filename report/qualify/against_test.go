package qualify

import (
	"strings"
	"testing"
)

func TestPlanAgainst(t *testing.T) {
	const tests = "tests: [{name: a, run: gobw write, against: none}, {name: b, run: gobw read}]\n"
	p, err := parsePlan("dir/p.yaml", []byte("against: {program: old/gobw, flags: '-d mlx5_1', pairs: 11, within: 3%}\n"+tests), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a := p.Against; a.Program != "dir/old/gobw" || a.String() != "dir/old/gobw -d mlx5_1" || a.Pairs != 11 || a.Within != 0.03 {
		t.Errorf("%+v", a)
	}
	if beside, err := parsePlan("p.yaml", []byte("against: {program: ./gobw}\n"+tests), Options{}); err != nil || beside.Against.Program != "./gobw" {
		t.Errorf("%+v, %v: want the plan's directory, not the path", beside, err)
	}
	if !p.Tests[0].Alone || p.Tests[1].Alone {
		t.Errorf("alone: %v, %v; want only the first", p.Tests[0].Alone, p.Tests[1].Alone)
	}
	for text, want := range map[string]string{
		"against: {pairs: 5}\n" + tests:                                                   "wants the other side",
		"against: {flags: -b, pairs: 0}\n" + tests:                                        "want 1 to 1001",
		"against: {flags: -b, pairs: many}\n" + tests:                                     "want 1 to 1001",
		"against: {flags: -b, within: 5}\n" + tests:                                       "less than 100%",
		"against: {flags: -b, within: NaN%}\n" + tests:                                    "less than 100%",
		"against: {flags: '\"-b'}\n" + tests:                                              "does not end",
		"against: old\n" + tests:                                                          "against",
		"against:\n" + tests:                                                              "empty",
		"against: {binary: x}\n" + tests:                                                  "no key \"binary\"",
		"against: {flags: -b}\ntests: [{name: a, run: gobw write, against: yesterday}]\n": "of a test there is none",
	} {
		if _, err := parsePlan("p.yaml", []byte(text), Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

package perftest

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/perftestcli"
)

func TestFrequencyConflict(t *testing.T) {
	for cpuinfo, want := range map[string]string{
		"":                                       "",
		"cpu MHz\t\t: 2000.000\n":                "",
		"cpu MHz : 2000.0\ncpu MHz : 2010.0\n":   "",
		"cpu MHz : 800.5\ncpu MHz : 3400.25\n":   "Conflicting CPU frequency values detected: 800.500000 != 3400.250000. CPU Frequency is not max.",
		"cpu MHz : what\ncpu MHz : 2000\nx: 1\n": "",
	} {
		if got := frequencyConflict(cpuinfo); got != want {
			t.Errorf("%q: %q, want %q", cpuinfo, got, want)
		}
	}
	file := t.TempDir() + "/cpuinfo"
	if err := os.WriteFile(file, []byte("cpu MHz : 800\ncpu MHz : 3400\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"ib_write_bw", "ib_write_bw -F"} {
		words := strings.Fields(line)
		tool, _ := perftestcli.ToolNamed(words[0])
		v, err := perftestcli.Parse(tool, words[1:])
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		r := testRun{v: v, out: output.Streams{Err: &errs}}
		r.warnOfFrequency(file)
		if got := strings.HasPrefix(errs.String(), "Conflicting"); got == v.AnyFrequency {
			t.Errorf("%s: stderr has %q", line, errs.String())
		}
	}
}

package gate

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/stats"
)

// Repeated --accept adds up.
func TestAcceptAddsUp(t *testing.T) {
	for _, args := range [][]string{{"--accept", "disturbed", "--accept", "unclear"}, {"--accept", "disturbed,unclear"}} {
		var f Flags
		var wrong cmdline.Faults
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		f.Bind(fs, "quiet")
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		if c := f.Config(&wrong, expect.Options{}, nil); len(wrong) > 0 || !c.Accept.Has(stats.Disturbed) ||
			!c.Accept.Has(stats.Unclear) {
			t.Errorf("%v: %v, %v", args, c.Accept, wrong)
		}
	}
	_, err := stats.ParseAccepted("foo")
	if err == nil || !strings.Contains(err.Error(), "or both: unclear,disturbed") {
		t.Errorf("got %v", err)
	}
}

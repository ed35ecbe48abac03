package operation

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/plan"
)

// TestEveryFlagIsTold holds that docs/flags.md says of each flag of each test what it does: those of the plan in the table
// that internal/bench writes from what it sees, the others in the second one.
func TestEveryFlagIsTold(t *testing.T) {
	b, err := os.ReadFile("../../../docs/flags.md")
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		flags := strings.Split(line, "|")[1]
		for word := range strings.FieldsFuncSeq(flags, func(c rune) bool { return strings.ContainsRune(" ,`()", c) }) {
			told[strings.TrimPrefix(word, "--")] = true
		}
	}
	for _, op := range plan.Operations() {
		for _, kind := range []plan.Kind{plan.Bandwidth, plan.Latency} {
			fs := pflag.NewFlagSet("", pflag.ContinueOnError)
			(&Flags{}).Bind(fs, op, kind)
			fs.VisitAll(func(f *pflag.Flag) {
				if !f.Hidden && !told[f.Name] {
					t.Errorf("%s %s: docs/flags.md does not say what --%s does", op, kind, f.Name)
				}
			})
		}
	}
}

package cli

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/plain"
)

// TestWrongCommands has each answer to a wrong command line name what to type next.
func TestWrongCommands(t *testing.T) {
	table, err := os.ReadFile("testdata/wrong.txt")
	if err != nil {
		t.Fatal(err)
	}
	for row := range strings.Lines(string(table)) {
		row = strings.TrimSpace(row)
		if row == "" || strings.HasPrefix(row, "#") {
			continue
		}
		line, want, ok := strings.Cut(row, " => ")
		words, err := plain.SplitWords(line)
		if !ok || err != nil {
			t.Fatalf("%q is no row: want COMMAND => TEXT (%v)", row, err)
		}
		var stdout, stderr bytes.Buffer
		code := run(context.Background(), words[0], words[1:], output.Streams{Out: &stdout, Err: &stderr})
		if code != exit.Usage && code != exit.Setup {
			t.Errorf("%s: exit status %d, want %d or %d", line, code, exit.Usage, exit.Setup)
		}
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: the answer does not name %q:\n%s", line, want, stderr.String())
		}
		if stdout.Len() > 0 {
			t.Errorf("%s: wrote to standard output:\n%s", line, stdout.String())
		}
	}
}

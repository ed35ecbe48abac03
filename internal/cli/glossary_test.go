package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/plain"
)

var update = flag.Bool("update", false, "write docs/glossary.md anew")

// TestGlossary: each word is explained, in any spelling and by both programs, each command line of the glossary is one,
// and docs/glossary.md is the glossary.
func TestGlossary(t *testing.T) {
	path, err := filepath.Abs("../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir()) // a command line may name a file
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	known := map[string]bool{}
	page := "# Glossary\n\nThe words of RDMA that gobw uses. `gobw help WORD` prints a row, " +
		"such as `gobw help GSSR`.\n\n" +
		"| word | meaning | to see it |\n|---|---|---|\n"
	for _, term := range cmdline.Glossary() {
		for _, name := range term.Names {
			if known[name] {
				t.Errorf("%s is explained twice", name)
			}
			known[name] = true
			for _, asked := range []string{name, strings.ToUpper(name), strings.ReplaceAll(name, "-", "_")} {
				var stdout, stderr bytes.Buffer
				words := append([]string{"help"}, strings.Fields(asked)...)
				code := run(ended, "golat", words, output.Streams{Out: &stdout, Err: &stderr})
				if code != exit.Passed || stdout.Len() == 0 {
					t.Errorf("help %s: exit code %d, %q, %q", asked, code, stdout.String(), stderr.String())
				}
			}
		}
		page += fmt.Sprintf("| %s | %s |%s |\n", strings.Join(term.Names, ", "), term.Text,
			plain.When(term.Type != "", " `%s`", term.Type))
		words, err := plain.SplitWords(strings.ReplaceAll(term.Type, "--loopback", "HOST"))
		if err != nil {
			t.Errorf("%s: %v", term.Type, err)
		}
		if len(words) == 0 || words[0] == "go" {
			continue
		}
		var stderr bytes.Buffer
		if run(ended, words[0], words[1:], output.Streams{Out: &bytes.Buffer{}, Err: &stderr}) == exit.Usage {
			t.Errorf("%s: %s", term.Type, stderr.String())
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil { //nolint:gosec // a page for everybody
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if diff := cmp.Diff(page, string(got)); err != nil || diff != "" {
		t.Errorf("docs/glossary.md is not the glossary (-update writes it): %v\n%s", err, diff)
	}
}

// TestExampleNames: who copies a command line of the documents is told what to put in place of its host.
func TestExampleNames(t *testing.T) {
	for line, want := range map[string]int{
		"write alpha -d roce0": exit.Setup, "send beta -d roce0": exit.Setup, "doctor HOST -d roce0": exit.Missed,
	} {
		words := strings.Fields(line)
		var out bytes.Buffer
		code := run(t.Context(), "gobw", words, output.Streams{Out: &out, Err: &out})
		said := strings.Join(strings.Fields(out.String()), " ")
		if code != want || !strings.Contains(said, " is a name of our examples") ||
			!strings.Contains(said, "type the name of your server, or --loopback") {
			t.Errorf("%v: exit code %d, %s", words, code, said)
		}
	}
}

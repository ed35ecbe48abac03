package cmdline

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// Term is a word of the field: what it means, and what to type to see it.
type Term struct {
	Names []string // the first is the one that the glossary is sorted by
	Text  string
	Type  string // a command line; empty: none shows it
}

//go:embed glossary.txt
var glossary string

// Glossary is what 'help TERM' and docs/glossary.md explain.
func Glossary() []Term {
	blocks := strings.Split(strings.TrimSpace(glossary), "\n\n")
	return plain.Each(blocks[1:], func(block string) Term { // the first is a comment
		lines := append(strings.Split(block, "\n"), "")
		return Term{strings.Split(lines[0], ", "), lines[1], lines[2]}
	})
}

// explain is the glossary's answer to words after 'help'; empty: it does not have them.
func explain(words []string) string {
	plainly := strings.NewReplacer("-", "", "_", "", " ", "", "/", "")
	asked := plainly.Replace(strings.Join(words, ""))
	for _, t := range Glossary() {
		if slices.ContainsFunc(t.Names, func(name string) bool { return strings.EqualFold(plainly.Replace(name), asked) }) {
			lines := plain.WrapWith(strings.Join(t.Names, ", ")+": "+t.Text, HelpWidth, "")
			return strings.Join(lines, "\n") + "\n" + plain.When(t.Type != "", "\n  %s\n", t.Type)
		}
	}
	return ""
}

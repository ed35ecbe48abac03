package plain

import (
	"strings"
)

// Wrap breaks text into lines of at most width runes, the later ones indented.
func Wrap(text string, width int) []string { return WrapWith(text, width, "    ") }

// WrapWith is Wrap with an indent of one's own.
func WrapWith(text string, width int, indent string) []string {
	var lines []string
	line := ""
	var words []string // a flag and its value are one
	for word := range strings.FieldsSeq(text) {
		if last := len(words) - 1; last >= 0 && strings.HasPrefix(words[last], "-") && words[last] != "-" && !strings.Contains(words[last], " ") {
			words[last] += " " + word
			continue
		}
		words = append(words, word)
	}
	for _, word := range words {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > width:
			lines = append(lines, line)
			line = indent + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

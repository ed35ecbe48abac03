package plain

import (
	"strings"
)

// Wrap breaks text into lines of at most width runes, the later ones indented.
func Wrap(text string, width int) []string { return WrapWith(text, width, "    ") }

// together tells whether two words stay on one line: a flag and its value, a figure and its %, a quoted command.
func together(before, word string) bool {
	flag := strings.HasPrefix(before, "-") && before != "-" && !strings.ContainsAny(before, " ;:,")
	return flag || strings.HasPrefix(word, "%") || strings.HasPrefix(before, "'") && strings.Count(before, "'") == 1
}

// WrapWith is Wrap with an indent of one's own.
func WrapWith(text string, width int, indent string) []string {
	var lines []string
	line := ""
	words := []string{}
	for word := range strings.FieldsSeq(text) {
		if last := len(words) - 1; last >= 0 && together(words[last], word) && len(words[last])+len(word) < width {
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

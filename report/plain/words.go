package plain

import (
	"errors"
	"fmt"
	"strings"
)

// Realtime is what to try where other programs had the measuring CPU.
const Realtime = "'chrt -r 1' before the command (needs root, or 'ulimit -r 1')"

// Plural is a number of things: 1 host, 2 hosts.
func Plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// SplitWords parts a command line into words as a shell does, with quotes and backslashes and nothing else.
func SplitWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	inside, quote, escaped := false, rune(0), false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, inside = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, inside = r, true
		case quote == 0 && (r == ' ' || r == '\t' || r == '\n'):
			if inside {
				words = append(words, word.String())
			}
			word.Reset()
			inside = false
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("the quotation does not end")
	}
	if inside {
		words = append(words, word.String())
	}
	return words, nil
}

// JoinWords makes a command line of words, as a shell and [SplitWords] take it.
func JoinWords(words []string) string {
	return strings.Join(Each(words, func(w string) string {
		if w == "" || strings.ContainsAny(w, " \t\n'\"\\$*?&|;<>()`#!") {
			return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		return w
	}), " ")
}

package plain

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
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

// A word of a command line is of plain characters, escaped ones and quotations.
var (
	commandWord = regexp.MustCompile(`(?s)([^ \t\n'"\\]|\\.|'[^']*'|"(\\.|[^"\\])*")+`)
	quotation   = regexp.MustCompile(`(?s)\\.|'[^']*'|"(\\.|[^"\\])*"`)
	escaped     = regexp.MustCompile(`(?s)\\(.)`)
)

// SplitWords parts a command line into words as a shell does, with quotes and backslashes and nothing else.
func SplitWords(line string) ([]string, error) {
	if strings.Trim(commandWord.ReplaceAllString(line, ""), " \t\n") != "" {
		return nil, errors.New("the quotation does not end")
	}
	unquote := func(q string) string {
		switch q[0] {
		case '\'':
			return q[1 : len(q)-1]
		case '"':
			q = q[1 : len(q)-1]
		}
		return escaped.ReplaceAllString(q, "$1")
	}
	return Each(commandWord.FindAllString(line, -1),
		func(w string) string { return quotation.ReplaceAllStringFunc(w, unquote) }), nil
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

// number is a number, or one that says what happened.
//
//nolint:gochecknoglobals // compiled once, where it is used
var number = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(status|signal|errno|code) \d+|0x[0-9a-f]+|\d+(\.\d+)*`)
})

// WithoutNumbers is a text without its numbers, which differ between messages of one cause. Those of a status, a signal
// or a code stay: they are the cause.
func WithoutNumbers(text string) string {
	return number().ReplaceAllStringFunc(text, func(found string) string {
		if strings.Contains(found, " ") {
			return found
		}
		return ""
	})
}

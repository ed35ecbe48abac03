package plain

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Steers tells characters that would steer a terminal: control characters except line ends and tabs, among them those
// that begin escape sequences, and marks that turn the direction of writing.
func Steers(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case unicode.IsControl(r), r == 0x61c, r >= 0x200e && r <= 0x200f, r >= 0x2028 && r <= 0x202e,
		r >= 0x2066 && r <= 0x2069, r == 0xfeff:
		return true
	}
	return false
}

// Terminal makes text safe to show: what steers a terminal becomes "?". What is one cell or
// title must be passed through [OneLine].
func Terminal(s string) string {
	return strings.Map(func(r rune) rune {
		if Steers(r) {
			return '?'
		}
		return r
	}, s)
}

// OneLine makes one line of text: a line end in it could pose as a line of ours.
func OneLine(s string) string {
	if !strings.ContainsAny(s, "\n\r\t\v\f") {
		return s
	}
	return strings.Join(strings.Fields(s), " ")
}

// Text makes one line of text that is safe to show.
func Text(s string) string { return Terminal(OneLine(s)) }

// CSV keeps text from being a formula: a spreadsheet evaluates what begins with =, +, -, @ or a tab, also where they
// are full-width and behind spaces or marks that have no width. Figures are no text.
func CSV(s string) string {
	s = Text(s)
	front := strings.TrimLeftFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
	if first, _ := utf8.DecodeRuneInString(front); strings.ContainsRune("=+-@＝＋－＠", first) && front != "" {
		return "'" + s
	}
	return s
}

// XML keeps what XML may hold; other characters become "?".
func XML(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' || r >= 0x20 && r < 0x7f || r >= 0xa0 && r <= 0xd7ff ||
			r >= 0xe000 && r != utf8.RuneError && r != 0xfffe && r != 0xffff {
			return r
		}
		return '?'
	}, Terminal(s))
}

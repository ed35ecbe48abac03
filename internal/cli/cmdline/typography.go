package cmdline

import (
	"fmt"
	"strings"
)

// typed maps what text programs and Chinese keyboards put in place of a character to the character itself.
var typed = strings.NewReplacer( //nolint:gochecknoglobals // a constant table
	"–", "-", "—", "-", "−", "-", "－", "-", "：", ":", "，", ",", "＝", "=", "％", "%",
	"；", ",", "、", ",", "．", ".", "。", ".", "／", "/", "“", `"`, "”", `"`, "‘", "'", "’", "'", "\u00a0", " ",
	"０", "0", "１", "1", "２", "2", "３", "3", "４", "4", "５", "5", "６", "6", "７", "7", "８", "8", "９", "9", "　", " ")

// IsFlag tells whether a word is meant as a flag, by its dash.
func IsFlag(word string) bool { return strings.HasPrefix(typed.Replace(word), "-") }

// typography names the first word with a character of these, and the word as it is meant; empty: there
// is none. File names may have such characters, so that only a refused command line asks.
func typography(words []string) string {
	for _, word := range words {
		if meant := typed.Replace(word); meant != word {
			return fmt.Sprintf("%q has a long dash, a curly quote or a full-width character; type %s", word, meant)
		}
	}
	return ""
}

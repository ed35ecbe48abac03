package cmdline

import (
	"fmt"
	"strings"
)

// typed maps what text programs and Chinese keyboards put in place of a character to the character itself.
var typed = strings.NewReplacer( //nolint:gochecknoglobals // a constant table
	"–", "-", "—", "-", "−", "-", "－", "-", "：", ":", "，", ",", "＝", "=", "％", "%",
	"０", "0", "１", "1", "２", "2", "３", "3", "４", "4", "５", "5", "６", "6", "７", "7", "８", "8", "９", "9", "　", " ")

// typography names the first word with a long dash or a full-width character, and the word as it is meant; empty: there
// is none. File names may have such characters, so that only a refused command line asks.
func typography(words []string) string {
	for _, word := range words {
		if meant := typed.Replace(word); meant != word {
			return fmt.Sprintf("%q has a long dash or a full-width character; type %s", word, meant)
		}
	}
	return ""
}

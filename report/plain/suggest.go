package plain

import (
	"fmt"
	"strings"
)

// Suggest gives ` (did you mean "x"?)` for the nearest of the words, or nothing where none is near.
func Suggest[S ~string](word string, words []S) string {
	if best := Nearest(word, words); best != "" {
		return fmt.Sprintf(" (did you mean %q?)", best)
	}
	return ""
}

// Choices says what there is in place of an unknown word: the nearest, then the words, twenty at most.
func Choices[S ~string](word string, words []S) string {
	return Suggest(word, words) + "; there are " + Few(Each(words, func(s S) string { return string(s) }), 20, ", ")
}

// Nearest is the word that takes the fewest edits (insert, delete, change, swap of neighbours) from word, or "" where
// even that one takes more than one edit and more than a third of the letters.
func Nearest[S ~string](word string, words []S) S {
	best, bestEdits := S(""), 0
	lower := strings.ToLower(word)
	for _, w := range words {
		n := edits(lower, strings.ToLower(string(w)))
		if limit := max(1, max(len(word), len(w))/3); n <= limit && (best == "" || n < bestEdits) {
			best, bestEdits = w, n
		}
	}
	return best
}

// edits is the optimal string alignment distance.
func edits(a, b string) int {
	before, above, here := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		here[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			here[j] = min(above[j]+1, here[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				here[j] = min(here[j], before[j-2]+1)
			}
		}
		before, above, here = above, here, before
	}
	return above[len(b)]
}

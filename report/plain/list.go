package plain

import (
	"fmt"
	"slices"
	"strings"
)

// When is the formatted text if it applies, else the empty text.
func When(applies bool, format string, args ...any) string {
	if !applies {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// AddNew appends to a list what is not in it yet.
func AddNew[T comparable](list []T, item T) []T {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}

// Few lists the first of some items in words, and says how many more there are.
func Few(items []string, most int, separator string) string {
	left := max(len(items)-most, 0)
	return strings.Join(items[:len(items)-left], separator) + When(left > 0, " and %d more", left)
}

// Each applies a function to each item.
func Each[T, U any](items []T, of func(T) U) []U {
	var out []U
	for _, item := range items {
		out = append(out, of(item))
	}
	return out
}

// Grouped gathers the items that have the same key, in the order in which they come.
func Grouped[T any, K comparable](items []T, key func(T) K) [][]T {
	var out [][]T
	places := map[K]int{}
	for _, item := range items {
		k := key(item)
		at, known := places[k]
		if !known {
			at = len(out)
			places[k] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], item)
	}
	return out
}

// Rows are those of a table that is text: a row a line, its cells apart by " | ". Empty lines and those that begin with
// # are none.
func Rows(table string) [][]string {
	var out [][]string
	for line := range strings.Lines(table) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			out = append(out, strings.Split(line, " | "))
		}
	}
	return out
}

// UpTo are n whole numbers, one after another.
func UpTo(first, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = first + i
	}
	return out
}

package plain

import (
	"fmt"
	"slices"
)

// When is text where it applies, else nothing.
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

// Each is a list of what something is of each item.
func Each[T, U any](items []T, of func(T) U) []U {
	var out []U
	for _, item := range items {
		out = append(out, of(item))
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

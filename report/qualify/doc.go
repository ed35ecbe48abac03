// Package qualify is plans of tests and what became of them.
package qualify

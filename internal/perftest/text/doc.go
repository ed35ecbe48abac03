// Package text is what perftest's tools print and a script reads: the header, the table, the JSON.
// Differences, and why, are in docs/perftest.md.
package text

// Package flags is the command line of perftest's eight tools: what a script that calls ib_write_bw writes.
// Differences, and why, are in docs/perftest.md.
package flags

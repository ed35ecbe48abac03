// Package perftestcli is the command line and the text of perftest's eight tools: what a script that calls ib_write_bw
// writes, and what it reads. Differences, and why, are in docs/perftest.md.
package perftestcli

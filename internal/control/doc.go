// Package control is the out-of-band link on which two hosts agree what to run: one session engine, two dialects, chosen
// inside perftest's own first message. Ours is length-prefixed JSON; perftest's is described in docs/perftest.md.
package control

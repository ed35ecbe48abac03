// Package plan decides what a test is. A [Spec] is all that can be said about one; [Settle] makes of it, once and as a
// whole, a [Settled]: every byte, round, depth and address of this end. Nothing below it decides any of that again.
package plan

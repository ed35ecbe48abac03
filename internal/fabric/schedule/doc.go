// Package schedule says who sends to whom in which round of a test of many hosts. It is pure data: hosts
// are numbers, and a schedule computes each of its rounds when it is asked, so that ten thousand rounds
// of ten thousand hosts take no memory.
//
// A host sends to at most one other host in a round, and receives from at most one; incast lets many send to one.
package schedule

// Package schedule says who sends to whom in which round of a test of many hosts. It is pure data: hosts are numbers, and
// a schedule computes each of its rounds when it is asked, so that ten thousand rounds of ten thousand hosts take no memory.
//
// A host sends to at most one other host in a round of pairs, shift, quick, ring, bisection, leaves and random; incast and
// all-to-all load a host with many flows on purpose.
package schedule

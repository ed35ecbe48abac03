// Package control is the out-of-band session in which two hosts agree what to run: what crosses it, whatever the
// dialect. The dialects are the packages native (ours) and perftest; connect finds out which one both ends speak.
package control

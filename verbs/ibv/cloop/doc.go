// Package cloop runs jobs over libibverbs in C, where a call from Go for each list would cost as much as the message: a stream
// of lists that were linked ahead of time, and a ping-pong. What its loops stamp, package job accounts for in Go.
package cloop

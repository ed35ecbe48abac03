//go:build race

package verbstest

// largestTried bounds the message of testLargest: the race detector moves 25 MB/s.
const largestTried = 32 << 20

//go:build !race

package verbstest

// largestTried bounds the message of testLargest: 2^31 bytes are the most that the specification has.
const largestTried = 1 << 31

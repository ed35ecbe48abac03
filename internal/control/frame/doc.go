// Package frame is the session beneath every conversation of ours: JSON messages behind their length,
// a proof of a shared token before anything else, heartbeats while nothing is said. What a message
// may cost is decided by who waits for it.
package frame

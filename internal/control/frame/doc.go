// Package frame is the session beneath every conversation of ours: JSON messages behind their length,
// a proof of a shared token before anything else, heartbeats while nothing is said. The receiver of a message
// limits its length.
package frame

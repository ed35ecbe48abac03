//go:build !linux

package agent

// memlock is not limited here.
func memlock() int64 { return -1 }

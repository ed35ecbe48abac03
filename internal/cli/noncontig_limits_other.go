//go:build !linux

package cli

// lockedMemoryLimit is not known here.
func lockedMemoryLimit() uint64 { return 0 }

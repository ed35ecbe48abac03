//go:build !linux

package hostmemory

// LockedLimit is not known here.
func LockedLimit() uint64 { return 0 }

//go:build !linux

package hostmemory

// LockedLimit is not known here.
func LockedLimit() int64 { return -1 }

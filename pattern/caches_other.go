//go:build !linux

package pattern

// HostCaches is a guess on this system.
func HostCaches() Caches { return defaultCaches() }

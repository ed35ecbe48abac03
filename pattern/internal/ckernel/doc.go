// Package ckernel holds the copy kernels of package pattern in C, for runners in C, and the yardsticks that all kernels
// are measured against. It is a package of its own because Go assembly and cgo cannot share one.
package ckernel

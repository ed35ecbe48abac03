// Package yardstick holds in C what the kernels of package pattern are measured against: a loop that only reads the same cache
// lines, memcpy for each block, and the stores alone.
package yardstick

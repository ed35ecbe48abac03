// Package yardstick holds in C what the kernels of package pattern are measured against: a loop that only reads the
// same cache lines, and memcpy for each block.
package yardstick

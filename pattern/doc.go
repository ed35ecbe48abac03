// Package pattern describes data that is not contiguous in memory, and moves it: layouts (vector, subarray, indexed,
// struct), the scatter/gather lists that let a device collect them, and the kernels that pack them into one buffer and
// back.
//
// A [Layout] is a list of blocks in rising order of address, relative to a base. Its packed form is the same bytes
// without the gaps.
package pattern

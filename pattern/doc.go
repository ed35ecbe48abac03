// Package pattern describes data that is not contiguous in memory, and moves it: layouts (vector, subarray, indexed,
// struct), lists of descriptors, the planner that makes work requests of them, and the kernels that pack them into one
// buffer and back.
//
// A [Layout] is a list of blocks in rising order of address, relative to a base. Its packed form is the same bytes
// without the gaps. A [Transfer] has two sides: each of its pieces has a place at both ends.
package pattern

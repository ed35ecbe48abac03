// Package labtest holds what runs in the kernel lab (scripts/lab): with the build tag "lab", tests that open a kernel
// device through libibverbs and our own RoCEv2 device side by side and let them talk over real packets; without it, one
// test that boots the lab and runs the whole suite.
package labtest

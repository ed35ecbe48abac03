// Package dirty fills vector registers, as code of others may leave them to a call.
package dirty

// Vectors fills the 32 bytes of each vector register with ones. The processor has AVX2.
func Vectors()

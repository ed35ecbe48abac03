//go:build linux && !amd64

package verbs

const mbindNumber = 235 // __NR_mbind in the generic table (arm64, riscv64, loong64)

#include "textflag.h"

// func fold512(constants *[6]uint64, register uint32, p *byte, n int, out *[16]byte)
//
// Folds n bytes (a multiple of 64, at least 256) into 16 bytes with the same CRC: four accumulators of 64 bytes, each
// multiplied by x to the power of the distance to the data that is added to it.
// constants: those of 256, 64 and 16 bytes, each the pair for the low and the high half.
TEXT ·fold512(SB), NOSPLIT, $0-40
	MOVQ constants+0(FP), AX
	MOVL register+8(FP), BX
	MOVQ p+16(FP), SI
	MOVQ n+24(FP), CX
	MOVQ out+32(FP), DI

	VMOVDQU64 0(SI), Z1
	VMOVDQU64 64(SI), Z2
	VMOVDQU64 128(SI), Z3
	VMOVDQU64 192(SI), Z4
	VMOVD BX, X5 // clears the rest of Z5
	VPXORQ Z5, Z1, Z1
	ADDQ $256, SI
	SUBQ $256, CX

	VBROADCASTI32X4 0(AX), Z0
loop256:
	CMPQ CX, $256
	JB merge
	VPCLMULQDQ $0x00, Z0, Z1, Z5
	VPCLMULQDQ $0x00, Z0, Z2, Z6
	VPCLMULQDQ $0x00, Z0, Z3, Z7
	VPCLMULQDQ $0x00, Z0, Z4, Z8
	VPCLMULQDQ $0x11, Z0, Z1, Z1
	VPCLMULQDQ $0x11, Z0, Z2, Z2
	VPCLMULQDQ $0x11, Z0, Z3, Z3
	VPCLMULQDQ $0x11, Z0, Z4, Z4
	VPTERNLOGQ $0x96, 0(SI), Z5, Z1
	VPTERNLOGQ $0x96, 64(SI), Z6, Z2
	VPTERNLOGQ $0x96, 128(SI), Z7, Z3
	VPTERNLOGQ $0x96, 192(SI), Z8, Z4
	ADDQ $256, SI
	SUBQ $256, CX
	JMP loop256

merge:
	VBROADCASTI32X4 16(AX), Z0
	VPCLMULQDQ $0x00, Z0, Z1, Z5
	VPCLMULQDQ $0x11, Z0, Z1, Z1
	VPTERNLOGQ $0x96, Z5, Z1, Z2
	VPCLMULQDQ $0x00, Z0, Z2, Z5
	VPCLMULQDQ $0x11, Z0, Z2, Z2
	VPTERNLOGQ $0x96, Z5, Z2, Z3
	VPCLMULQDQ $0x00, Z0, Z3, Z5
	VPCLMULQDQ $0x11, Z0, Z3, Z3
	VPTERNLOGQ $0x96, Z5, Z3, Z4

loop64:
	CMPQ CX, $64
	JB lanes
	VPCLMULQDQ $0x00, Z0, Z4, Z5
	VPCLMULQDQ $0x11, Z0, Z4, Z4
	VPTERNLOGQ $0x96, 0(SI), Z5, Z4
	ADDQ $64, SI
	SUBQ $64, CX
	JMP loop64

lanes:
	VMOVDQU 32(AX), X0
	VEXTRACTI32X4 $1, Z4, X1
	VEXTRACTI32X4 $2, Z4, X2
	VEXTRACTI32X4 $3, Z4, X3
	VPCLMULQDQ $0x00, X0, X4, X5
	VPCLMULQDQ $0x11, X0, X4, X4
	VPXOR X5, X4, X4
	VPXOR X1, X4, X4
	VPCLMULQDQ $0x00, X0, X4, X5
	VPCLMULQDQ $0x11, X0, X4, X4
	VPXOR X5, X4, X4
	VPXOR X2, X4, X4
	VPCLMULQDQ $0x00, X0, X4, X5
	VPCLMULQDQ $0x11, X0, X4, X4
	VPXOR X5, X4, X4
	VPXOR X3, X4, X4
	VMOVDQU X4, 0(DI)
	VZEROUPPER
	RET

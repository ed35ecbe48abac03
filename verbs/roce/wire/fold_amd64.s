#include "textflag.h"

// x^(8*distance+32) and x^(8*distance-32) modulo the polynomial for distances of 256, 64 and 16 bytes, reflected, and
// shifted left by one as carry-less products of reflected operands need it: the pair for the low half and for the high
// one (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction", 2009).
DATA by256<>+0(SB)/8, $0x11542778a
DATA by256<>+8(SB)/8, $0x1322d1430
GLOBL by256<>(SB), RODATA|NOPTR, $16
DATA by64<>+0(SB)/8, $0x154442bd4
DATA by64<>+8(SB)/8, $0x1c6e41596
GLOBL by64<>(SB), RODATA|NOPTR, $16
DATA by16<>+0(SB)/8, $0x1751997d0
DATA by16<>+8(SB)/8, $0x0ccaa009e
GLOBL by16<>(SB), RODATA|NOPTR, $16

// x^64, and the polynomial behind x^64 divided by it: they reduce 8 bytes to 4.
DATA by8<>+0(SB)/8, $0x163cd6124
GLOBL by8<>(SB), RODATA|NOPTR, $8
DATA reduce<>+0(SB)/8, $0x1db710641
DATA reduce<>+8(SB)/8, $0x1f7011641
GLOBL reduce<>(SB), RODATA|NOPTR, $16

// From r bytes behind its front on, shifts shuffles 16 bytes to the left by 16-r; from 16+r on, to the right by r.
DATA shifts<>+0(SB)/8, $0x8080808080808080
DATA shifts<>+8(SB)/8, $0x8080808080808080
DATA shifts<>+16(SB)/8, $0x0706050403020100
DATA shifts<>+24(SB)/8, $0x0f0e0d0c0b0a0908
DATA shifts<>+32(SB)/8, $0x8080808080808080
DATA shifts<>+40(SB)/8, $0x8080808080808080
GLOBL shifts<>(SB), RODATA|NOPTR, $48

// func fold128(register uint32, p *byte, n int) uint32
//
// Runs n bytes, at least 16, through a register: 16 bytes are multiplied by x to the power of the distance to the next
// 16, which are added; at the end the sum is reduced to 4 bytes.
TEXT ·fold128(SB), NOSPLIT, $0-28
	MOVL register+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVOU (SI), X1
	MOVL AX, X2 // clears the rest of X2
	PXOR X2, X1
	MOVOU by16<>(SB), X7
	ADDQ $16, SI
	SUBQ $16, CX

loop16:
	CMPQ CX, $16
	JB rest
	MOVOU (SI), X4
	MOVO X1, X3
	PCLMULQDQ $0x00, X7, X1
	PCLMULQDQ $0x11, X7, X3
	PXOR X4, X1
	PXOR X3, X1
	ADDQ $16, SI
	SUBQ $16, CX
	JMP loop16

rest: // r < 16 bytes: the sum's first r are folded into its others and these bytes
	TESTQ CX, CX
	JE done
	LEAQ shifts<>(SB), DX
	MOVOU (DX)(CX*1), X0
	MOVOU 16(DX)(CX*1), X5
	MOVOU -16(SI)(CX*1), X4
	MOVO X1, X3
	PSHUFB X0, X3
	PSHUFB X5, X1
	PBLENDVB X0, X1, X4
	MOVO X3, X1
	PCLMULQDQ $0x00, X7, X1
	PCLMULQDQ $0x11, X7, X3
	PXOR X4, X1
	PXOR X3, X1

done: // 16 bytes to 12, to 8, to 4
	MOVO X1, X0
	PCLMULQDQ $0x10, X7, X0
	PSRLDQ $8, X1
	PXOR X1, X0
	PCMPEQB X3, X3
	PSRLQ $32, X3
	MOVO X0, X2
	PSRLDQ $4, X2
	PAND X3, X0
	MOVQ by8<>(SB), X4
	PCLMULQDQ $0x00, X4, X0
	PXOR X2, X0
	MOVOU reduce<>(SB), X4
	MOVO X0, X2
	PAND X3, X0
	PCLMULQDQ $0x10, X4, X0
	PAND X3, X0
	PCLMULQDQ $0x00, X4, X0
	PXOR X2, X0
	PEXTRD $1, X0, AX
	MOVL AX, ret+24(FP)
	RET

// func fold512(register uint32, p *byte, n int, out *[16]byte)
//
// Folds n bytes (a multiple of 64, at least 256) into 16 bytes with the same CRC: four accumulators of 64 bytes, each
// multiplied by x to the power of the distance to the data that is added to it.
TEXT ·fold512(SB), NOSPLIT, $0-32
	MOVL register+0(FP), BX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ out+24(FP), DI

	VMOVDQU64 0(SI), Z1
	VMOVDQU64 64(SI), Z2
	VMOVDQU64 128(SI), Z3
	VMOVDQU64 192(SI), Z4
	VMOVD BX, X5 // clears the rest of Z5
	VPXORQ Z5, Z1, Z1
	ADDQ $256, SI
	SUBQ $256, CX

	VBROADCASTI32X4 by256<>(SB), Z0
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
	VBROADCASTI32X4 by64<>(SB), Z0
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
	VMOVDQU by16<>(SB), X0
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

// func foldCopy512(register uint32, p *byte, n int, out *[16]byte, to *byte)
//
// fold512 that stores to to what it folds: each byte is read once.
TEXT ·foldCopy512(SB), NOSPLIT, $0-40
	MOVL register+0(FP), BX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ out+24(FP), DI
	MOVQ to+32(FP), DX

	VMOVDQU64 0(SI), Z1
	VMOVDQU64 64(SI), Z2
	VMOVDQU64 128(SI), Z3
	VMOVDQU64 192(SI), Z4
	VMOVDQU64 Z1, 0(DX)
	VMOVDQU64 Z2, 64(DX)
	VMOVDQU64 Z3, 128(DX)
	VMOVDQU64 Z4, 192(DX)
	ADDQ $256, DX
	VMOVD BX, X5 // clears the rest of Z5
	VPXORQ Z5, Z1, Z1
	ADDQ $256, SI
	SUBQ $256, CX

	VBROADCASTI32X4 by256<>(SB), Z0
copyLoop256:
	CMPQ CX, $256
	JB copyMerge
	VPCLMULQDQ $0x00, Z0, Z1, Z5
	VPCLMULQDQ $0x00, Z0, Z2, Z6
	VPCLMULQDQ $0x00, Z0, Z3, Z7
	VPCLMULQDQ $0x00, Z0, Z4, Z8
	VPCLMULQDQ $0x11, Z0, Z1, Z1
	VPCLMULQDQ $0x11, Z0, Z2, Z2
	VPCLMULQDQ $0x11, Z0, Z3, Z3
	VPCLMULQDQ $0x11, Z0, Z4, Z4
	VMOVDQU64 0(SI), Z9
	VMOVDQU64 64(SI), Z10
	VMOVDQU64 128(SI), Z11
	VMOVDQU64 192(SI), Z12
	VPTERNLOGQ $0x96, Z9, Z5, Z1
	VPTERNLOGQ $0x96, Z10, Z6, Z2
	VPTERNLOGQ $0x96, Z11, Z7, Z3
	VPTERNLOGQ $0x96, Z12, Z8, Z4
	VMOVDQU64 Z9, 0(DX)
	VMOVDQU64 Z10, 64(DX)
	VMOVDQU64 Z11, 128(DX)
	VMOVDQU64 Z12, 192(DX)
	ADDQ $256, SI
	ADDQ $256, DX
	SUBQ $256, CX
	JMP copyLoop256

copyMerge:
	VBROADCASTI32X4 by64<>(SB), Z0
	VPCLMULQDQ $0x00, Z0, Z1, Z5
	VPCLMULQDQ $0x11, Z0, Z1, Z1
	VPTERNLOGQ $0x96, Z5, Z1, Z2
	VPCLMULQDQ $0x00, Z0, Z2, Z5
	VPCLMULQDQ $0x11, Z0, Z2, Z2
	VPTERNLOGQ $0x96, Z5, Z2, Z3
	VPCLMULQDQ $0x00, Z0, Z3, Z5
	VPCLMULQDQ $0x11, Z0, Z3, Z3
	VPTERNLOGQ $0x96, Z5, Z3, Z4

copyLoop64:
	CMPQ CX, $64
	JB copyLanes
	VPCLMULQDQ $0x00, Z0, Z4, Z5
	VPCLMULQDQ $0x11, Z0, Z4, Z4
	VMOVDQU64 0(SI), Z9
	VPTERNLOGQ $0x96, Z9, Z5, Z4
	VMOVDQU64 Z9, 0(DX)
	ADDQ $64, SI
	ADDQ $64, DX
	SUBQ $64, CX
	JMP copyLoop64

copyLanes:
	VMOVDQU by16<>(SB), X0
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

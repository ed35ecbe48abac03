#include "textflag.h"

// x^(8*distance+32) and x^(8*distance-32) modulo the polynomial for distances of 256, 128, 64, 32 and 16 bytes,
// reflected, and shifted left by one as carry-less products of reflected operands need it: the pair for the low half
// and for the high one (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction",
// 2009).
DATA by256<>+0(SB)/8, $0x11542778a
DATA by256<>+8(SB)/8, $0x1322d1430
GLOBL by256<>(SB), RODATA|NOPTR, $16
DATA by128<>+0(SB)/8, $0x1e88ef372
DATA by128<>+8(SB)/8, $0x14a7fe880
GLOBL by128<>(SB), RODATA|NOPTR, $16
DATA by64<>+0(SB)/8, $0x154442bd4
DATA by64<>+8(SB)/8, $0x1c6e41596
GLOBL by64<>(SB), RODATA|NOPTR, $16
DATA by32<>+0(SB)/8, $0x0f1da05aa
DATA by32<>+8(SB)/8, $0x15a546366
GLOBL by32<>(SB), RODATA|NOPTR, $16
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

// FOLD256 and FOLD512 carry acc over the distance that the pair by is for, and add what is there.
#define FOLD256(by, acc, other, there) \
	VPCLMULQDQ $0x00, by, acc, other \
	VPCLMULQDQ $0x11, by, acc, acc   \
	VPXOR there, other, other        \
	VPXOR other, acc, acc

#define FOLD512(by, acc, other, there) \
	VPCLMULQDQ $0x00, by, acc, other \
	VPCLMULQDQ $0x11, by, acc, acc   \
	VPTERNLOGQ $0x96, there, other, acc

// func fold(register uint32, p *byte, n int, to *byte, width int) uint32
//
// Runs n bytes, at least 16, through a register. Sums of 16 bytes are multiplied by x to the power of the distance to
// the bytes that are added to them; at the end the last sum is reduced to 4 bytes. With a width of 32 or 64 bytes there
// are four registers of two or four sums each, and n is 4*width at least. What is folded by them is stored to to, unless
// that is nil, and each byte is read once; what is left behind a multiple of width is taken from there.
TEXT ·fold(SB), NOSPLIT, $0-44
	MOVL register+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ to+24(FP), DX
	MOVQ width+32(FP), BX
	MOVL AX, X5 // clears the rest of its 16 bytes
	MOVOU by16<>(SB), X7
	CMPQ BX, $32
	JEQ by32bytes
	JHI by64bytes
	MOVOU (SI), X1
	PXOR X5, X1
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
	MOVL AX, ret+40(FP)
	RET

by32bytes:
	VZEROUPPER // a program's thread may come with anything in them
	VMOVDQU 0(SI), Y1
	VMOVDQU 32(SI), Y2
	VMOVDQU 64(SI), Y3
	VMOVDQU 96(SI), Y4
	TESTQ DX, DX
	JEQ begin128
	VMOVDQU Y1, 0(DX)
	VMOVDQU Y2, 32(DX)
	VMOVDQU Y3, 64(DX)
	VMOVDQU Y4, 96(DX)
	SUBQ SI, DX // how far behind p the copy is

begin128:
	VPXOR Y5, Y1, Y1
	VBROADCASTI128 by128<>(SB), Y0

loop128:
	ADDQ $128, SI
	SUBQ $128, CX
	CMPQ CX, $128
	JB merge128
	VMOVDQU 0(SI), Y9
	VMOVDQU 32(SI), Y10
	VMOVDQU 64(SI), Y11
	VMOVDQU 96(SI), Y12
	FOLD256(Y0, Y1, Y5, Y9)
	FOLD256(Y0, Y2, Y6, Y10)
	FOLD256(Y0, Y3, Y8, Y11)
	FOLD256(Y0, Y4, Y13, Y12)
	TESTQ DX, DX
	JEQ loop128
	VMOVDQU Y9, 0(SI)(DX*1)
	VMOVDQU Y10, 32(SI)(DX*1)
	VMOVDQU Y11, 64(SI)(DX*1)
	VMOVDQU Y12, 96(SI)(DX*1)
	JMP loop128

merge128:
	VBROADCASTI128 by32<>(SB), Y0
	FOLD256(Y0, Y1, Y5, Y2)
	FOLD256(Y0, Y1, Y5, Y3)
	FOLD256(Y0, Y1, Y5, Y4)

loop32:
	CMPQ CX, $32
	JB lanes32
	VMOVDQU (SI), Y9
	FOLD256(Y0, Y1, Y5, Y9)
	TESTQ DX, DX
	JEQ next32
	VMOVDQU Y9, (SI)(DX*1)

next32:
	ADDQ $32, SI
	SUBQ $32, CX
	JMP loop32

lanes32:
	VEXTRACTI128 $1, Y1, X2
	FOLD256(X7, X1, X5, X2)
	JMP narrow

by64bytes:
	VZEROUPPER
	VMOVDQU64 0(SI), Z1
	VMOVDQU64 64(SI), Z2
	VMOVDQU64 128(SI), Z3
	VMOVDQU64 192(SI), Z4
	TESTQ DX, DX
	JEQ begin256
	VMOVDQU64 Z1, 0(DX)
	VMOVDQU64 Z2, 64(DX)
	VMOVDQU64 Z3, 128(DX)
	VMOVDQU64 Z4, 192(DX)
	SUBQ SI, DX // how far behind p the copy is

begin256:
	VPXORQ Z5, Z1, Z1
	VBROADCASTI32X4 by256<>(SB), Z0

loop256:
	ADDQ $256, SI
	SUBQ $256, CX
	CMPQ CX, $256
	JB merge256
	VMOVDQU64 0(SI), Z9
	VMOVDQU64 64(SI), Z10
	VMOVDQU64 128(SI), Z11
	VMOVDQU64 192(SI), Z12
	FOLD512(Z0, Z1, Z5, Z9)
	FOLD512(Z0, Z2, Z6, Z10)
	FOLD512(Z0, Z3, Z8, Z11)
	FOLD512(Z0, Z4, Z13, Z12)
	TESTQ DX, DX
	JEQ loop256
	VMOVDQU64 Z9, 0(SI)(DX*1)
	VMOVDQU64 Z10, 64(SI)(DX*1)
	VMOVDQU64 Z11, 128(SI)(DX*1)
	VMOVDQU64 Z12, 192(SI)(DX*1)
	JMP loop256

merge256:
	VBROADCASTI32X4 by64<>(SB), Z0
	FOLD512(Z0, Z1, Z5, Z2)
	FOLD512(Z0, Z1, Z5, Z3)
	FOLD512(Z0, Z1, Z5, Z4)

loop64:
	CMPQ CX, $64
	JB lanes64
	VMOVDQU64 (SI), Z9
	FOLD512(Z0, Z1, Z5, Z9)
	TESTQ DX, DX
	JEQ next64
	VMOVDQU64 Z9, (SI)(DX*1)

next64:
	ADDQ $64, SI
	SUBQ $64, CX
	JMP loop64

lanes64:
	VEXTRACTI32X4 $1, Z1, X2
	VEXTRACTI32X4 $2, Z1, X3
	VEXTRACTI32X4 $3, Z1, X4
	FOLD256(X7, X1, X5, X2)
	FOLD256(X7, X1, X5, X3)
	FOLD256(X7, X1, X5, X4)

narrow:
	VZEROUPPER
	TESTQ DX, DX
	JEQ loop16
	ADDQ DX, SI
	JMP loop16

// func multipliesWide() bool
//
// Tells whether the processor has VPCLMULQDQ (leaf 7, ECX bit 10). It has leaf 7, as it has AVX2.
TEXT ·multipliesWide(SB), NOSPLIT, $0-1
	MOVL $7, AX
	XORL CX, CX
	CPUID
	SHRL $10, CX
	ANDL $1, CX
	MOVB CX, ret+0(FP)
	RET

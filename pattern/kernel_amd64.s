#include "textflag.h"

// Both kernels copy one row: n0 blocks of block bytes (64 or more). Within a block: 256 bytes a turn, then 64, then one
// move of 64 bytes that ends where the block ends. flags: 1 unpack, 2 ask ahead, 4 store past the cache (whole lines
// only), 8 by string instruction.
//
// DI dst, SI src, R8 block, R9 n, R10 dst step, R11 src step, R12 what to add to DI or SI to ask ahead, R13 flags.
// Within a block AX is the offset, CX the block's bytes less 256, DX less 64, BX the address asked ahead.

#define LOADROW \
	MOVQ a+0(FP), R14; \
	MOVQ dst+8(FP), DI; \
	MOVQ src+16(FP), SI; \
	MOVQ 16(R14), R8; \
	MOVQ 24(R14), R9; \
	MOVQ 32(R14), R10; \
	MOVQ 40(R14), R11; \
	MOVQ 88(R14), R12; \
	MOVL 100(R14), R13; \
	LEAQ -256(R8), CX; \
	LEAQ -64(R8), DX

// PREFETCHW (BX)(AX*1), which the assembler does not know.
#define ASKWRITE BYTE $0x0f; BYTE $0x0d; BYTE $0x0c; BYTE $0x03

// func copyWideAVX512(a *copyArgs, dst, src unsafe.Pointer)
TEXT ·copyWideAVX512(SB), NOSPLIT, $0-24
	LOADROW
	TESTQ R9, R9
	JZ    done
	TESTQ $4, R13
	JNZ   stream
	TESTQ $8, R13
	JNZ   string
	TESTQ $2, R13
	JNZ   ahead
	CMPQ  R8, $64
	JEQ   hot64
	CMPQ  R8, $128
	JEQ   hot128

hot:
	XORQ AX, AX
	CMPQ CX, $0
	JLT  hotLines

	PCALIGN $32
hot256:
	VMOVDQU64 (SI)(AX*1), Z0
	VMOVDQU64 64(SI)(AX*1), Z1
	VMOVDQU64 128(SI)(AX*1), Z2
	VMOVDQU64 192(SI)(AX*1), Z3
	VMOVDQU64 Z0, (DI)(AX*1)
	VMOVDQU64 Z1, 64(DI)(AX*1)
	VMOVDQU64 Z2, 128(DI)(AX*1)
	VMOVDQU64 Z3, 192(DI)(AX*1)
	ADDQ $256, AX
	CMPQ AX, CX
	JLE  hot256

hotLines:
	CMPQ AX, DX
	JGT  hotTail
	VMOVDQU64 (SI)(AX*1), Z0
	VMOVDQU64 Z0, (DI)(AX*1)
	ADDQ $64, AX
	JMP  hotLines

hotTail:
	CMPQ AX, R8
	JEQ  hotNext
	VMOVDQU64 (SI)(DX*1), Z0
	VMOVDQU64 Z0, (DI)(DX*1)

hotNext:
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  hot
	JMP  done

hot64:
	SUBQ $4, R9
	JLT  hot64rest
	LEAQ (R10)(R10*2), BX
	LEAQ (R11)(R11*2), AX

	PCALIGN $32
hot64four:
	VMOVDQU64 (SI), Z0
	VMOVDQU64 (SI)(R11*1), Z1
	VMOVDQU64 (SI)(R11*2), Z2
	VMOVDQU64 (SI)(AX*1), Z3
	VMOVDQU64 Z0, (DI)
	VMOVDQU64 Z1, (DI)(R10*1)
	VMOVDQU64 Z2, (DI)(R10*2)
	VMOVDQU64 Z3, (DI)(BX*1)
	LEAQ (SI)(R11*4), SI
	LEAQ (DI)(R10*4), DI
	SUBQ $4, R9
	JGE  hot64four

hot64rest:
	ADDQ $4, R9
	JZ   done

	PCALIGN $32
hot64one:
	VMOVDQU64 (SI), Z0
	VMOVDQU64 Z0, (DI)
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  hot64one
	JMP  done

	PCALIGN $32
hot128:
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 Z0, (DI)
	VMOVDQU64 Z1, 64(DI)
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  hot128
	JMP  done

ahead:
	TESTQ $1, R13
	JNZ   aheadBlock
	LEAQ (SI)(R12*1), BX
	CMPQ R8, $64
	JEQ  ahead64
	CMPQ R8, $128
	JEQ  ahead128

aheadBlock:
	XORQ AX, AX
	LEAQ (SI)(R12*1), BX
	TESTQ $1, R13
	JZ   aheadLines
	LEAQ (DI)(R12*1), BX

	PCALIGN $32
aheadWrite:
	ASKWRITE
	VMOVDQU64 (SI)(AX*1), Z0
	VMOVDQU64 Z0, (DI)(AX*1)
	ADDQ $64, AX
	CMPQ AX, DX
	JLE  aheadWrite
	JMP  aheadTail

aheadLines:
	CMPQ CX, AX
	JLT  aheadOne

	PCALIGN $32
ahead256:
	PREFETCHT0 (BX)(AX*1)
	PREFETCHT0 64(BX)(AX*1)
	PREFETCHT0 128(BX)(AX*1)
	PREFETCHT0 192(BX)(AX*1)
	VMOVDQU64 (SI)(AX*1), Z0
	VMOVDQU64 64(SI)(AX*1), Z1
	VMOVDQU64 128(SI)(AX*1), Z2
	VMOVDQU64 192(SI)(AX*1), Z3
	VMOVDQU64 Z0, (DI)(AX*1)
	VMOVDQU64 Z1, 64(DI)(AX*1)
	VMOVDQU64 Z2, 128(DI)(AX*1)
	VMOVDQU64 Z3, 192(DI)(AX*1)
	ADDQ $256, AX
	CMPQ AX, CX
	JLE  ahead256

	PCALIGN $32
aheadOne:
	CMPQ AX, DX
	JGT  aheadTail
	PREFETCHT0 (BX)(AX*1)
	VMOVDQU64 (SI)(AX*1), Z0
	VMOVDQU64 Z0, (DI)(AX*1)
	ADDQ $64, AX
	JMP  aheadOne

aheadTail:
	CMPQ AX, R8
	JEQ  aheadNext
	VMOVDQU64 (SI)(DX*1), Z0
	VMOVDQU64 Z0, (DI)(DX*1)

aheadNext:
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  aheadBlock
	JMP  done

	PCALIGN $32
ahead64:
	PREFETCHT0 (BX)
	VMOVDQU64 (SI), Z0
	VMOVDQU64 Z0, (DI)
	ADDQ R10, DI
	ADDQ R11, SI
	ADDQ R11, BX
	DECQ R9
	JNZ  ahead64
	JMP  done

	PCALIGN $32
ahead128:
	PREFETCHT0 (BX)
	PREFETCHT0 64(BX)
	VMOVDQU64 (SI), Z0
	VMOVDQU64 64(SI), Z1
	VMOVDQU64 Z0, (DI)
	VMOVDQU64 Z1, 64(DI)
	ADDQ R10, DI
	ADDQ R11, SI
	ADDQ R11, BX
	DECQ R9
	JNZ  ahead128
	JMP  done

stream:
	XORQ AX, AX
	LEAQ (SI)(R12*1), BX

	PCALIGN $32
streamLine:
	PREFETCHT0 (BX)(AX*1)
	VMOVDQU64  (SI)(AX*1), Z0
	VMOVNTDQ   Z0, (DI)(AX*1)
	ADDQ $64, AX
	CMPQ AX, DX
	JLE  streamLine
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  stream
	SFENCE
	JMP done

string:
	MOVQ DI, AX
	MOVQ SI, BX

stringNext:
	MOVQ AX, DI
	MOVQ BX, SI
	MOVQ R8, CX
	REP; MOVSB
	ADDQ R10, AX
	ADDQ R11, BX
	DECQ R9
	JNZ  stringNext

done:
	VZEROUPPER
	RET

// func copyWideAVX2(a *copyArgs, dst, src unsafe.Pointer)
TEXT ·copyWideAVX2(SB), NOSPLIT, $0-24
	LOADROW
	TESTQ R9, R9
	JZ    done
	TESTQ $4, R13
	JNZ   stream
	TESTQ $8, R13
	JNZ   string
	TESTQ $2, R13
	JNZ   ahead

hot:
	XORQ AX, AX

	PCALIGN $32
hotLine:
	VMOVDQU (SI)(AX*1), Y0
	VMOVDQU 32(SI)(AX*1), Y1
	VMOVDQU Y0, (DI)(AX*1)
	VMOVDQU Y1, 32(DI)(AX*1)
	ADDQ $64, AX
	CMPQ AX, DX
	JLE  hotLine
	CMPQ AX, R8
	JEQ  hotNext
	VMOVDQU (SI)(DX*1), Y0
	VMOVDQU 32(SI)(DX*1), Y1
	VMOVDQU Y0, (DI)(DX*1)
	VMOVDQU Y1, 32(DI)(DX*1)

hotNext:
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  hot
	JMP  done

ahead:
	XORQ AX, AX
	LEAQ (SI)(R12*1), BX
	TESTQ $1, R13
	JZ   aheadRead
	LEAQ (DI)(R12*1), BX

	PCALIGN $32
aheadWrite:
	ASKWRITE
	VMOVDQU (SI)(AX*1), Y0
	VMOVDQU 32(SI)(AX*1), Y1
	VMOVDQU Y0, (DI)(AX*1)
	VMOVDQU Y1, 32(DI)(AX*1)
	ADDQ $64, AX
	CMPQ AX, DX
	JLE  aheadWrite
	JMP  aheadTail

	PCALIGN $32
aheadRead:
	PREFETCHT0 (BX)(AX*1)
	VMOVDQU (SI)(AX*1), Y0
	VMOVDQU 32(SI)(AX*1), Y1
	VMOVDQU Y0, (DI)(AX*1)
	VMOVDQU Y1, 32(DI)(AX*1)
	ADDQ $64, AX
	CMPQ AX, DX
	JLE  aheadRead

aheadTail:
	CMPQ AX, R8
	JEQ  aheadNext
	VMOVDQU (SI)(DX*1), Y0
	VMOVDQU 32(SI)(DX*1), Y1
	VMOVDQU Y0, (DI)(DX*1)
	VMOVDQU Y1, 32(DI)(DX*1)

aheadNext:
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  ahead
	JMP  done

stream:
	XORQ AX, AX
	LEAQ (SI)(R12*1), BX

	PCALIGN $32
streamLine:
	PREFETCHT0 (BX)(AX*1)
	VMOVDQU  (SI)(AX*1), Y0
	VMOVDQU  32(SI)(AX*1), Y1
	VMOVNTDQ Y0, (DI)(AX*1)
	VMOVNTDQ Y1, 32(DI)(AX*1)
	ADDQ $64, AX
	CMPQ AX, DX
	JLE  streamLine
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  stream
	SFENCE
	JMP done

string:
	MOVQ DI, AX
	MOVQ SI, BX

stringNext:
	MOVQ AX, DI
	MOVQ BX, SI
	MOVQ R8, CX
	REP; MOVSB
	ADDQ R10, AX
	ADDQ R11, BX
	DECQ R9
	JNZ  stringNext

done:
	VZEROUPPER
	RET

// func copyMidAVX2(a *copyArgs, dst, src unsafe.Pointer): blocks of 16 to 63 bytes, by two moves that may overlap.
TEXT ·copyMidAVX2(SB), NOSPLIT, $0-24
	LOADROW
	TESTQ R9, R9
	JZ    done
	TESTQ $2, R13
	JNZ   ask
	MOVQ  $0, R12

ask: // without asking ahead, the line asked for is the one in use
	LEAQ (SI)(R12*1), BX
	TESTQ $1, R13
	JZ   pick
	LEAQ (DI)(R12*1), BX

pick:
	XORQ AX, AX
	CMPQ R8, $32
	JEQ  exact32
	JGT  pair32
	CMPQ R8, $16
	JEQ  exact16
	LEAQ -16(R8), CX
	TESTQ R12, R12
	JNZ  pair16ask

	PCALIGN $32
pair16:
	VMOVDQU (SI), X0
	VMOVDQU (SI)(CX*1), X1
	VMOVDQU X0, (DI)
	VMOVDQU X1, (DI)(CX*1)
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  pair16
	JMP  done

	PCALIGN $32
exact16:
	VMOVDQU (SI), X0
	VMOVDQU X0, (DI)
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  exact16
	JMP  done

exact32:
	TESTQ R12, R12
	JNZ  exact32ask
	SUBQ $4, R9
	JLT  exact32rest
	LEAQ (R10)(R10*2), BX
	LEAQ (R11)(R11*2), AX

	PCALIGN $32
exact32four:
	VMOVDQU (SI), Y0
	VMOVDQU (SI)(R11*1), Y1
	VMOVDQU (SI)(R11*2), Y2
	VMOVDQU (SI)(AX*1), Y3
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, (DI)(R10*1)
	VMOVDQU Y2, (DI)(R10*2)
	VMOVDQU Y3, (DI)(BX*1)
	LEAQ (SI)(R11*4), SI
	LEAQ (DI)(R10*4), DI
	SUBQ $4, R9
	JGE  exact32four

exact32rest:
	ADDQ $4, R9
	JZ   done

exact32one:
	VMOVDQU (SI), Y0
	VMOVDQU Y0, (DI)
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  exact32one
	JMP  done

exact32ask:
	MOVQ R11, DX
	TESTQ $1, R13
	JZ   exact32next
	MOVQ R10, DX

	PCALIGN $32
exact32next:
	PREFETCHT0 (BX)
	VMOVDQU (SI), Y0
	VMOVDQU Y0, (DI)
	ADDQ R10, DI
	ADDQ R11, SI
	ADDQ DX, BX
	DECQ R9
	JNZ  exact32next
	JMP  done

pair32:
	LEAQ -32(R8), CX
	TESTQ R12, R12
	JNZ  pair32ask

	PCALIGN $32
pair32next:
	VMOVDQU (SI), Y0
	VMOVDQU (SI)(CX*1), Y1
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, (DI)(CX*1)
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  pair32next
	JMP  done

pair16ask:
	MOVQ R11, DX
	TESTQ $1, R13
	JZ   pair16more
	MOVQ R10, DX

	PCALIGN $32
pair16more:
	PREFETCHT0 (BX)
	VMOVDQU (SI), X0
	VMOVDQU (SI)(CX*1), X1
	VMOVDQU X0, (DI)
	VMOVDQU X1, (DI)(CX*1)
	ADDQ R10, DI
	ADDQ R11, SI
	ADDQ DX, BX
	DECQ R9
	JNZ  pair16more
	JMP  done

pair32ask:
	MOVQ R11, DX
	TESTQ $1, R13
	JZ   pair32more
	MOVQ R10, DX

	PCALIGN $32
pair32more:
	PREFETCHT0 (BX)
	VMOVDQU (SI), Y0
	VMOVDQU (SI)(CX*1), Y1
	VMOVDQU Y0, (DI)
	VMOVDQU Y1, (DI)(CX*1)
	ADDQ R10, DI
	ADDQ R11, SI
	ADDQ DX, BX
	DECQ R9
	JNZ  pair32more

done:
	VZEROUPPER
	RET

// func touchAhead(p unsafe.Pointer, n uint64, step int64)
TEXT ·touchAhead(SB), NOSPLIT, $0-24
	MOVQ  p+0(FP), DI
	MOVQ  n+8(FP), CX
	MOVQ  step+16(FP), DX
	TESTQ CX, CX
	JZ    out

next:
	PREFETCHT0 (DI)
	ADDQ DX, DI
	DECQ CX
	JNZ  next

out:
	RET

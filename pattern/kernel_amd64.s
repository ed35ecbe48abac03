#include "textflag.h"

// The wide kernels copy one row: n0 blocks of block bytes (64 or more; copyLinesAVX512: 64). flags: 1 unpack, 2 ask ahead, 4 store past the
// cache (whole lines only), 8 a line at a time.
//
// What was measured on Zen 5 decides the order of moves. In the first-level cache four loads before four stores keep one
// store a cycle; where lines come from the second level, each line's load and store together are up to a third faster.
// Asking ahead goes along the blocks: within a block aheadBytes on, over its last aheadBytes at the next blocks.
//
// DI dst, SI src, R8 block, R9 n, R10 dst step, R11 src step, R12 from a place in a block's last aheadBytes to the place
// asked for, R13 flags.

#define AHEAD 2048

#define LOADROW \
	MOVQ a+0(FP), R14; \
	MOVQ dst+8(FP), DI; \
	MOVQ src+16(FP), SI; \
	MOVQ 16(R14), R8; \
	MOVQ 24(R14), R9; \
	MOVQ 32(R14), R10; \
	MOVQ 40(R14), R11; \
	MOVQ 88(R14), R12; \
	MOVL 100(R14), R13

#define LOADLIST \
	MOVQ a+0(FP), R14; \
	MOVQ 24(R14), R15; \
	MOVQ 88(R14), R12; \
	MOVL 100(R14), R13; \
	MOVQ strided+8(FP), R10; \
	MOVQ packed+16(FP), R11; \
	MOVQ 72(R14), R8; \
	MOVQ 80(R14), R9; \
	SHLQ $4, R9; \
	ADDQ R8, R9

// PREFETCHW, which the assembler does not know.
#define ASKWRITE BYTE $0x0f; BYTE $0x0d; BYTE $0x0c; BYTE $0x03 // (BX)(AX*1)
#define ASKWRITE0 BYTE $0x0f; BYTE $0x0d; BYTE $0x0b // (BX)

// Four lines of 64 bytes, wherever they lie.
#define BATCH(S0, S1, S2, S3, D0, D1, D2, D3) \
	VMOVDQU64 S0, Z0; \
	VMOVDQU64 S1, Z1; \
	VMOVDQU64 S2, Z2; \
	VMOVDQU64 S3, Z3; \
	VMOVDQU64 Z0, D0; \
	VMOVDQU64 Z1, D1; \
	VMOVDQU64 Z2, D2; \
	VMOVDQU64 Z3, D3

#define LINES(S0, S1, S2, S3, D0, D1, D2, D3) \
	VMOVDQU64 S0, Z0; \
	VMOVDQU64 Z0, D0; \
	VMOVDQU64 S1, Z1; \
	VMOVDQU64 Z1, D1; \
	VMOVDQU64 S2, Z2; \
	VMOVDQU64 Z2, D2; \
	VMOVDQU64 S3, Z3; \
	VMOVDQU64 Z3, D3

#define STREAM(S0, S1, S2, S3, D0, D1, D2, D3) \
	VMOVDQU64 S0, Z0; \
	VMOVDQU64 S1, Z1; \
	VMOVDQU64 S2, Z2; \
	VMOVDQU64 S3, Z3; \
	VMOVNTDQ Z0, D0; \
	VMOVNTDQ Z1, D1; \
	VMOVNTDQ Z2, D2; \
	VMOVNTDQ Z3, D3

// Four blocks of one line; AX and CX are three steps.
#define FOUR(MOVES) \
	MOVES((SI), (SI)(R11*1), (SI)(R11*2), (SI)(AX*1), (DI), (DI)(R10*1), (DI)(R10*2), (DI)(CX*1)); \
	LEAQ (SI)(R11*4), SI; \
	LEAQ (DI)(R10*4), DI; \
	SUBQ $4, R9

#define ASKFOUR \
	PREFETCHT0 (BX); \
	PREFETCHT0 (BX)(R11*1); \
	PREFETCHT0 (BX)(R11*2); \
	PREFETCHT0 (BX)(AX*1); \
	LEAQ (BX)(R11*4), BX

// func copyLinesAVX512(a *copyArgs, dst, src unsafe.Pointer): blocks of one line; longer ones gain nothing from AVX-512.
TEXT ·copyLinesAVX512(SB), NOSPLIT, $0-24
	LOADROW
	TESTQ R9, R9
	JZ    done
	SUBQ  $4, R9
	JLT   b64rest
	LEAQ  (R11)(R11*2), AX
	LEAQ  (R10)(R10*2), CX
	LEAQ  (SI)(R12*1), BX
	TESTQ $4, R13
	JNZ   b64stream
	TESTQ $2, R13
	JNZ   b64ahead
	TESTQ $8, R13
	JNZ   b64near

	PCALIGN $32
b64hot:
	FOUR(BATCH)
	JGE b64hot
	JMP b64rest

	PCALIGN $32
b64near:
	FOUR(LINES)
	JGE b64near
	JMP b64rest

b64ahead:
	TESTQ $1, R13
	JNZ   b64write

	PCALIGN $32
b64read:
	ASKFOUR
	FOUR(BATCH)
	JGE b64read
	JMP b64rest

b64write:
	LEAQ (DI)(R12*1), BX

	PCALIGN $32
b64writeNext:
	ASKWRITE0
	ADDQ R10, BX
	ASKWRITE0
	ADDQ R10, BX
	ASKWRITE0
	ADDQ R10, BX
	ASKWRITE0
	ADDQ R10, BX
	FOUR(BATCH)
	JGE b64writeNext
	JMP b64rest

b64stream:
	TESTQ $1, R13
	JNZ   b64streamWrite

	PCALIGN $32
b64streamRead:
	ASKFOUR
	FOUR(STREAM)
	JGE b64streamRead
	SFENCE
	JMP b64rest

	PCALIGN $32
b64streamWrite:
	FOUR(STREAM)
	JGE b64streamWrite
	SFENCE

b64rest:
	ADDQ $4, R9
	JZ   done

b64one:
	VMOVDQU64 (SI), Z0
	VMOVDQU64 Z0, (DI)
	ADDQ R10, DI
	ADDQ R11, SI
	DECQ R9
	JNZ  b64one
	JMP  done

done:
	VZEROUPPER
	RET

// func copyWideAVX2(a *copyArgs, dst, src unsafe.Pointer)
TEXT ·copyWideAVX2(SB), NOSPLIT, $0-24
	LOADROW
	LEAQ  -AHEAD(R8), CX
	LEAQ  -64(R8), DX
	TESTQ R9, R9
	JZ    done
	TESTQ $4, R13
	JNZ   stream
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

	// BX is what AX is added to for asking ahead: first within the block, then at the next.
ahead:
	XORQ  AX, AX
	TESTQ $1, R13
	JNZ   aheadWrite
	LEAQ  AHEAD(SI), BX
	CMPQ  AX, CX
	JLT   aheadRead

aheadReadNext:
	LEAQ (SI)(R12*1), BX
	MOVQ R8, CX // no more turns

	PCALIGN $32
aheadRead:
	PREFETCHT0 (BX)(AX*1)
	VMOVDQU (SI)(AX*1), Y0
	VMOVDQU 32(SI)(AX*1), Y1
	VMOVDQU Y0, (DI)(AX*1)
	VMOVDQU Y1, 32(DI)(AX*1)
	ADDQ $64, AX
	CMPQ AX, DX
	JGT  aheadTail
	CMPQ AX, CX
	JLT  aheadRead
	JMP  aheadReadNext

aheadWrite:
	LEAQ AHEAD(DI), BX
	CMPQ AX, CX
	JLT  aheadWriteLine

aheadWriteNext:
	LEAQ (DI)(R12*1), BX
	MOVQ R8, CX

	PCALIGN $32
aheadWriteLine:
	ASKWRITE
	VMOVDQU (SI)(AX*1), Y0
	VMOVDQU 32(SI)(AX*1), Y1
	VMOVDQU Y0, (DI)(AX*1)
	VMOVDQU Y1, 32(DI)(AX*1)
	ADDQ $64, AX
	CMPQ AX, DX
	JGT  aheadTail
	CMPQ AX, CX
	JLT  aheadWriteLine
	JMP  aheadWriteNext

aheadTail:
	LEAQ -AHEAD(R8), CX
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
	CMPQ  R8, $AHEAD
	JLE   streamAsk
	MOVQ  $AHEAD, R12

streamAsk:
	TESTQ $1, R13
	JZ    streamBlock
	XORQ  R12, R12 // nothing far is read: ask for what is in use

streamBlock:
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
	JNZ  streamBlock
	SFENCE

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

// The list kernels copy n0 times the blocks of a list. flags: 1 unpack; the rest is in which of them runs.
//
// R8 entry, R9 end of the list, R10 strided memory, R11 packed memory, R12 from an entry to the one asked for, R13 flags,
// R14 arguments, R15 passes left. Within a block AX is the offset, CX the length, DX the length less 64, BX what is asked.

#define LINESTREAM(AT) \
	VMOVDQU64 (SI)(AT*1), Z0; \
	VMOVNTDQ Z0, (DI)(AT*1)

#define LINEY(AT) \
	VMOVDQU (SI)(AT*1), Y0; \
	VMOVDQU 32(SI)(AT*1), Y1; \
	VMOVDQU Y0, (DI)(AT*1); \
	VMOVDQU Y1, 32(DI)(AT*1)

#define NOASK
#define ASKENTRY \
	MOVQ (R8)(R12*1), BX; \
	ADDQ R10, BX
#define ASKLINE PREFETCHT0 (BX)(AX*1)

#define LIST(LINE, ENTRY, ASK) \
	TESTQ R15, R15; \
	JZ    done; \
next: \
	MOVQ (R8), SI; \
	MOVQ 8(R8), CX; \
	ADDQ R10, SI; \
	MOVQ R11, DI; \
	ADDQ CX, R11; \
	ENTRY; \
	ADDQ $16, R8; \
	XORQ AX, AX; \
	TESTQ $1, R13; \
	JZ   ready; \
	XCHGQ SI, DI; \
ready: \
	CMPQ CX, $64; \
	JLT  small; \
	LEAQ -64(CX), DX; \
line: \
	ASK; \
	LINE(AX); \
	ADDQ $64, AX; \
	CMPQ AX, DX; \
	JLE  line; \
	CMPQ AX, CX; \
	JEQ  copied; \
	LINE(DX); \
copied: \
	CMPQ R8, R9; \
	JLT  next; \
	MOVQ 72(R14), R8; \
	TESTQ $1, R13; \
	JZ   packed; \
	ADDQ 32(R14), R10; \
	DECQ R15; \
	JNZ  next; \
	JMP  done; \
packed: \
	ADDQ 40(R14), R10; \
	DECQ R15; \
	JNZ  next; \
	JMP  done; \
small: \
	ASK; \
	CMPQ CX, $32; \
	JLT  under32; \
	VMOVDQU (SI), Y0; \
	VMOVDQU -32(SI)(CX*1), Y1; \
	VMOVDQU Y0, (DI); \
	VMOVDQU Y1, -32(DI)(CX*1); \
	JMP  copied; \
under32: \
	CMPQ CX, $16; \
	JLT  under16; \
	VMOVDQU (SI), X0; \
	VMOVDQU -16(SI)(CX*1), X1; \
	VMOVDQU X0, (DI); \
	VMOVDQU X1, -16(DI)(CX*1); \
	JMP  copied; \
under16: \
	CMPQ CX, $8; \
	JLT  under8; \
	MOVQ (SI), AX; \
	MOVQ -8(SI)(CX*1), DX; \
	MOVQ AX, (DI); \
	MOVQ DX, -8(DI)(CX*1); \
	JMP  copied; \
under8: \
	CMPQ CX, $4; \
	JLT  under4; \
	MOVL (SI), AX; \
	MOVL -4(SI)(CX*1), DX; \
	MOVL AX, (DI); \
	MOVL DX, -4(DI)(CX*1); \
	JMP  copied; \
under4: \
	CMPQ CX, $2; \
	JLT  one; \
	MOVW (SI), AX; \
	MOVW -2(SI)(CX*1), DX; \
	MOVW AX, (DI); \
	MOVW DX, -2(DI)(CX*1); \
	JMP  copied; \
one: \
	MOVB (SI), AX; \
	MOVB AX, (DI); \
	JMP  copied; \
done: \
	VZEROUPPER

// func copyListStreamAVX512(a *copyArgs, strided, packed unsafe.Pointer): whole lines past the cache.
TEXT ·copyListStreamAVX512(SB), NOSPLIT, $0-24
	LOADLIST
	LIST(LINESTREAM, NOASK, NOASK)
	SFENCE
	RET

// func copyListStreamAheadAVX512(a *copyArgs, strided, packed unsafe.Pointer): the same, and asks ahead.
TEXT ·copyListStreamAheadAVX512(SB), NOSPLIT, $0-24
	LOADLIST
	LIST(LINESTREAM, ASKENTRY, ASKLINE)
	SFENCE
	RET

// func copyListAVX2(a *copyArgs, strided, packed unsafe.Pointer)
TEXT ·copyListAVX2(SB), NOSPLIT, $0-24
	LOADLIST
	LIST(LINEY, NOASK, NOASK)
	RET

// func copyListAheadAVX2(a *copyArgs, strided, packed unsafe.Pointer)
TEXT ·copyListAheadAVX2(SB), NOSPLIT, $0-24
	LOADLIST
	LIST(LINEY, ASKENTRY, ASKLINE)
	RET

// The kernels of even lists copy blocks of 64 or 128 bytes, all alike: four lines at a time, without a look at lengths. Longer
// ones gain nothing from that. Registers as in the list kernels, but CX is the block's bytes, DX the entry that begins the last whole
// group, and R13 scratch.

#define NEXTPASS(STEP) \
	ADDQ STEP(R14), R10; \
	DECQ R15; \
	JNZ  pass; \
	JMP  done

#define ENTRIES4 \
	MOVQ (R8), AX; \
	MOVQ 16(R8), BX; \
	MOVQ 32(R8), SI; \
	MOVQ 48(R8), DI

#define NEXT4 \
	ADDQ $64, R8; \
	ADDQ $256, R11; \
	CMPQ R8, DX

#define NEXT2 \
	ADDQ $32, R8; \
	ADDQ $256, R11; \
	CMPQ R8, DX

#define ASKONE(AT, ENTRY) \
	MOVQ ENTRY(R8)(R12*1), R13; \
	PREFETCHT0 AT(R10)(R13*1)

#define ASKENTRIES4 \
	ASKONE(0, 0); \
	ASKONE(0, 16); \
	ASKONE(0, 32); \
	ASKONE(0, 48)

#define ASKENTRIES2 \
	ASKONE(0, 0); \
	PREFETCHT0 64(R10)(R13*1); \
	ASKONE(0, 16); \
	PREFETCHT0 64(R10)(R13*1)

#define EVEN(MOVES, ASK4, ASK2) \
	MOVQ  16(R14), CX; \
	TESTQ R15, R15; \
	JZ    done; \
pass: \
	MOVQ  72(R14), R8; \
	TESTL $1, 100(R14); \
	JNZ   unpack; \
	CMPQ  CX, $128; \
	JEQ   pack2; \
	LEAQ  -48(R9), DX; \
	CMPQ  R8, DX; \
	JGE   pack1; \
pack4: \
	ENTRIES4; \
	ASK4; \
	MOVES((R10)(AX*1), (R10)(BX*1), (R10)(SI*1), (R10)(DI*1), (R11), 64(R11), 128(R11), 192(R11)); \
	NEXT4; \
	JLT   pack4; \
pack1: \
	CMPQ  R8, R9; \
	JGE   packed; \
	MOVQ  (R8), AX; \
	VMOVDQU64 (R10)(AX*1), Z0; \
	VMOVDQU64 Z0, (R11); \
	ADDQ  $16, R8; \
	ADDQ  $64, R11; \
	JMP   pack1; \
pack2: \
	LEAQ  -16(R9), DX; \
	CMPQ  R8, DX; \
	JGE   pack2last; \
pack2next: \
	MOVQ  (R8), AX; \
	MOVQ  16(R8), BX; \
	ASK2; \
	MOVES((R10)(AX*1), 64(R10)(AX*1), (R10)(BX*1), 64(R10)(BX*1), (R11), 64(R11), 128(R11), 192(R11)); \
	NEXT2; \
	JLT   pack2next; \
pack2last: \
	CMPQ  R8, R9; \
	JGE   packed; \
	MOVQ  (R8), AX; \
	VMOVDQU64 (R10)(AX*1), Z0; \
	VMOVDQU64 64(R10)(AX*1), Z1; \
	VMOVDQU64 Z0, (R11); \
	VMOVDQU64 Z1, 64(R11); \
	ADDQ  $128, R11; \
	JMP   packed; \
packed: \
	NEXTPASS(40); \
unpack: \
	CMPQ  CX, $128; \
	JEQ   unpack2; \
	LEAQ  -48(R9), DX; \
	CMPQ  R8, DX; \
	JGE   unpack1; \
unpack4: \
	ENTRIES4; \
	ASK4; \
	MOVES((R11), 64(R11), 128(R11), 192(R11), (R10)(AX*1), (R10)(BX*1), (R10)(SI*1), (R10)(DI*1)); \
	NEXT4; \
	JLT   unpack4; \
unpack1: \
	CMPQ  R8, R9; \
	JGE   unpacked; \
	MOVQ  (R8), AX; \
	VMOVDQU64 (R11), Z0; \
	VMOVDQU64 Z0, (R10)(AX*1); \
	ADDQ  $16, R8; \
	ADDQ  $64, R11; \
	JMP   unpack1; \
unpack2: \
	LEAQ  -16(R9), DX; \
	CMPQ  R8, DX; \
	JGE   unpack2last; \
unpack2next: \
	MOVQ  (R8), AX; \
	MOVQ  16(R8), BX; \
	ASK2; \
	MOVES((R11), 64(R11), 128(R11), 192(R11), (R10)(AX*1), 64(R10)(AX*1), (R10)(BX*1), 64(R10)(BX*1)); \
	NEXT2; \
	JLT   unpack2next; \
unpack2last: \
	CMPQ  R8, R9; \
	JGE   unpacked; \
	MOVQ  (R8), AX; \
	VMOVDQU64 (R11), Z0; \
	VMOVDQU64 64(R11), Z1; \
	VMOVDQU64 Z0, (R10)(AX*1); \
	VMOVDQU64 Z1, 64(R10)(AX*1); \
	ADDQ  $128, R11; \
	JMP   unpacked; \
unpacked: \
	NEXTPASS(32); \
done: \
	VZEROUPPER

// func copyEvenAVX512(a *copyArgs, strided, packed unsafe.Pointer)
TEXT ·copyEvenAVX512(SB), NOSPLIT, $0-24
	LOADLIST
	EVEN(BATCH, NOASK, NOASK)
	RET

// func copyEvenNearAVX512(a *copyArgs, strided, packed unsafe.Pointer)
TEXT ·copyEvenNearAVX512(SB), NOSPLIT, $0-24
	LOADLIST
	EVEN(LINES, NOASK, NOASK)
	RET

// func copyEvenAheadAVX512(a *copyArgs, strided, packed unsafe.Pointer)
TEXT ·copyEvenAheadAVX512(SB), NOSPLIT, $0-24
	LOADLIST
	EVEN(BATCH, ASKENTRIES4, ASKENTRIES2)
	RET

// func copyEvenStreamAVX512(a *copyArgs, strided, packed unsafe.Pointer): past the cache.
TEXT ·copyEvenStreamAVX512(SB), NOSPLIT, $0-24
	LOADLIST
	EVEN(STREAM, NOASK, NOASK)
	SFENCE
	RET

// func copyEvenStreamAheadAVX512(a *copyArgs, strided, packed unsafe.Pointer): the same, and asks ahead.
TEXT ·copyEvenStreamAheadAVX512(SB), NOSPLIT, $0-24
	LOADLIST
	EVEN(STREAM, ASKENTRIES4, ASKENTRIES2)
	SFENCE
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

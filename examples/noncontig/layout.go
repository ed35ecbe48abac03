package main

import "github.com/gobw/gobw/verbs"

// layout is Num blocks of Block bytes. The first bytes of two blocks are Stride bytes apart.
type layout struct{ Block, Num, Stride int }

// bytes is the size of a message.
func (l layout) bytes() int { return l.Block * l.Num }

// offset is where byte i of a message lies in the layout.
func (l layout) offset(i int) int { return i/l.Block*l.Stride + i%l.Block }

// pack copies the blocks into contiguous memory.
func (l layout) pack(contiguous, strided []byte) {
	// GAP 1: copy block after block.
	for i := range l.Num {
		copy(contiguous[i*l.Block:][:l.Block], strided[i*l.Stride:])
	}
	// END
}

// unpack copies contiguous memory into the blocks.
func (l layout) unpack(strided, contiguous []byte) {
	// GAP 2: the same, the other way round.
	for i := range l.Num {
		copy(strided[i*l.Stride:][:l.Block], contiguous[i*l.Block:])
	}
	// END
}

// lists are the blocks as scatter/gather lists of at most so many entries.
func (l layout) lists(mr verbs.MemoryRegion, entries int) (lists [][]verbs.SGE) {
	// GAP 3: make an entry of each block, and cut them into lists.
	var blocks []verbs.SGE
	for i := range l.Num {
		blocks = append(blocks, mr.SGE(i*l.Stride, l.Block))
	}
	for ; len(blocks) > entries; blocks = blocks[entries:] {
		lists = append(lists, blocks[:entries])
	}
	lists = append(lists, blocks)
	// END
	return lists
}

// value is what byte i of a message holds, so that a byte in a wrong place is seen.
func value(i int) byte { return byte(i*7 + i/251) }

package pattern_test

import (
	"fmt"

	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// A layout is the blocks of a message, relative to a base. This is the course's: four blocks of 64 bytes, 256 bytes
// apart.
func ExampleVector() {
	layout, err := pattern.Vector(64, 4, 256)
	check(err)
	for it := layout.Iterate(); ; {
		block, more := it.Next()
		if !more {
			break
		}
		fmt.Println(block.Offset, block.Length)
	}
	fmt.Println(layout.Size(), "bytes of", layout.Extent())
	// Output:
	// 0 64
	// 256 64
	// 512 64
	// 768 64
	// 256 bytes of 832
}

// Layouts have a text form, which commands take: see [pattern.Grammar]. This is a face of an array of 4 x 4 x 4
// numbers.
func ExampleParse() {
	layout, err := pattern.Parse("subarray:dims=4x4x4,face=y", pattern.ParseOptions{})
	check(err)
	fmt.Println(layout.Blocks(), "blocks of", layout.MeanBlockBytes(), "bytes,", layout.Stride(), "apart")
	// Output: 4 blocks of 32 bytes, 128 apart
}

// A device takes a limited number of entries to a request. The other end of a WRITE is contiguous, so each request
// names one address there.
func ExampleTransfer_Requests() {
	layout, err := pattern.Vector(64, 5, 256)
	check(err)
	transfer := pattern.Gathered(layout)
	for request := range transfer.Requests(pattern.Cut{Entries: 2}) {
		fmt.Print("to ", request[0].Remote, ":")
		for _, piece := range request {
			fmt.Printf(" %d+%d", piece.Local, piece.Length)
		}
		fmt.Println()
	}
	// Output:
	// to 0: 0+64 256+64
	// to 128: 512+64 768+64
	// to 256: 1024+64
}

// Packing is what scatter/gather lists compete with. Memory must lie outside the Go heap.
func ExampleKernels_Pack() {
	layout, err := pattern.Indexed([]pattern.Block{{Offset: 0, Length: 4}, {Offset: 100, Length: 6}})
	check(err)
	buf, err := verbs.Alloc(4096, verbs.MemoryOptions{})
	check(err)
	strided, packed := buf.Bytes()[:2048], buf.Bytes()[2048:]
	kernels := pattern.NewKernels(pattern.KernelOptions{})
	pack, err := kernels.Pack(layout, strided, packed)
	check(err)

	copy(strided, "pack")
	copy(strided[100:], "aged !")
	pack.Go(pack.Arg)
	fmt.Printf("%s\n", packed[:layout.Size()])
	check(kernels.Close())
	check(buf.Close())
	// Output: packaged !
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Command noncontig is the assignment of the course: blocks of data that lie apart in memory go to the other end, once
// by the NIC with scatter/gather lists, and once by the CPU, which packs them before or unpacks them after. It prints a
// table, and for each message size a line of JSON for a grader. Start "noncontig" at one end, and "noncontig HOST
// [SHAPE]" at the other one:
//
//	G-WR  a WRITE gathers strided data into contiguous memory of the peer
//	S-RD  a READ scatters contiguous memory of the peer into strided memory
//	GSSR  a SEND gathers, and the peer's RECV scatters
//
// Without an RDMA device it runs on the software device roce0, where the CPU does the work of the NIC: such figures say
// nothing of a NIC. "make starter" writes examples/starter, which lacks the three parts that begin with GAP.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/gobw/gobw/verbs"
)

const (
	largest  = 256 << 10 // bytes of a message
	smallest = 64        // bytes of a block
	factor   = 2         // a stride is so many blocks
	rounds   = 5         // of which the median counts
	messages = 20        // of a round
)

// task is what both ends do next. The zero task ends the program.
type task struct {
	Layout layout
	Opcode verbs.Opcode // of the active end
	Packs  bool         // the CPU packs or unpacks
}

func main() {
	var host string
	opcode := verbs.OpWrite
	if len(os.Args) > 1 {
		host = os.Args[1]
	}
	if len(os.Args) > 2 {
		shapes := map[string]verbs.Opcode{"G-WR": verbs.OpWrite, "S-RD": verbs.OpRead, "GSSR": verbs.OpSend}
		known := false
		if opcode, known = shapes[os.Args[2]]; !known {
			check(fmt.Errorf("no shape %q: there are G-WR, S-RD and GSSR", os.Args[2]))
		}
	}
	e := connect(host)
	good := true
	if host != "" {
		good = e.table(opcode)
		swap(e, task{})
	} else {
		for t := swap(e, task{}); t != (task{}); t = swap(e, task{}) {
			_, right := e.run(t, false)
			good = good && right
		}
	}
	e.close()
	if !good {
		fmt.Fprintln(os.Stderr, "a byte is not in its place")
		os.Exit(1)
	}
}

// table measures messages of all sizes and blocks, and tells whether each byte was in its place.
func (e *end) table(opcode verbs.Opcode) (good bool) {
	good = true
	fmt.Println("message B  block B  blocks  lists Gb/s  pack Gb/s  ratio")
	for size := largest / 16; size <= largest; size *= 4 {
		verified, crossover := true, 0
		for block := smallest; block <= 8192; block *= 2 {
			l := layout{block, size / block, block * factor}
			var lists, packs, ratios []float64
			for range rounds {
				list, right := e.run(task{l, opcode, false}, true)
				pack, rightToo := e.run(task{l, opcode, true}, true)
				verified = verified && right && rightToo
				lists, packs, ratios = append(lists, list), append(packs, pack), append(ratios, list/pack)
			}
			ratio := median(ratios)
			fmt.Printf("%9d  %7d  %6d  %10.2f  %9.2f  %5.2f\n", size, block, l.Num, median(lists), median(packs), ratio)
			switch { // the smallest block from which lists are not slower
			case ratio < 1:
				crossover = 0
			case crossover == 0:
				crossover = block
			}
		}
		check(json.NewEncoder(os.Stdout).Encode(map[string]any{
			"message_bytes": size, "verified": verified, "crossover_bytes": crossover,
		}))
		good = good && verified
	}
	return good
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// run does a task at one end. It returns the goodput in Gb/s, and whether both ends have all bytes in their places.
func (e *end) run(t task, active bool) (gigabits float64, right bool) {
	if active {
		swap(e, t)
	}
	// A WRITE arrives in contiguous memory, and a READ comes from there. All other data is strided.
	l, sends := t.Layout, active == (t.Opcode != verbs.OpRead)
	strided := sends && t.Opcode != verbs.OpRead || !sends && t.Opcode != verbs.OpWrite
	place := func(i int) *byte {
		if strided {
			return &e.strided[l.offset(i)]
		}
		return &e.contiguous[i]
	}
	clear(e.strided)
	clear(e.contiguous)
	for i := range l.bytes() {
		if sends {
			*place(i) = value(i)
		}
	}

	if active && t.Opcode == verbs.OpSend { // for what the peer says before each message
		check(e.qp.PostReceive(make([]verbs.ReceiveRequest, messages)))
	}
	swap(e, "ready")
	start := time.Now()
	for range messages {
		switch {
		case active:
			e.move(t)
		case t.Opcode == verbs.OpSend:
			e.receive(t)
		}
	}
	swap(e, "moved")
	gigabits = 8 * float64(l.bytes()) * messages / time.Since(start).Seconds() / 1e9

	right = true
	for i := range l.bytes() {
		right = right && *place(i) == value(i)
	}
	return gigabits, swap(e, right) && right
}

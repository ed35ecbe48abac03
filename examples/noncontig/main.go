// Command noncontig is the assignment of the course: blocks of data that lie apart in memory go to the other end, once
// by the NIC with scatter/gather lists, and once by the CPU, which packs them before or unpacks them after. It prints a
// table, and for each message size a line of JSON for a grader. Start "noncontig" at one end, and "noncontig HOST
// [SHAPE [MESSAGE]]" at the other one. MESSAGE is one size, in bytes, in place of three. The shapes:
//
//	G-WR  a WRITE gathers strided data into contiguous memory of the peer
//	S-RD  a READ scatters contiguous memory of the peer into strided memory
//	GSSR  a SEND gathers, and the peer's RECV scatters
//
// Without an RDMA device it runs on the software device roce0, where the CPU does the work of the NIC: such figures say
// nothing of a NIC. "make starter" writes examples/starter, which lacks the three parts that begin with GAP.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/examples/ends"
	"github.com/gobw/gobw/verbs"
)

const (
	largest  = 256 << 10 // bytes of a message
	smallest = 64        // bytes of a block
	factor   = 2         // a stride is so many blocks
	rounds   = 5         // of which the median counts
	round    = 2 << 20   // bytes of a round, in at least so many messages:
	least    = 20
)

// task is what both ends do next. The zero task ends the program.
type task struct {
	Layout layout
	Opcode verbs.Opcode // of the active end
	Packs  bool         // the CPU packs or unpacks
}

// messages is how many a round has. SENDs are few: the ends take turns.
func (t task) messages() int {
	if t.Opcode == verbs.OpSend {
		return least
	}
	return max(least, round/t.Layout.bytes())
}

var shapes = map[string]verbs.Opcode{"G-WR": verbs.OpWrite, "S-RD": verbs.OpRead, "GSSR": verbs.OpSend}

func main() {
	log.SetFlags(0)
	words := append(os.Args[1:], "", "", "")
	host, shape := words[0], strings.ToUpper(cmp.Or(words[1], "G-WR"))
	if _, known := shapes[shape]; !known {
		log.Fatalf("no shape %q: there are G-WR, S-RD and GSSR", shape)
	}
	sizes := []int{largest / 16, largest / 4, largest}
	if words[2] != "" {
		size, err := strconv.Atoi(words[2])
		if err != nil || size < smallest || size > largest {
			log.Fatalf("message %q: want %d to %d bytes", words[2], smallest, largest)
		}
		sizes = []int{size}
	}
	e := connect(host)
	good := true
	if host != "" {
		good = e.table(shape, sizes)
		ends.Swap(e.conn, task{})
	} else {
		for t := ends.Swap(e.conn, task{}); t != (task{}); t = ends.Swap(e.conn, task{}) {
			_, right := e.run(t, false)
			good = good && right
		}
	}
	e.close()
	if !good {
		log.Fatal("not verified: a byte is not in its place; one of the two ends says which")
	}
}

// table measures messages of all sizes and blocks, and tells whether each byte was in its place.
func (e *end) table(shape string, sizes []int) (good bool) {
	good = true
	opcode := shapes[shape]
	fmt.Println("message B  block B  blocks  lists Gb/s  pack Gb/s  ratio")
	for _, size := range sizes {
		verified, crossover := true, 0
		for block := smallest; verified && block <= min(size, 8192); block *= 2 {
			l := layout{block, size / block, block * factor}
			var lists, packs, ratios []float64
			for n := 0; n == 0 || n < rounds && verified; n++ {
				list, right := e.run(task{l, opcode, false}, true)
				pack, rightToo := e.run(task{l, opcode, true}, true)
				verified = verified && right && rightToo
				lists, packs, ratios = append(lists, list), append(packs, pack), append(ratios, list/pack)
			}
			ratio := median(ratios)
			if verified {
				fmt.Printf("%9d  %7d  %6d  %10.2f  %9.2f  %5.2f\n", size, block, l.Num, median(lists), median(packs), ratio)
			} else {
				fmt.Printf("%9d  %7d  %6d  %10s  %9s  %5s\n", size, block, l.Num, "-", "-", "-")
			}
			switch { // the smallest block from which lists are not slower
			case ratio < 1, !verified:
				crossover = 0
			case crossover == 0:
				crossover = block
			}
		}
		ends.Check(json.NewEncoder(os.Stdout).Encode(map[string]any{
			"shape": shape, "message_bytes": size, "verified": verified, "crossover_bytes": crossover,
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
		ends.Swap(e.conn, t)
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
		ends.Check(e.qp.PostReceive(make([]verbs.ReceiveRequest, t.messages())))
	}
	ends.Swap(e.conn, "ready")
	start := time.Now()
	for range t.messages() {
		switch {
		case active:
			e.move(t)
		case t.Opcode == verbs.OpSend:
			e.receive(t)
		}
	}
	ends.Swap(e.conn, "moved")
	gigabits = 8 * float64(l.bytes()*t.messages()) / time.Since(start).Seconds() / 1e9

	right = true
	wrong := func(format string, args ...any) {
		way := map[bool]string{false: "lists", true: "pack"}[t.Packs]
		log.Printf("%s, %d blocks of %d bytes: %s", way, l.Num, l.Block, fmt.Sprintf(format, args...))
		right = false
	}
	for i := 0; right && i < l.bytes(); i++ {
		if *place(i) != value(i) {
			wrong("byte %d of the message is %d, want %d", i, *place(i), value(i))
		}
	}
	for at := 0; right && strided && at < l.Num*l.Stride; at++ {
		if at%l.Stride >= l.Block && e.strided[at] != 0 {
			wrong("a byte of the gap behind block %d was written", at/l.Stride)
		}
	}
	return gigabits, ends.Swap(e.conn, right) && right
}

package plan

import (
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// Memory is what one end needs for a test, in bytes.
type Memory struct {
	Buffers  uint64 // registered: exactly what is allocated
	Requests uint64 // rings of prepared requests and receives
	Queues   uint64 // the device's queues: as large as a software device makes them
	Records  uint64 // recorders, and the records that are kept
}

// Total is their sum.
func (m Memory) Total() uint64 { return sum(m.Buffers, m.Requests, m.Queues, m.Records) }

func (m Memory) String() string {
	return fmt.Sprintf("buffers %s, requests %s, queues %s, records %s",
		mebibytes(m.Buffers), mebibytes(m.Requests), mebibytes(m.Queues), mebibytes(m.Records))
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// sum, product and align stick at the largest number instead of wrapping: what they make then is over every limit.
func sum(terms ...uint64) uint64 {
	total := uint64(0)
	for _, t := range terms {
		next, carry := bits.Add64(total, t, 0)
		if carry != 0 {
			return math.MaxUint64
		}
		total = next
	}
	return total
}

func product(factors ...uint64) uint64 {
	total := uint64(1)
	for _, f := range factors {
		high, low := bits.Mul64(total, f)
		if high != 0 {
			return math.MaxUint64
		}
		total = low
	}
	return total
}

func align(n, unit uint64) uint64 {
	if n > math.MaxUint64-unit {
		return math.MaxUint64
	}
	return (n + unit - 1) / unit * unit
}

// mostBytes is the largest memory of an end: what an address can name, with room to add.
const mostBytes = 1 << 46

// Buffers is where messages lie in an end's memory: for each queue pair a slot to send from, then for each a slot
// to receive into (perftest's order, so that peers find the addresses they are told). With a region for each queue
// pair every region holds one slot of each.
type Buffers struct {
	SendBytes int // slot to send from, per queue pair
	RecvBytes int // slot that the peer writes, or receives land in
	qps       int
	perQP     bool
	shared    bool // all queue pairs use the same two slots
	lead      int  // bytes before the first receive slot (UD: the header ends on a cache line)
}

// Regions is how many memory regions there are, and how large each is.
func (b Buffers) Regions() (count, bytes int) {
	if b.shared {
		b.qps, b.perQP = 1, false
	}
	if b.perQP {
		return b.qps, b.SendBytes + b.lead + b.RecvBytes
	}
	return 1, b.qps*(b.SendBytes+b.RecvBytes) + b.lead
}

// SlotsAt is the region of queue pair q's two slots, and their offsets in it.
func (b Buffers) SlotsAt(q int) (region, send, recv int) {
	if b.shared {
		return 0, 0, b.SendBytes
	}
	if b.perQP {
		return q, 0, b.SendBytes + b.lead
	}
	return 0, q * b.SendBytes, b.qps*b.SendBytes + b.lead + q*b.RecvBytes
}

// Queues is what a queue pair and its completion queues hold.
type Queues struct {
	SendWRs, RecvWRs   int // work requests outstanding, per queue pair
	SendSGEs, RecvSGEs int
	Inline             int // bytes; negative: as many as the device has, up to this
}

// Bytes that a software device and a job hold for each entry; a test holds them against the types' sizes.
const (
	sendEntryBytes    = 128 // of a send queue
	receiveEntryBytes = 64  // of a receive queue
	completionBytes   = 64  // of a completion queue
	preparedBytes     = 256 // a request as a device has prepared it
	queuePairBytes    = 4096
	recordBytes       = 64 << 10 // of a result, with its histogram and its series
)

// ringBytes is what a message of so many requests holds, each with so many entries.
func ringBytes(requests int, sges uint64) uint64 {
	one := unsafe.Sizeof(job.Message{}) + unsafe.Sizeof(job.Step{}) + unsafe.Sizeof(verbs.SendRequest{}) + preparedBytes
	return product(uint64(requests), sum(uint64(one), product(2*uint64(unsafe.Sizeof(verbs.SGE{})), sges)))
}

func receiveBytes(sges uint64) uint64 {
	one := 2*unsafe.Sizeof(verbs.ReceiveRequest{}) + unsafe.Sizeof(job.Work{}) // a round has a turned copy
	return sum(uint64(one), product(uint64(unsafe.Sizeof(verbs.SGE{})), sges))
}

// bytes is what a device holds for the queues of a test: those of each queue pair, and completion queues, of which each
// thread has its own for as many queue pairs.
func (q Queues) bytes(qps, threads uint64) uint64 {
	sge := uint64(unsafe.Sizeof(verbs.SGE{}))
	inline := uint64(max(q.Inline, -q.Inline))
	send := product(powerOfTwo(q.SendWRs), sum(sendEntryBytes, product(sge, uint64(q.SendSGEs)), inline))
	recv := product(powerOfTwo(q.RecvWRs), sum(receiveEntryBytes, product(sge, uint64(q.RecvSGEs))))
	completions := product(2*completionBytes, sum(uint64(q.SendWRs), uint64(q.RecvWRs)))
	return sum(product(qps, sum(queuePairBytes, send, recv)), product(align(qps, threads), completions))
}

func powerOfTwo(n int) uint64 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len(uint(n-1))
}

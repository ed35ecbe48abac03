package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/verbs"
)

// Operation is what a test does; the spelling is the command's name.
type Operation string

// Operations.
const (
	Write  Operation = "write"
	Read   Operation = "read"
	Send   Operation = "send"
	Atomic Operation = "atomic"
	Flush  Operation = "flush"
)

// Row is one operation as data. Nothing outside this table and the runners asks which operation a test has.
type Row struct {
	Operation Operation
	Opcode    verbs.Opcode
	Text      string // as a sentence names it: "RDMA WRITE"

	Transports []verbs.Transport
	Access     verbs.Access // that the peer needs to this end's memory
	// Responded operations (READ, atomics) are answered with data, and the devices limit how many are in flight. In a
	// latency test of any other operation the target sends one message back, and half the round trip is reported.
	Responded bool
	// TargetFirst: in a latency test the target moves first, as in perftest, which then
	// registers memory without relaxed ordering.
	TargetFirst bool
	// ByLastByte: the end that waits for a message sees its last byte change, so that this must be written last.
	ByLastByte bool
	// Counter operations change a counter of the peer's instead of moving a message; the size is always 8.
	Counter bool
	// Flushed messages end with a READ of their last byte: its answer tells that they have reached the
	// peer's memory, where a WRITE's acknowledgement tells only that the peer's device has them (IBTA
	// annex A19.2; SNIA's "appliance" method).
	Flushed bool
	// Traceless operations leave nothing behind that tells how often they ran: there is nothing to compare.
	Traceless bool

	// Inline is how much perftest sends inline by default in a latency test, on UD InlineUD; 0: nothing.
	Inline, InlineUD int
	Iterations       uint64 // perftest's default of a bandwidth test
	Perftest         Perftest
}

// Perftest is what perftest calls an operation; the zero value of one that it does not have.
type Perftest struct {
	Tool   string   // the middle of the program's name: "write" of ib_write_bw
	Code   uint32   // of the verb, in the parameter negotiation
	Atomic uint32   // of the atomic type there
	Title  []string // of the output, before "BW" or "Latency"
	Name   string   // of the atomic type, as the flag spells it
}

// Rows is the table of operations, with their variants. The first row of an operation is its default.
func Rows() []Row {
	connected := []verbs.Transport{verbs.RC, verbs.UC}
	all := []verbs.Transport{verbs.RC, verbs.UC, verbs.UD}
	reliable := []verbs.Transport{verbs.RC}
	return []Row{
		{
			Operation: Write, Opcode: verbs.OpWrite, Text: "RDMA WRITE", Transports: connected, Access: verbs.AccessRemoteWrite,
			TargetFirst: true, ByLastByte: true, Inline: 220, Iterations: 5000,
			Perftest: Perftest{Tool: "write", Code: 2, Title: []string{"RDMA_Write"}},
		},
		{
			Operation: Write, Opcode: verbs.OpWriteWithImmediate, Text: "RDMA WRITE with immediate", Transports: connected,
			Access: verbs.AccessRemoteWrite, TargetFirst: true, Inline: 220, Iterations: 5000,
			Perftest: Perftest{Tool: "write", Code: 3, Title: []string{"RDMA_Write_imm"}},
		},
		{
			Operation: Read, Opcode: verbs.OpRead, Text: "RDMA READ", Transports: reliable, Access: verbs.AccessRemoteRead,
			Responded: true, Iterations: 1000,
			Perftest: Perftest{Tool: "read", Code: 4, Title: []string{"RDMA_Read"}},
		},
		{
			Operation: Send, Opcode: verbs.OpSend, Text: "SEND", Transports: all, Access: verbs.AccessRemoteWrite,
			Inline: 236, InlineUD: 188, Iterations: 1000,
			Perftest: Perftest{Tool: "send", Code: 0, Title: []string{"Send"}},
		},
		{
			Operation: Send, Opcode: verbs.OpSendWithImmediate, Text: "SEND with immediate", Transports: all,
			Access: verbs.AccessRemoteWrite,
			Inline: 236, InlineUD: 188, Iterations: 1000,
			Perftest: Perftest{Tool: "send", Code: 1, Title: []string{"Send_imm"}},
		},
		{
			Operation: Atomic, Opcode: verbs.OpFetchAdd, Text: "atomics", Transports: reliable, Access: verbs.AccessRemoteAtomic,
			Responded: true, Counter: true, Iterations: 1000,
			Perftest: Perftest{
				Tool: "atomic", Code: 5, Atomic: 1, Title: []string{"Atomic", "FETCH_AND_ADD"}, Name: "FETCH_AND_ADD",
			},
		},
		{
			Operation: Atomic, Opcode: verbs.OpCompareSwap, Text: "atomics", Transports: reliable,
			Access:    verbs.AccessRemoteAtomic,
			Responded: true, Counter: true, Traceless: true, Iterations: 1000,
			Perftest: Perftest{
				Tool: "atomic", Code: 5, Atomic: 0, Title: []string{"Atomic", "CMP_AND_SWAP"}, Name: "CMP_AND_SWAP",
			},
		},
		{
			Operation: Flush, Opcode: verbs.OpWrite, Flushed: true, Text: "RDMA WRITE with a READ that flushes it",
			Transports: reliable,
			Access:     verbs.AccessRemoteWrite | verbs.AccessRemoteRead, Responded: true, Inline: 220, Iterations: 5000,
		},
	}
}

// Operations lists the operations in the order of the commands.
func Operations() []Operation {
	var all []Operation
	for _, r := range Rows() {
		if !slices.Contains(all, r.Operation) {
			all = append(all, r.Operation)
		}
	}
	return all
}

// Requests are those that make up a message, in order. The completion of the last is the message's.
func (r Row) Requests() []verbs.Opcode {
	if r.Flushed {
		return []verbs.Opcode{r.Opcode, verbs.OpRead}
	}
	return []verbs.Opcode{r.Opcode}
}

// Fetches tells whether what moves comes to the initiator.
func (r Row) Fetches() bool { return r.Opcode == verbs.OpRead || r.Counter }

// PerftestHas tells whether perftest has the operation.
func (r Row) PerftestHas() bool { return r.Perftest.Tool != "" }

// NeedsReceive tells whether a message takes a receive at the peer.
func (r Row) NeedsReceive() bool { return r.Opcode.NeedsReceive() }

// Addressed tells whether a request names memory of the peer's; else the data goes to where a receive names it.
func (r Row) Addressed() bool {
	return r.Opcode != verbs.OpSend && r.Opcode != verbs.OpSendWithImmediate && r.Opcode != verbs.OpSendWithInvalidate
}

// MayInline tells whether the data can travel in the request itself.
func (r Row) MayInline() bool { return !r.Fetches() }

// Supports tells whether a transport has the operation.
func (r Row) Supports(t verbs.Transport) bool { return slices.Contains(r.Transports, t) }

// TransportText lists the transports: "RC or UC".
func (r Row) TransportText() string { return alternatives(r.Transports) }

// alternatives are names with an "or" before the last.
func alternatives[T any](list []T) string {
	names := make([]string, len(list))
	for i, x := range list {
		names[i] = fmt.Sprint(x)
	}
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Row is the operation that the spec names, with its variant.
func (s *Spec) Row() (Row, error) {
	immediate := s.Operation == Write && s.WriteImm || s.Operation == Send && s.SendImm
	for _, r := range Rows() {
		if r.Operation == s.Operation && r.Opcode.HasImmediate() == immediate &&
			(!r.Counter || s.AtomicType == 0 || s.AtomicType == r.Opcode) {
			return r, nil
		}
	}
	if !slices.Contains(Operations(), s.Operation) {
		return Row{}, fmt.Errorf("operation %q: want %s", s.Operation, alternatives(Operations()))
	}
	return Row{}, fmt.Errorf("atomic type %v: want FETCH_AND_ADD or CMP_AND_SWAP", s.AtomicType)
}

// RowOf is the default row of an operation.
func RowOf(op Operation) Row {
	r, err := (&Spec{Operation: op}).Row()
	if err != nil {
		return Row{Operation: op}
	}
	return r
}

// RowOfPerftest is the row that perftest's negotiation names.
func RowOfPerftest(code, atomic uint32) (Row, bool) {
	for _, r := range Rows() {
		if r.PerftestHas() && r.Perftest.Code == code && (!r.Counter || r.Perftest.Atomic == atomic) {
			return r, true
		}
	}
	return Row{}, false
}

// Choose makes s a test of the row's operation and variant.
func (s *Spec) Choose(r Row) {
	s.Operation = r.Operation
	s.WriteImm = r.Opcode == verbs.OpWriteWithImmediate
	s.SendImm = r.Opcode == verbs.OpSendWithImmediate
	s.AtomicType = 0
	if r.Counter {
		s.AtomicType = r.Opcode
	}
}

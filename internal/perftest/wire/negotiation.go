package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// Lengths of the parameter negotiation: with the mlx5 mask at its end (every distribution's build) and without.
const (
	NegotiationBytes       = 320
	NegotiationBytesNoMLX5 = 312
)

// AtOutstanding is where the message has max_qp_rd_atom: byte 144 of the sender's ibv_device_attr, which begins at byte
// 80. The sender copies this struct from its memory; we take it for little-endian.
const AtOutstanding = 80 + 144

// unlessDuration is the duration that perftest fills in where the test counts iterations.
const unlessDuration = 5

// The parameters, in the order in which they are compared.
const (
	method = iota // one size, all sizes, or for ever
	connection
	verb
	kind
	atomicType
	stop     // by iterations or by duration
	unitCode // of reports
	messageSize
	iterations
	queuePairs
	duration  // seconds
	firstFlag // from here on options that are on or off
)

// flagRDMA is use_rdma_cm: the control connection is RDMA CM's, with or without -R. This end sets no other flag.
const flagRDMA = firstFlag + 1

// layout lists the parameters: where a big-endian number is, how many bytes it has, what perftest calls it, and the
// words of its values. perftest always sends 0 for use_write_with_imm: the verb says it.
const layout = `
 0 4 test_method RUN_REGULAR RUN_ALL RUN_INFINITELY
 4 4 connection_type RC UC UD RawEth XRC DC SRD
 8 4 verb SEND SEND_IMM WRITE WRITE_IMM READ ATOMIC
12 4 tst LAT BW LAT_BY_BW FS_RATE
16 4 atomicType CMP_AND_SWAP FETCH_AND_ADD
20 4 test_type ITERATIONS DURATION
24 4 report_fmt GBS MBS
32 8 size
40 8 iters
52 4 num_of_qps
56 4 duration
48 4 aes_xts OFF ON
60 4 use_rdma_cm OFF ON
68 4 no_enhanced_reorder OFF ON
72 4 sig_offload OFF ON
76 4 data_validation OFF ON
64 4 use_write_with_imm OFF ON
`

// parameter is a row of the layout.
type parameter struct {
	at, bytes int
	name      string
	words     []string
}

func parameters() (all []parameter) {
	for line := range strings.Lines(strings.TrimSpace(layout)) {
		var p parameter
		_, _ = fmt.Sscan(line, &p.at, &p.bytes, &p.name)
		p.words = strings.Fields(line)[3:]
		all = append(all, p)
	}
	return all
}

// in is the parameter's place in a message.
func (p parameter) in(m []byte) []byte { return m[p.at:][:p.bytes] }

// say is perftest's word for a value.
func (p parameter) say(v uint64) string {
	if v < uint64(len(p.words)) {
		return p.words[v]
	}
	return strconv.FormatUint(v, 10)
}

// transports lists our transports in the order of perftest's numbers.
func transports() []verbs.Transport { return []verbs.Transport{verbs.RC, verbs.UC, verbs.UD} }

// negotiation is what two ends of perftest 6.28 and later compare before they exchange keys.
type negotiation struct {
	values      [firstFlag + 6]uint64
	Outstanding int32 // max_qp_rd_atom of the sender's device
}

// Encode makes the message in the form of the given length.
func (n negotiation) Encode(length int) []byte {
	m := make([]byte, length)
	for i, p := range parameters() {
		copy(p.in(m), binary.BigEndian.AppendUint64(nil, n.values[i])[8-p.bytes:])
	}
	binary.LittleEndian.PutUint32(m[AtOutstanding:], uint32(n.Outstanding))
	return m
}

// ParseNegotiation decodes a message of either length.
func ParseNegotiation(m []byte) (negotiation, error) {
	if len(m) != NegotiationBytes && len(m) != NegotiationBytesNoMLX5 {
		return negotiation{}, fmt.Errorf("parameter negotiation: %d bytes, want %d or %d", len(m), NegotiationBytes,
			NegotiationBytesNoMLX5)
	}
	n := negotiation{Outstanding: int32(binary.LittleEndian.Uint32(m[AtOutstanding:]))}
	for i, p := range parameters() {
		for _, digit := range p.in(m) {
			n.values[i] = n.values[i]<<8 | uint64(digit)
		}
		if i >= firstFlag {
			n.values[i] = min(n.values[i], 1)
		}
	}
	return n, nil
}

// NegotiationOf is what perftest would send for a plan.
func NegotiationOf(p *plan.Spec, gbits bool, mtu verbs.MTU, outstanding int) negotiation {
	row, _ := p.Row()
	bit := map[bool]uint64{true: 1}
	n := negotiation{Outstanding: int32(outstanding)}
	n.values = [len(n.values)]uint64{
		method:      bit[p.AllSizes],
		connection:  uint64(max(0, slices.Index(transports(), p.Transport))),
		verb:        uint64(row.Perftest.Code),
		kind:        bit[p.Kind == plan.Bandwidth],
		atomicType:  uint64(row.Perftest.Atomic),
		stop:        bit[p.Duration > 0],
		unitCode:    bit[!gbits],
		messageSize: uint64(p.LargestSize()),
		iterations:  p.Iterations,
		queuePairs:  uint64(max(p.QPs, 1)),
		duration:    unlessDuration,
	}
	if p.Infinite {
		n.values[method] = 2
	}
	if p.Duration > 0 {
		n.values[iterations], n.values[duration] = 0, uint64(p.Duration/time.Second)
	}
	if p.AllSizes {
		n.values[messageSize] = plan.AllSizesBytes
	}
	if p.AllSizes && p.Transport == verbs.UD {
		n.values[messageSize] = uint64(mtu.Bytes())
	}
	return n
}

// plan is the test that a client's negotiation describes. A negotiation does not say whether the test has both
// directions (-b): such a test must be given to the server.
func (n negotiation) plan() (*plan.Spec, error) {
	p := &plan.Spec{QPs: int(min(n.values[queuePairs], 1<<30)), Iterations: n.values[iterations], Kind: plan.Latency}
	served := transports()
	if n.values[connection] >= uint64(len(served)) {
		return nil, fmt.Errorf("the client wants connection type %d (raw Ethernet, XRC, DC or SRD): only RC, "+
			"UC and UD are served", n.values[connection])
	}
	p.Transport = served[n.values[connection]]
	row, known := plan.RowOfPerftest(uint32(n.values[verb]), uint32(n.values[atomicType]))
	if !known {
		return nil, fmt.Errorf("the client wants verb %d with atomic type %d, which is none of perftest's", n.values[verb],
			n.values[atomicType])
	}
	p.Choose(row)
	if n.values[kind] == 1 {
		p.Kind = plan.Bandwidth
	}
	if n.values[stop] == 1 {
		p.Iterations, p.Duration = 0, time.Duration(n.values[duration])*time.Second
	}
	for i, f := range parameters() {
		if i >= firstFlag && n.values[i] != 0 {
			return nil, fmt.Errorf("the client wants %s, which this server does not have", f.name)
		}
	}
	size := n.values[messageSize]
	if size > plan.MaxMessage {
		return nil, fmt.Errorf("the client wants messages of %d bytes: the limit is %d", size, plan.MaxMessage)
	}
	switch n.values[method] {
	case 0:
		p.Sizes = []int{int(size)}
	case 1:
		p.AllSizes, p.Sizes = true, plan.PowersOfTwo(2, int(min(size, plan.AllSizesBytes)))
	case 2:
		p.Infinite = true
		p.Sizes = []int{int(size)}
	default:
		return nil, fmt.Errorf("the client wants test method %d, which is none of perftest's", n.values[method])
	}
	if _, err := plan.Settle(*p, plan.Limits{}, plan.Peer{Perftest: true}, plan.Policy{}); err != nil {
		return nil, fmt.Errorf("the client's parameters: %w", err)
	}
	return p, nil
}

// MismatchError is what differs between two ends that negotiate, each difference in perftest's words.
type MismatchError struct{ Lines []string }

func (e *MismatchError) Error() string {
	return "the ends differ in options that must be the same: " + strings.Join(e.Lines, "; ")
}

// mismatches compares two ends' parameters as perftest does.
func (n negotiation) mismatches(peer negotiation) error {
	var wrong []string
	for i, p := range parameters() {
		if mine, theirs := n.values[i], peer.values[i]; mine != theirs {
			wrong = append(wrong, fmt.Sprintf("%s mismatch: local=%s, remote=%s", p.name, p.say(mine), p.say(theirs)))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &MismatchError{wrong}
}

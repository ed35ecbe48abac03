package perftest

import (
	"encoding/binary"
	"fmt"
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

// Offsets of the negotiation's fields. Fields are big-endian; the device attributes are the sender's memory as it is.
const (
	atMethod      = 0
	atConnection  = 4
	atVerb        = 8
	atKind        = 12
	atAtomic      = 16
	atStop        = 20
	atUnit        = 24
	atSize        = 32 // 8 bytes
	atIterations  = 40 // 8 bytes
	atQPs         = 52
	atDuration    = 56
	AtOutstanding = 80 + 144 // max_qp_rd_atom inside ibv_device_attr, little-endian here
)

// unlessDuration is the duration that perftest fills in where the test counts iterations.
const unlessDuration = 5

// negotiation is what two ends of perftest 6.28 and later compare before they exchange keys.
type negotiation struct {
	Method      uint32 // 0 one size, 1 all sizes, 2 until killed
	Connection  uint32 // 0 RC, 1 UC, 2 UD, 3 raw Ethernet, 4 XRC, 5 DC, 6 SRD
	Verb        uint32 // 0 send, 1 send with immediate, 2 write, 3 write with immediate, 4 read, 5 atomic
	Kind        uint32 // 0 latency, 1 bandwidth
	Atomic      uint32 // 0 compare and swap, 1 fetch and add
	Stop        uint32 // 0 iterations, 1 duration
	Unit        uint32 // 0 Gb/s, 1 MiB/s
	Size        uint64
	Iterations  uint64
	QPs         uint32
	Duration    uint32             // seconds
	Features    [featureCount]bool // AES, control over RDMA CM, ...
	Outstanding int32              // max_qp_rd_atom of the sender's device
}

// feature is a perftest option that the negotiation carries as a bit.
type feature struct {
	at          int
	field, name string
}

const (
	featureCount = 6
	featureRDMA  = 1 // the one of them that we have; it tells nothing of -R
)

// features lists them; write with immediate (offset 64) is sent as 0 by perftest and told by the verb.
func features() [featureCount]feature {
	return [featureCount]feature{
		{48, "aes_xts", "AES-XTS encryption (--aes_xts)"},
		{60, "use_rdma_cm", "control over RDMA CM (-z, -R)"},
		{68, "no_enhanced_reorder", "no enhanced reorder (--no_enhanced_reorder)"},
		{72, "sig_offload", "signature offload (--sig_offload)"},
		{76, "data_validation", "data validation (--data_validation)"},
		{64, "use_write_with_imm", "write with immediate (as a flag)"},
	}
}

// Encode makes the message in the form of the given length.
func (n negotiation) Encode(length int) []byte {
	m := make([]byte, length)
	put := func(at int, v uint32) { binary.BigEndian.PutUint32(m[at:], v) }
	put(atMethod, n.Method)
	put(atConnection, n.Connection)
	put(atVerb, n.Verb)
	put(atKind, n.Kind)
	put(atAtomic, n.Atomic)
	put(atStop, n.Stop)
	put(atUnit, n.Unit)
	binary.BigEndian.PutUint64(m[atSize:], n.Size)
	binary.BigEndian.PutUint64(m[atIterations:], n.Iterations)
	put(atQPs, n.QPs)
	put(atDuration, n.Duration)
	for i, f := range features() {
		if n.Features[i] {
			put(f.at, 1)
		}
	}
	binary.LittleEndian.PutUint32(m[AtOutstanding:], uint32(n.Outstanding))
	return m
}

// ParseNegotiation decodes a message of either length.
func ParseNegotiation(b []byte) (negotiation, error) {
	if len(b) != NegotiationBytes && len(b) != NegotiationBytesNoMLX5 {
		return negotiation{}, fmt.Errorf("parameter negotiation: %d bytes, want %d or %d", len(b), NegotiationBytes, NegotiationBytesNoMLX5)
	}
	get := func(at int) uint32 { return binary.BigEndian.Uint32(b[at:]) }
	n := negotiation{
		Method: get(atMethod), Connection: get(atConnection), Verb: get(atVerb), Kind: get(atKind), Atomic: get(atAtomic),
		Stop: get(atStop), Unit: get(atUnit),
		Size: binary.BigEndian.Uint64(b[atSize:]), Iterations: binary.BigEndian.Uint64(b[atIterations:]),
		QPs: get(atQPs), Duration: get(atDuration),
		Outstanding: int32(binary.LittleEndian.Uint32(b[AtOutstanding:])),
	}
	for i, f := range features() {
		n.Features[i] = get(f.at) != 0
	}
	return n, nil
}

// NegotiationOf is what perftest would send for a plan.
func NegotiationOf(p *plan.Spec, gbits bool, mtu verbs.MTU, outstanding int) negotiation {
	n := negotiation{QPs: uint32(max(p.QPs, 1)), Duration: unlessDuration, Iterations: p.Iterations, Outstanding: int32(outstanding), Unit: 1}
	if gbits {
		n.Unit = 0
	}
	switch {
	case p.Infinite:
		n.Method = 2
	case p.AllSizes:
		n.Method = 1
	}
	switch p.Transport {
	case verbs.UC:
		n.Connection = 1
	case verbs.UD:
		n.Connection = 2
	default:
	}
	if row, err := p.Row(); err == nil {
		n.Verb, n.Atomic = row.Perftest.Code, row.Perftest.Atomic
	}
	if p.Kind == plan.Bandwidth {
		n.Kind = 1
	}
	if p.Duration > 0 {
		n.Stop, n.Iterations, n.Duration = 1, 0, uint32(p.Duration/time.Second)
	}
	n.Size = uint64(p.LargestSize())
	if p.AllSizes {
		n.Size = plan.AllSizesBytes
		if p.Transport == verbs.UD {
			n.Size = uint64(mtu.Bytes())
		}
	}
	return n
}

// plan is the test that a client's negotiation describes. It tells nothing of both directions (-b): such a client needs
// a server that was told.
func (n negotiation) plan() (*plan.Spec, error) {
	p := &plan.Spec{QPs: int(min(n.QPs, 1<<30)), Iterations: n.Iterations, Kind: plan.Latency}
	switch n.Connection {
	case 0:
		p.Transport = verbs.RC
	case 1:
		p.Transport = verbs.UC
	case 2:
		p.Transport = verbs.UD
	default:
		return nil, fmt.Errorf("the client wants connection type %d (raw Ethernet, XRC, DC or SRD): only RC, UC and UD are served", n.Connection)
	}
	row, known := plan.RowOfPerftest(n.Verb, n.Atomic)
	if !known {
		return nil, fmt.Errorf("the client wants verb %d with atomic type %d, which is none of perftest's", n.Verb, n.Atomic)
	}
	p.Choose(row)
	if n.Kind == 1 {
		p.Kind = plan.Bandwidth
	}
	if n.Stop == 1 {
		p.Iterations, p.Duration = 0, time.Duration(n.Duration)*time.Second
	}
	for i, f := range features() {
		if n.Features[i] {
			return nil, fmt.Errorf("the client wants %s, which this server does not have", f.name)
		}
	}
	if n.Size > plan.MaxMessage {
		return nil, fmt.Errorf("the client wants messages of %d bytes: the limit is %d", n.Size, plan.MaxMessage)
	}
	switch n.Method {
	case 0:
		p.Sizes = []int{int(n.Size)}
	case 1:
		p.AllSizes, p.Sizes = true, plan.PowersOfTwo(2, int(min(n.Size, plan.AllSizesBytes)))
	case 2:
		p.Infinite = true
		p.Sizes = []int{int(n.Size)}
	default:
		return nil, fmt.Errorf("the client wants test method %d, which is none of perftest's", n.Method)
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
	differ := func(name string, mine, theirs uint64, words ...string) {
		say := func(v uint64) string {
			if v < uint64(len(words)) {
				return words[v]
			}
			return strconv.FormatUint(v, 10)
		}
		if mine != theirs {
			wrong = append(wrong, fmt.Sprintf("%s mismatch: local=%s, remote=%s", name, say(mine), say(theirs)))
		}
	}
	differ("test_method", uint64(n.Method), uint64(peer.Method), "RUN_REGULAR", "RUN_ALL", "RUN_INFINITELY")
	differ("connection_type", uint64(n.Connection), uint64(peer.Connection), "RC", "UC", "UD", "RawEth", "XRC", "DC", "SRD")
	differ("verb", uint64(n.Verb), uint64(peer.Verb), "SEND", "SEND_IMM", "WRITE", "WRITE_IMM", "READ", "ATOMIC")
	differ("tst", uint64(n.Kind), uint64(peer.Kind), "LAT", "BW", "LAT_BY_BW", "FS_RATE")
	differ("atomicType", uint64(n.Atomic), uint64(peer.Atomic), "CMP_AND_SWAP", "FETCH_AND_ADD")
	differ("test_type", uint64(n.Stop), uint64(peer.Stop), "ITERATIONS", "DURATION")
	differ("report_fmt", uint64(n.Unit), uint64(peer.Unit), "GBS", "MBS")
	differ("size", n.Size, peer.Size)
	differ("iters", n.Iterations, peer.Iterations)
	differ("num_of_qps", uint64(n.QPs), uint64(peer.QPs))
	differ("duration", uint64(n.Duration), uint64(peer.Duration))
	for i, f := range features() {
		if n.Features[i] != peer.Features[i] {
			wrong = append(wrong, fmt.Sprintf("%s mismatch: local=%s, remote=%s", f.field, offOn(n.Features[i]), offOn(peer.Features[i])))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return &MismatchError{wrong}
}

func offOn(is bool) string {
	if is {
		return "ON"
	}
	return "OFF"
}

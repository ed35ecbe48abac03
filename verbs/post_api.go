package verbs

import (
	"bytes"
	"fmt"
)

// PostAPI is the interface by which send requests reach a device of libibverbs.
type PostAPI uint8

// Posting interfaces.
const (
	PostAuto PostAPI = iota // the one that stock perftest uses on this device
	PostSend                //  ibv_post_send: a list of structs
	PostWR                  // ibv_wr_*: a call for each part of a request; of queue pairs that ibv_create_qp_ex makes
)

func postAPIs() []string { return []string{"auto", "post_send", "wr"} }

func (a PostAPI) String() string { return enumString(a, postAPIs(), "PostAPI") }

// MarshalText spells the interface as String does.
func (a PostAPI) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads auto, post_send or wr, with or without ibv_ before it.
func (a *PostAPI) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*a = PostAuto
		return nil
	}
	return parseEnum(a, bytes.TrimPrefix(b, []byte("ibv_")), postAPIs(), "posting interface")
}

// Posting says how a queue pair's sends are posted. The zero value is the device's choice for all operations.
type Posting struct {
	API   PostAPI // a device that does not have the one asked for refuses
	Sends Opcodes // what will be posted; 0: all that the transport and the device have
}

// PostingDomain is implemented by protection domains of devices that have a choice: those of libibverbs.
type PostingDomain interface {
	CreateQPPosting(o QueuePairOptions, p Posting) (QueuePair, error)
}

// CreateQPPosting makes a queue pair that posts as p says. A device without a choice refuses ibv_wr_*.
func CreateQPPosting(pd ProtectionDomain, o QueuePairOptions, p Posting) (QueuePair, error) {
	if d, chooses := pd.(PostingDomain); chooses {
		return d.CreateQPPosting(o, p)
	}
	if p.API == PostWR {
		return nil, fmt.Errorf("posting with ibv_wr_*: %w: this device is not of libibverbs", ErrUnsupported)
	}
	return pd.CreateQP(o)
}

// PostsBy is the interface of a queue pair, PostAuto where its device has no choice.
func PostsBy(qp QueuePair) PostAPI {
	if p, chose := qp.(interface{ PostAPI() PostAPI }); chose {
		return p.PostAPI()
	}
	return PostAuto
}

// Opcodes is a set of send opcodes: bit n is opcode n.
type Opcodes uint32

// OpcodesOf is the set of these.
func OpcodesOf(ops ...Opcode) (s Opcodes) {
	for _, o := range ops {
		s |= 1 << o
	}
	return s
}

// Has tells whether an opcode is in the set.
func (s Opcodes) Has(o Opcode) bool { return s>>o&1 != 0 }

package verbs

import (
	"fmt"
	"strings"
)

// PostAPI is the interface by which send requests reach a device of libibverbs.
type PostAPI uint8

// Posting interfaces.
const (
	PostAuto PostAPI = iota // the one that stock perftest uses on this device
	PostSend                //  ibv_post_send: a list of structs
	PostWR                  // ibv_wr_*: a call for each part of a request; of queue pairs that ibv_create_qp_ex makes
)

func (a PostAPI) String() string {
	return enumString(a, []string{"auto", "post_send", "wr"}, "PostAPI")
}

// MarshalText spells the interface as String does.
func (a PostAPI) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads auto, post_send or wr, with or without ibv_ before it.
func (a *PostAPI) UnmarshalText(b []byte) error {
	switch strings.TrimPrefix(string(b), "ibv_") {
	case "auto", "":
		*a = PostAuto
	case "post_send":
		*a = PostSend
	case "wr":
		*a = PostWR
	default:
		return fmt.Errorf("posting interface %q: want auto, post_send or wr", b)
	}
	return nil
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

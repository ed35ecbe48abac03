// Package payload is the data of a verified test: the pattern that each message carries,
// and what says that it did not arrive.
package payload

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/gobw/gobw/internal/control"
)

// Error is data that did not arrive as it was sent, or of which nobody knows whether it did.
type Error struct {
	Text, Fix string
	Absent    bool // nothing came: nothing is known to be wrong
}

func (e *Error) Error() string { return e.Text }

// Remedy says what to try.
func (e *Error) Remedy() string { return e.Fix }

// Is matches [control.ErrCorrupt], where something came.
func (e *Error) Is(target error) bool { return target == control.ErrCorrupt && !e.Absent }

// Corrupt is memory that holds what nobody sent.
func Corrupt(format string, args ...any) error {
	return &Error{
		Text: "data corrupt: " + fmt.Sprintf(format, args...),
		Fix: "repeat with --verify=all and --pcap to see whether the packets are already wrong; " +
			"then test the memory of both hosts",
	}
}

// Nothing is a verified test in which nothing was compared, because nothing arrived whole: it proves nothing.
func Nothing(sent uint64) error {
	return &Error{
		Absent: true, Text: fmt.Sprintf("nothing verified: none of %d messages arrived whole", sent),
		Fix: "use -c RC, which sends again what is lost, or find where the packets are lost: run 'gobw doctor HOST'",
	}
}

// The pattern: each aligned 8-byte word of a message is a hash of the seed, the message's number and the word's offset,
// little-endian; a message that ends within a word holds its first bytes. A shifted, stale, torn or foreign message
// differs in almost every byte.

// word is the pattern's word at an offset divisible by 8.
func word(seed, message uint64, offset int) uint64 {
	x := seed*0x9e3779b97f4a7c15 + message*0xbf58476d1ce4e5b9 + uint64(offset)*0x94d049bb133111eb + 1
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Fill writes the part of a message's pattern from an offset on.
func Fill(b []byte, seed, message uint64, offset int) {
	if skip := offset % 8; skip > 0 {
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], word(seed, message, offset-skip))
		n := copy(b, w[skip:])
		b, offset = b[n:], offset+n
	}
	for ; len(b) >= 8; b, offset = b[8:], offset+8 {
		binary.LittleEndian.PutUint64(b, word(seed, message, offset))
	}
	var w [8]byte
	binary.LittleEndian.PutUint64(w[:], word(seed, message, offset))
	copy(b, w[:])
}

// Differ is where b first differs from the beginning of want, or -1.
func Differ(b, want []byte) int {
	if bytes.Equal(b, want[:len(b)]) {
		return -1
	}
	i := 0
	for b[i] == want[i] {
		i++
	}
	return i
}

// Seed differs between queue pairs and between the two directions of one.
func Seed(seed uint64, q int, fromInitiator bool) uint64 {
	s := seed*0xd1342543de82ef95 ^ uint64(q)<<1 // no bit of the seed is lost
	if fromInitiator {
		s ^= 1
	}
	return s
}

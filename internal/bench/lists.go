package bench

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
)

// List is a list of descriptors that the tests of a session move. The client's is the one that it brings; the server
// keeps the last that came. It belongs to one goroutine.
type List struct {
	packed []byte // its text, as it crosses the wire
	digest string
	came   bool // the server has it
	list   *pattern.Descriptors

	made *pattern.Transfer // of the latest test
	of   plan.Descriptors
	read bool
}

// NewList is what a client brings.
func NewList(list *pattern.Descriptors) (*List, error) {
	text := list.Append(nil)
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return &List{packed: packed.Bytes(), digest: digestOf(text), list: list}, nil
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Describe names the list, scaled to a mean length, for a plan; mean 0: as it is.
//
//nolint:revive // the direction
func (l *List) Describe(reads bool, mean int) (*plan.Descriptors, *pattern.Transfer, error) {
	if l.made != nil && l.of.Mean == mean && l.read == reads {
		of := l.of
		return &of, l.made, nil
	}
	t, err := l.list.Transfer(reads)
	if err == nil && mean > 0 {
		t, err = t.Scaled(int64(mean))
	}
	if err != nil {
		return nil, nil, err
	}
	of := plan.Describe(l.digest, len(l.packed), &t, mean)
	l.made, l.of, l.read = &t, *of, reads
	return of, l.made, nil
}

// transfer is what a plan's list moves; nil: this end does not know it yet.
func (l *List) transfer(n *plan.Noncontig) (*pattern.Transfer, error) {
	if n == nil || n.Descriptors == nil || l.digest != n.Descriptors.Digest {
		return nil, nil //nolint:nilnil // not known yet
	}
	_, t, err := l.Describe(n.Shape == plan.ReadsList, n.Descriptors.Mean)
	return t, err
}

// take reads the list that has come for a plan. What it may hold the plan has said, and it has been granted.
func (l *List) take(packed []byte, d *plan.Descriptors) error {
	if len(packed) == 0 {
		return errors.New("the client did not send its list of descriptors")
	}
	const lineBytes = 128 // six numbers, and more
	list, err := pattern.ReadDescriptors(bytes.NewReader(packed), pattern.DescriptorOptions{
		TextBytes: lineBytes * int64(d.Pieces), Pieces: int64(d.Pieces),
	})
	if err != nil {
		return fmt.Errorf("the client's list of descriptors: %w", err)
	}
	if digest := digestOf(list.Append(nil)); digest != d.Digest {
		return fmt.Errorf("the client's list of descriptors has the digest %.12s, its plan says %.12s", digest, d.Digest)
	}
	*l = List{packed: packed, digest: d.Digest, list: list, came: true}
	return nil
}

package testrun

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzTime is the environment variable that says how long each fuzz target makes new inputs when 'go test' runs it
// without -fuzz. All targets of a package then run in one process, without instrumentation.
const FuzzTime = "GOBW_FUZZ"

// Fuzz is f.Fuzz of a target that takes bytes or a text. Where [FuzzTime] is set, it also runs the target on changed
// seeds. The target must not be parallel.
func Fuzz[In []byte | string](f *testing.F, target func(*testing.T, In)) {
	f.Helper()
	left, err := time.ParseDuration(os.Getenv(FuzzTime))
	if err != nil {
		f.Fuzz(target)
		return
	}
	m := mutator{rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	f.Fuzz(func(t *testing.T, seed In) {
		m.seeds = append(m.seeds, bytes.Clone([]byte(seed)))
		target(t, seed)
		// Each seed takes a third of what is left, so that all have their turn however many there are.
		began := time.Now()
		for share := left / 3; !t.Failed() && time.Since(began) < share; {
			in := m.input()
			t.Run("changed", func(t *testing.T) {
				done := false
				defer func() {
					if t.Failed() || !done && !t.Skipped() {
						kind := strings.ReplaceAll(fmt.Sprintf("%T", seed), "uint8", "byte")
						t.Logf("the input, for a file in testdata/fuzz:\ngo test fuzz v1\n%s(%q)\n", kind, in)
					}
				}()
				target(t, In(bytes.Clone(in))) // which may write to its input
				done = true
			})
		}
		left -= time.Since(began)
	})
}

// mutator makes inputs of the seeds seen so far.
type mutator struct {
	rand  *rand.Rand
	seeds [][]byte
}

func (m *mutator) seed() []byte { return m.seeds[m.rand.IntN(len(m.seeds))] }

// input is a seed with one to four changes.
func (m *mutator) input() []byte {
	in := bytes.Clone(m.seed())
	for range 1 + m.rand.IntN(4) {
		in = m.changed(in, m.seed())
	}
	return in
}

// changed is an input like the first, with something of the other at times.
func (m *mutator) changed(b, other []byte) []byte {
	piece := func(b []byte) (from, to int) { // short ones are likelier; it may be empty
		from = m.rand.IntN(len(b) + 1)
		return from, from + m.rand.IntN(1+min(len(b)-from, 1<<m.rand.IntN(10)))
	}
	at, end := piece(b)
	switch change := m.rand.IntN(8); {
	case change == 0:
		from, to := piece(other)
		return slices.Replace(b, at, end, bytes.Clone(other[from:to])...)
	case change == 1:
		return slices.Delete(b, at, end)
	case change == 2 || len(b) == 0:
		return slices.Insert(b, at, byte(m.rand.Uint32()))
	}
	switch x := &b[m.rand.IntN(len(b))]; m.rand.IntN(4) {
	case 0:
		*x ^= 1 << m.rand.IntN(8)
	case 1:
		*x += byte(m.rand.IntN(33)) - 16
	case 2:
		*x = 1<<m.rand.IntN(8) - byte(m.rand.IntN(2))
	default:
		*x = byte(m.rand.Uint32())
	}
	return b
}

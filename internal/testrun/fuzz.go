package testrun

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// FuzzTime is the environment variable that says how long each fuzz target makes new inputs when 'go test' runs it without
// -fuzz. All targets of a package then run in one process, without instrumentation.
const FuzzTime = "GOBW_FUZZ"

// Fuzz is f.Fuzz. Where [FuzzTime] is set, it also runs the target on changed seeds. The target must not be parallel.
func Fuzz(f *testing.F, target any) {
	f.Helper()
	left, err := time.ParseDuration(os.Getenv(FuzzTime))
	if err != nil {
		f.Fuzz(target)
		return
	}
	m := mutator{rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))}
	call := reflect.ValueOf(target)
	f.Fuzz(reflect.MakeFunc(call.Type(), func(args []reflect.Value) []reflect.Value {
		m.seeds = append(m.seeds, copied(args[1:]))
		call.Call(args)
		t, _ := reflect.TypeAssert[*testing.T](args[0])
		// Each seed takes a third of what is left, so that all have their turn however many there are.
		began := time.Now()
		for share := left / 3; !t.Failed() && time.Since(began) < share; {
			in := m.input()
			t.Run("changed", func(t *testing.T) {
				done := false
				defer func() {
					if t.Failed() || !done && !t.Skipped() {
						t.Logf("the input, for a file in testdata/fuzz:\n%s", corpusFile(in))
					}
				}()
				call.Call(append([]reflect.Value{reflect.ValueOf(t)}, copied(in)...)) // the target may write to its input
				done = true
			})
		}
		left -= time.Since(began)
		return nil
	}).Interface())
}

// mutator makes inputs of the seeds seen so far.
type mutator struct {
	rand  *rand.Rand
	seeds [][]reflect.Value
}

// input is a seed with one to four changes.
func (m *mutator) input() []reflect.Value {
	in := copied(m.seeds[m.rand.IntN(len(m.seeds))])
	for range 1 + m.rand.IntN(4) {
		i := m.rand.IntN(len(in))
		other := m.seeds[m.rand.IntN(len(m.seeds))][i]
		in[i] = m.changed(in[i], other)
	}
	return in
}

// changed is a value like the first, with something of the other at times.
func (m *mutator) changed(v, other reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Bool:
		out.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		out.SetInt(int64(m.number(uint64(v.Int()))))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		out.SetUint(m.number(v.Uint()))
	case reflect.Float32, reflect.Float64:
		out.SetFloat(math.Float64frombits(m.number(math.Float64bits(v.Float()))))
	case reflect.String:
		out.SetString(string(m.bytes([]byte(v.String()), []byte(other.String()))))
	case reflect.Slice:
		out.SetBytes(m.bytes(slices.Clone(v.Bytes()), other.Bytes()))
	default:
		panic(fmt.Sprintf("a fuzz target takes no %v", v.Type()))
	}
	return out
}

func (m *mutator) number(n uint64) uint64 {
	switch m.rand.IntN(4) {
	case 0:
		return n ^ 1<<m.rand.IntN(64)
	case 1:
		return n + uint64(m.rand.IntN(33)) - 16
	case 2:
		return 1<<m.rand.IntN(64) - uint64(m.rand.IntN(2))
	default:
		return m.rand.Uint64() >> m.rand.IntN(64)
	}
}

func (m *mutator) bytes(b, other []byte) []byte {
	cut := func(b []byte) (from, to int) { // short pieces are likelier
		from = m.rand.IntN(len(b) + 1)
		return from, from + m.rand.IntN(1+min(len(b)-from, 1<<m.rand.IntN(10)))
	}
	at := m.rand.IntN(len(b) + 1)
	switch change := m.rand.IntN(6); {
	case change == 0:
		from, to := cut(other)
		return slices.Insert(b, at, bytes.Clone(other[from:to])...)
	case change == 1:
		return slices.Insert(b, at, byte(m.rand.Uint32()))
	case len(b) == 0:
		return b
	case change == 2:
		return slices.Delete(b, min(at, len(b)-1), len(b)-m.rand.IntN(len(b)-min(at, len(b)-1)))
	case change == 3:
		from, to := cut(b)
		return slices.Delete(b, from, to)
	default:
		i := m.rand.IntN(len(b))
		b[i] = byte(m.number(uint64(b[i])))
		return b
	}
}

func copied(values []reflect.Value) []reflect.Value {
	out := slices.Clone(values)
	for i, v := range out {
		if v.Kind() == reflect.Slice {
			out[i] = reflect.ValueOf(bytes.Clone(v.Bytes()))
		}
	}
	return out
}

// corpusFile is an input as 'go test' keeps it.
func corpusFile(in []reflect.Value) string {
	var out strings.Builder
	out.WriteString("go test fuzz v1\n")
	for _, v := range in {
		kind, verb := v.Type().String(), "%#v"
		if v.Kind() == reflect.Slice {
			kind, verb = "[]byte", "%q"
		}
		fmt.Fprintf(&out, "%s("+verb+")\n", kind, v.Interface())
	}
	return out.String()
}

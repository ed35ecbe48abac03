package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
)

// TestTimestamps: the device's clock times what a completion tells, on a device that has
// one, and is refused by name elsewhere.
func TestTimestamps(t *testing.T) {
	stamped := func(op Operation) Spec { return Spec{Operation: op, Kind: Latency, Timestamps: DeviceClock} }
	change := func(s Spec, f func(*Spec)) Spec { f(&s); return s }
	clock := verbs.CompletionClock{Hz: 156.25e6, Mask: 1<<48 - 1}
	for _, tt := range []struct {
		name  string
		spec  Spec
		clock verbs.CompletionClock
		peer  Peer
		want  string // refused with this; empty: settled
	}{
		{name: "read", spec: stamped(Read), clock: clock},
		{name: "atomic", spec: stamped(Atomic), clock: clock},
		{name: "flush", spec: stamped(Flush), clock: clock},
		{name: "send", spec: stamped(Send), clock: clock},
		{name: "send to perftest", spec: stamped(Send), clock: clock, peer: Peer{Perftest: true}},
		{name: "datagrams", spec: change(stamped(Send), func(s *Spec) { s.Transport = verbs.UD }), clock: clock},
		{name: "write with immediate", spec: change(stamped(Write), func(s *Spec) { s.WriteImm = true }), clock: clock},
		{name: "write", spec: stamped(Write), clock: clock, want: "use --imm"},
		{name: "bandwidth", spec: change(stamped(Send), func(s *Spec) { s.Kind = Bandwidth }), clock: clock, want: "golat"},
		{
			name: "a pause", spec: change(stamped(Send), func(s *Spec) { s.Gap = time.Millisecond }), clock: clock,
			want: "--gap",
		},
		{name: "no clock", spec: stamped(Read), want: "use --timestamps host"},
		{
			name: "stamps in no known unit", spec: stamped(Read), clock: verbs.CompletionClock{Mask: 1},
			want: "use --timestamps host",
		},
		{
			name: "another word", spec: change(stamped(Read), func(s *Spec) { s.Timestamps = "wall" }), clock: clock,
			want: "want host or device",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := device()
			l.Device.Clock = tt.clock
			s, err := Settle(tt.spec, l, tt.peer, Policy{})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Fatalf("%v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !s.StampedByDevice() {
				t.Error("the end that initiates takes the host's clock")
			}
			// The other end needs no clock, and keeps its own.
			l.Dialled, l.Device.Clock = false, verbs.CompletionClock{}
			if s, err = Settle(tt.spec, l, tt.peer, Policy{}); err != nil || s.StampedByDevice() {
				t.Errorf("the other end: %v", err)
			}
		})
	}
}

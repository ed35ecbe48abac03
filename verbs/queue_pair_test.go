package verbs

import (
	"errors"
	"testing"
)

func TestCheckTransitionNamesWhatIsMissing(t *testing.T) {
	tests := []struct {
		name     string
		tr       Transport
		from, to QPState
		mask     AttributeMask
		want     string
	}{
		{"RC init", RC, StateReset, StateInit, AttrState | AttrPKeyIndex | AttrPort | AttrAccess, ""},
		{
			"RC init without port", RC, StateReset, StateInit, AttrState | AttrPKeyIndex | AttrAccess,
			"RC queue pair RESET to INIT: missing PORT",
		},
		{
			"UD init with access", UD, StateReset, StateInit, AttrState | AttrPKeyIndex | AttrPort | AttrAccess,
			"UD queue pair RESET to INIT: missing QKEY; not allowed here: ACCESS_FLAGS",
		},
		{"UD to RTR needs nothing", UD, StateInit, StateRTR, AttrState, ""},
		{
			"RC to RTR without AV and PSN", RC, StateInit, StateRTR, AttrState | AttrPathMTU | AttrDestQPN |
				AttrMaxDestRDAtomic | AttrMinRNRTimer, "RC queue pair INIT to RTR: missing AV|RQ_PSN",
		},
		{
			"UC to RTS with timeout", UC, StateRTR, StateRTS, AttrState | AttrSendPSN | AttrTimeout,
			"UC queue pair RTR to RTS: not allowed here: TIMEOUT",
		},
		{
			"skipping INIT", RC, StateReset, StateRTR, AttrState,
			"RC queue pair RESET to RTR: no such transition (legal order: RESET, INIT, RTR, RTS)",
		},
		{
			"RESET to ERR", RC, StateReset, StateError, AttrState,
			"RC queue pair RESET to ERR: no such transition (legal order: RESET, INIT, RTR, RTS)",
		},
		{"RTS to ERR", RC, StateRTS, StateError, AttrState, ""},
		{
			"SQE to RTS only off RC", RC, StateSQE, StateRTS, AttrState,
			"RC queue pair SQE to RTS: no such transition (legal order: RESET, INIT, RTR, RTS)",
		},
		{"reset from anywhere", UC, StateSQD, StateReset, AttrState, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckTransition(tt.tr, tt.from, tt.to, tt.mask)
			got := ""
			if err != nil {
				got = err.Error()
				if _, ok := errors.AsType[*TransitionError](err); !ok {
					t.Errorf("error is a %T, want *TransitionError", err)
				}
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestTransportSupports(t *testing.T) {
	for _, tt := range []struct {
		tr   Transport
		op   Opcode
		want bool
	}{
		{RC, OpRead, true},
		{UC, OpRead, false},
		{UC, OpWriteWithImmediate, true},
		{UD, OpSend, true},
		{UD, OpWrite, false},
		{UC, OpFetchAdd, false},
		{RC, OpSendWithInvalidate, true},
		{UD, OpSendWithImmediate, true},
	} {
		if got := tt.tr.Supports(tt.op); got != tt.want {
			t.Errorf("%v supports %v: got %v, want %v", tt.tr, tt.op, got, tt.want)
		}
	}
}

package verbs

import "fmt"

// transition is one legal edge of the queue pair state machine for one transport.
type transition struct {
	transport          Transport
	from, to           QPState
	required, optional AttributeMask
}

const (
	rcRTR    = AttrAddressVector | AttrPathMTU | AttrDestQPN | AttrRecvPSN | AttrMaxDestRDAtomic | AttrMinRNRTimer
	ucRTR    = AttrAddressVector | AttrPathMTU | AttrDestQPN | AttrRecvPSN
	rcRTS    = AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrSendPSN | AttrMaxRDAtomic
	cInit    = AttrPKeyIndex | AttrPort | AttrAccess
	dInit    = AttrPKeyIndex | AttrPort | AttrQKey
	cRTROpt  = AttrAccess | AttrPKeyIndex
	dRTROpt  = AttrPKeyIndex | AttrQKey
	cRTSOpt  = AttrCurrentState | AttrAccess
	dRTSOpt  = AttrCurrentState | AttrQKey
	rcSQDOpt = AttrPort | AttrAddressVector | AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrMaxRDAtomic |
		AttrMaxDestRDAtomic | AttrAccess | AttrPKeyIndex | AttrMinRNRTimer
	ucSQDOpt = AttrAddressVector | AttrAccess | AttrPKeyIndex
)

// transitions is the table of IBTA 10.3.1 and 11.2.5 (table 92) as the kernel's ib_modify_qp_is_ok has it. Edges to RESET
// and from any state but RESET to ERR need nothing and are not listed.
var transitions = []transition{
	{RC, StateReset, StateInit, cInit, 0},
	{UC, StateReset, StateInit, cInit, 0},
	{UD, StateReset, StateInit, dInit, 0},
	{RC, StateInit, StateInit, 0, cInit},
	{UC, StateInit, StateInit, 0, cInit},
	{UD, StateInit, StateInit, 0, dInit},
	{RC, StateInit, StateRTR, rcRTR, cRTROpt},
	{UC, StateInit, StateRTR, ucRTR, cRTROpt},
	{UD, StateInit, StateRTR, 0, dRTROpt},
	{RC, StateRTR, StateRTS, rcRTS, cRTSOpt | AttrMinRNRTimer},
	{UC, StateRTR, StateRTS, AttrSendPSN, cRTSOpt},
	{UD, StateRTR, StateRTS, AttrSendPSN, dRTSOpt},
	{RC, StateRTS, StateRTS, 0, cRTSOpt | AttrMinRNRTimer},
	{UC, StateRTS, StateRTS, 0, cRTSOpt},
	{UD, StateRTS, StateRTS, 0, dRTSOpt},
	{RC, StateRTS, StateSQD, 0, AttrSQDAsyncNotify},
	{UC, StateRTS, StateSQD, 0, AttrSQDAsyncNotify},
	{UD, StateRTS, StateSQD, 0, AttrSQDAsyncNotify},
	{RC, StateSQD, StateRTS, 0, cRTSOpt | AttrMinRNRTimer},
	{UC, StateSQD, StateRTS, 0, cRTSOpt},
	{UD, StateSQD, StateRTS, 0, dRTSOpt},
	{RC, StateSQD, StateSQD, 0, rcSQDOpt},
	{UC, StateSQD, StateSQD, 0, ucSQDOpt},
	{UD, StateSQD, StateSQD, 0, dRTROpt},
	{UC, StateSQE, StateRTS, 0, AttrCurrentState | AttrAccess},
	{UD, StateSQE, StateRTS, 0, dRTSOpt},
}

// TransitionError is a refused move of a queue pair: it names the attributes that are missing or do not belong.
type TransitionError struct {
	Transport    Transport
	From, To     QPState
	Missing      AttributeMask
	NotAllowed   AttributeMask
	NoSuchChange bool // no edge between the two states
}

func (e *TransitionError) Error() string {
	s := fmt.Sprintf("%v queue pair %v to %v", e.Transport, e.From, e.To)
	switch {
	case e.NoSuchChange:
		return s + ": no such transition (legal order: RESET, INIT, RTR, RTS)"
	case e.Missing != 0 && e.NotAllowed != 0:
		return fmt.Sprintf("%s: missing %v; not allowed here: %v", s, e.Missing, e.NotAllowed)
	case e.Missing != 0:
		return fmt.Sprintf("%s: missing %v", s, e.Missing)
	default:
		return fmt.Sprintf("%s: not allowed here: %v", s, e.NotAllowed)
	}
}

// CheckTransition tells whether a queue pair may move from one state to another with the attributes in mask, and
// otherwise returns a [*TransitionError]. A mask without STATE stays in the state it is in.
func CheckTransition(t Transport, from, to QPState, mask AttributeMask) error {
	rest := mask &^ AttrState
	if to == StateReset || (to == StateError && from != StateReset) {
		if rest &^= AttrCurrentState; rest != 0 {
			return &TransitionError{Transport: t, From: from, To: to, NotAllowed: rest}
		}
		return nil
	}
	for _, e := range transitions {
		if e.transport != t || e.from != from || e.to != to {
			continue
		}
		missing := e.required &^ rest
		extra := rest &^ (e.required | e.optional)
		if missing != 0 || extra != 0 {
			return &TransitionError{Transport: t, From: from, To: to, Missing: missing, NotAllowed: extra}
		}
		return nil
	}
	return &TransitionError{Transport: t, From: from, To: to, NoSuchChange: true}
}

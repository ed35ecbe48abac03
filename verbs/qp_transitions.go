package verbs

import (
	"errors"
	"fmt"
)

// transition is one legal edge of the queue pair state machine.
type transition struct {
	from, to           QPState
	required, optional perTransport
}

// perTransport is what an edge needs or takes on RC, UC and UD.
type perTransport [3]AttributeMask

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
	rcRTSOpt = cRTSOpt | AttrMinRNRTimer
	rcSQDOpt = AttrPort | AttrAddressVector | AttrTimeout | AttrRetryCount | AttrRNRRetry | AttrMaxRDAtomic |
		AttrMaxDestRDAtomic | AttrAccess | AttrPKeyIndex | AttrMinRNRTimer
	ucSQDOpt = AttrAddressVector | AttrAccess | AttrPKeyIndex
)

// transitions is the table of IBTA 10.3.1 and 11.2.5 (table 92) as the kernel's ib_modify_qp_is_ok has it. Edges to
// RESET and from any state but RESET to ERR need nothing and are not listed.
var transitions = []transition{
	{StateReset, StateInit, perTransport{cInit, cInit, dInit}, perTransport{}},
	{StateInit, StateInit, perTransport{}, perTransport{cInit, cInit, dInit}},
	{StateInit, StateRTR, perTransport{rcRTR, ucRTR, 0}, perTransport{cRTROpt, cRTROpt, dRTROpt}},
	{StateRTR, StateRTS, perTransport{rcRTS, AttrSendPSN, AttrSendPSN}, perTransport{rcRTSOpt, cRTSOpt, dRTSOpt}},
	{StateRTS, StateRTS, perTransport{}, perTransport{rcRTSOpt, cRTSOpt, dRTSOpt}},
	{StateRTS, StateSQD, perTransport{}, perTransport{AttrSQDAsyncNotify, AttrSQDAsyncNotify, AttrSQDAsyncNotify}},
	{StateSQD, StateRTS, perTransport{}, perTransport{rcRTSOpt, cRTSOpt, dRTSOpt}},
	{StateSQD, StateSQD, perTransport{}, perTransport{rcSQDOpt, ucSQDOpt, dRTROpt}},
	{StateSQE, StateRTS, perTransport{}, perTransport{0, cRTSOpt, dRTSOpt}}, // RC has no SQE
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
	required, optional, is := edge(t, from, to)
	missing, extra := required&^rest, rest&^(required|optional)
	switch {
	case !is:
		return &TransitionError{Transport: t, From: from, To: to, NoSuchChange: true}
	case missing != 0 || extra != 0:
		return &TransitionError{Transport: t, From: from, To: to, Missing: missing, NotAllowed: extra}
	}
	return nil
}

// edge is what a transport needs and may set on the way from one state to another, if there is one.
func edge(t Transport, from, to QPState) (required, optional AttributeMask, is bool) {
	for _, e := range transitions {
		if e.from == from && e.to == to && t >= RC && t <= UD && (t != RC || from != StateSQE) {
			return e.required[t-RC], e.optional[t-RC], true
		}
	}
	return 0, 0, false
}

// CheckValues refuses attributes that are out of a device's range, by name: libibverbs says EINVAL, or takes them.
func CheckValues(a *QueuePairAttributes, d *DeviceInfo) error {
	const most24 = 1<<24 - 1
	var errs []error
	for _, c := range []struct {
		attr          AttributeMask
		what          string
		value, lo, hi int
	}{
		{AttrPort, "port", a.Port, 1, d.Ports},
		{AttrPathMTU, "path MTU code", int(a.PathMTU), int(MTU256), int(MTU4096)},
		{AttrTimeout, "timeout code", int(a.Timeout), 0, 31},
		{AttrRetryCount, "retry count", int(a.RetryCount), 0, 7},
		{AttrRNRRetry, "RNR retry count", int(a.RNRRetry), 0, 7},
		{AttrMinRNRTimer, "RNR timer code", int(a.MinRNRTimer), 0, 31},
		{AttrMaxRDAtomic, "outstanding READs and atomics", int(a.MaxRDAtomic), 0, d.Limits.MaxInitRDAtomic},
		{AttrMaxDestRDAtomic, "READs and atomics served at once", int(a.MaxDestRDAtomic), 0, d.Limits.MaxRDAtomic},
		{AttrSendPSN, "send PSN", int(a.SendPSN), 0, most24},
		{AttrRecvPSN, "receive PSN", int(a.RecvPSN), 0, most24},
		{AttrDestQPN, "destination QP number", int(a.DestQPN), 0, most24},
	} {
		if a.Mask&c.attr != 0 && (c.value < c.lo || c.value > c.hi) {
			errs = append(errs, fmt.Errorf("%s %d: want %d to %d", c.what, c.value, c.lo, c.hi))
		}
	}
	return errors.Join(errs...)
}

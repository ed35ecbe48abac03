package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// run does the steps of one call of the session, in order. Only a report takes and returns figures.
func (s *Session) run(ctx context.Context, steps []step, doing string, limit time.Duration,
	local control.Figures,
) (remote control.Figures, err error) {
	for _, st := range steps {
		switch st {
		case stepBarrier:
			_, err = s.keys(ctx, doing, 0, limit)
		case stepKeys:
			err = s.keysAgain(ctx, limit)
		case stepReport:
			remote, err = s.swapReports(ctx, local)
		}
		if err != nil {
			return remote, err
		}
	}
	return remote, nil
}

// keysAgain exchanges the keys of all queue pairs once more.
func (s *Session) keysAgain(ctx context.Context, limit time.Duration) error {
	for i, first := range s.remote {
		a, err := s.keys(ctx, fmt.Sprintf("exchanging keys of queue pair %d again", i), i, limit)
		if err != nil {
			return err
		}
		if a.QPN != first.QPN {
			return control.Malformed("the second keys of queue pair %d name QP %#x, the first %#x: "+
				"the ends have different numbers of queue pairs or run different tools; %s",
				i, a.QPN, first.QPN, agree("the tool and -q"))
		}
	}
	return nil
}

// keys exchanges the keys of queue pair i.
func (s *Session) keys(ctx context.Context, doing string, i int, limit time.Duration) (a control.Address, err error) {
	mine := s.encode(control.Address{}) // with RDMA CM, barriers come before this end has keys
	if i < len(s.local) {
		mine = s.local[i]
	}
	theirs, err := s.inTurn(doing, mine, func() ([]byte, error) { return s.takeKeys(ctx, doing, len(mine), limit) })
	if err != nil {
		return a, err
	}
	if s.o.RDMA != nil {
		a, err = parseKeysRDMA(theirs)
	} else {
		a, err = ParseKeys(theirs)
	}
	if err != nil {
		return a, control.Malformed("%s: %w; the ends are out of step, %s", doing, err, agree("the tool, -q, -a and -b"))
	}
	return a, nil
}

// encode makes a keys message of the form that the transport and the peer's version ask for.
func (s *Session) encode(a control.Address) []byte {
	switch {
	case s.o.RDMA == nil:
		return encodeKeys(a)
	case s.v.Peer >= versionConditional:
		return EncodeKeysRDMA(a, keysBytesRDMAModern)
	default:
		return EncodeKeysRDMA(a, KeysBytesRDMA)
	}
}

// takeKeys waits for a keys message. Byte 59 tells the two text forms apart: the short form ends there with a NUL.
func (s *Session) takeKeys(ctx context.Context, doing string, want int, limit time.Duration) ([]byte, error) {
	if s.o.RDMA != nil {
		return s.take(ctx, doing, want, limit)
	}
	b, err := s.take(ctx, doing, KeysBytesNoGID, limit)
	if err != nil {
		return nil, err
	}
	if b[KeysBytesNoGID-1] != 0 {
		rest, err := s.take(ctx, doing, KeysBytes-KeysBytesNoGID, limit)
		if err != nil {
			return nil, err
		}
		b = append(b, rest...)
	}
	if len(b) != want {
		have := map[int]string{KeysBytes: "uses a GID", KeysBytesNoGID: "uses none"}
		return nil, fmt.Errorf("%s: this end %s, the peer %s: give -x INDEX on both ends or on neither", doing, have[want],
			have[len(b)])
	}
	return b, nil
}

// swap writes mine and takes as many bytes of the peer's.
func (s *Session) swap(ctx context.Context, doing string, mine []byte) (theirs []byte, err error) {
	return s.inTurn(doing, mine, func() ([]byte, error) { return s.take(ctx, doing, len(mine), s.patience()) })
}

// inTurn writes mine and takes the peer's. The client writes first, the server takes first.
func (s *Session) inTurn(doing string, mine []byte, take func() ([]byte, error)) (theirs []byte, err error) {
	if s.o.Dialled {
		if err := s.write(doing, mine); err != nil {
			return nil, err
		}
		return take()
	}
	if theirs, err = take(); err != nil {
		return nil, err
	}
	return theirs, s.write(doing, mine)
}

func (s *Session) write(doing string, b []byte) error {
	_ = s.Conn.SetWriteDeadline(time.Now().Add(s.o.Timeouts.Peer))
	if _, err := s.Conn.Write(b); err != nil {
		return s.explain(context.Background(), doing, err)
	}
	return nil
}

func (s *Session) take(ctx context.Context, doing string, n int, limit time.Duration) ([]byte, error) {
	b, err := s.in.take(ctx, n, limit)
	if err != nil {
		return nil, s.explain(ctx, doing, err)
	}
	return b, nil
}

// explain makes the error of a failed exchange and names the mismatch that usually causes it: perftest sends no reason.
func (s *Session) explain(ctx context.Context, doing string, err error) error {
	if _, is := errors.AsType[*control.FormatError](err); is {
		return err
	}
	e := control.Lost(ctx, doing, err)
	if l, is := errors.AsType[*control.LostError](e); is {
		switch {
		case doing == negotiatingPhase, s.local == nil:
			l.Hint = "a perftest that finds a difference prints it and exits: see the peer's output"
		case len(s.remote) < len(s.local):
			l.Hint = agree("the tool, -q, -c, -a, -b, and have GIDs (-x) of one family or none")
		default:
			l.Hint = agree("the tool, -c, -s, -n, -D, -q, -a and -b")
		}
	}
	return e
}

// agree tells which flags must be the same; before 6.28 no perftest checks them.
func agree(flags string) string { return "make sure both ends agree on " + flags }

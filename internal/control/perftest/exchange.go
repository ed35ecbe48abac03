package perftest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// run does steps that are barriers or the second pass of keys.
func (s *Session) run(ctx context.Context, steps []step, doing string, limit time.Duration) error {
	for _, st := range steps {
		switch st {
		case stepBarrier:
			if _, err := s.keys(ctx, doing, 0, limit); err != nil {
				return err
			}
		case stepKeys:
			for i := range s.local {
				a, err := s.keys(ctx, fmt.Sprintf("exchanging keys of queue pair %d again", i), i, limit)
				if err != nil {
					return err
				}
				if a.QPN != s.remote[i].QPN {
					return &control.FormatError{Err: fmt.Errorf("the second keys of queue pair %d name QP %#x, the first %#x: the ends have different numbers of queue pairs or run different tools; %s",
						i, a.QPN, s.remote[i].QPN, s.agree("the tool and -q"))}
				}
			}
		case stepReport:
			return errors.New("a report outside Report")
		}
	}
	return nil
}

// keys exchanges the keys of queue pair i.
func (s *Session) keys(ctx context.Context, doing string, i int, limit time.Duration) (a control.Address, err error) {
	mine := s.encode(control.Address{}) // a barrier before there are any, with RDMA CM
	if i < len(s.local) {
		mine = s.local[i]
	}
	parse := ParseKeys
	if s.o.RDMA != nil {
		parse = parseKeysRDMA
	}
	err = s.inTurn(doing, mine, func() error {
		b, err := s.takeKeys(ctx, doing, len(mine), limit)
		if err != nil {
			return err
		}
		if a, err = parse(b); err != nil {
			return &control.FormatError{Err: fmt.Errorf("%s: %w; the ends are out of step, %s", doing, err, s.agree("the tool, -q, -a and -b"))}
		}
		return nil
	})
	return a, err
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

// takeKeys waits for a keys message. Of the two text forms, the 59-byte one is told from the 108-byte one by its NUL.
func (s *Session) takeKeys(ctx context.Context, doing string, want int, limit time.Duration) ([]byte, error) {
	if s.o.RDMA != nil {
		return s.take(ctx, doing, want, limit)
	}
	b, err := s.take(ctx, doing, KeysBytesNoGID, limit)
	if err != nil {
		return nil, err
	}
	if b[KeysBytesNoGID-1] != 0 {
		rest, err := s.take(ctx, doing, KeysBytes-KeysBytesNoGID, s.o.Timeouts.Phase)
		if err != nil {
			return nil, err
		}
		b = append(b, rest...)
	}
	if len(b) != want {
		have := map[bool]string{true: "uses a GID", false: "uses none"}
		return nil, fmt.Errorf("%s: this end %s, the peer %s: give -x INDEX on both ends or on neither",
			doing, have[want == KeysBytes], have[len(b) == KeysBytes])
	}
	return b, nil
}

// exchange is one exchange of equal lengths.
func (s *Session) exchange(ctx context.Context, doing string, mine []byte) (theirs []byte, err error) {
	err = s.inTurn(doing, mine, func() error {
		limit := s.o.Timeouts.Phase
		if !s.o.Dialled && s.settled == nil { // a client that says what it knows already
			limit = s.o.Timeouts.Hello
		}
		theirs, err = s.take(ctx, doing, len(mine), limit)
		return err
	})
	return theirs, err
}

// inTurn is one exchange: the client speaks first, and the server answers once it has taken that.
func (s *Session) inTurn(doing string, mine []byte, take func() error) error {
	if s.o.Dialled {
		if err := s.write(doing, mine); err != nil {
			return err
		}
		return take()
	}
	if err := take(); err != nil {
		return err
	}
	return s.write(doing, mine)
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

// explain words a failure and names the mismatch that usually causes it.
func (s *Session) explain(ctx context.Context, doing string, err error) error {
	if _, is := errors.AsType[*control.FormatError](err); is {
		return err
	}
	hint := s.hint(doing)
	if _, is := errors.AsType[*shortError](err); is {
		hint = s.agree("the tool, -q, -a, -b and the use of a GID (-x)")
	}
	e := control.Lost(ctx, doing, err)
	if l, is := errors.AsType[*control.LostError](e); is {
		l.Hint = hint
	}
	return e
}

// hint is the likely reason of a peer that goes or falls silent in a phase (perftest says nothing itself).
func (s *Session) hint(doing string) string {
	switch {
	case doing == negotiatingPhase:
		return "a perftest that finds a difference prints it and exits: see the peer's output"
	case s.plan == nil || s.local == nil:
		return "the peer's own output says why"
	case doing == "measuring" || len(s.remote) == len(s.local):
		return s.agree("the tool, -c, -s, -n, -D, -q, -a and -b")
	default:
		return s.agree("the tool, -q and -c, and have GIDs (-x) of one family")
	}
}

// agree tells which flags must be the same; before 6.28 no perftest checks them.
func (s *Session) agree(flags string) string {
	if s.negotiates {
		return "make sure both ends agree on " + flags
	}
	return fmt.Sprintf("perftest %s does not tell its parameters: make sure both ends agree on %s", s.v.Peer, flags)
}

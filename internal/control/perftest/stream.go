package perftest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// maxAhead bounds what a peer of perftest's dialect may send before it is due: both ends take turns, so at most one
// message and a farewell are ever on their way.
const maxAhead = 4096

// stream collects what the peer sends, so that a closed connection is noticed while nobody reads.
type stream struct {
	conn    net.Conn
	arrived chan struct{} // one token: something came or the end came
	dead    chan struct{} // closed when nothing more will come
	wg      sync.WaitGroup

	mu  sync.Mutex
	buf []byte
	err error // set before dead is closed
}

func newStream(conn net.Conn, unread ...byte) *stream {
	s := &stream{conn: conn, arrived: make(chan struct{}, 1), dead: make(chan struct{}), buf: unread}
	s.wg.Go(s.read)
	return s
}

func (s *stream) read() {
	var chunk [512]byte
	for {
		n, err := s.conn.Read(chunk[:])
		s.mu.Lock()
		s.buf = append(s.buf, chunk[:n]...)
		if err == nil && len(s.buf) > maxAhead {
			err = &control.FormatError{Err: errors.New("it sends more than was due")}
		}
		if err != nil {
			s.err = err
			close(s.dead)
		}
		s.mu.Unlock()
		select {
		case s.arrived <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// take waits for at least n bytes and returns n of them. On failure it says how many there were.
func (s *stream) take(ctx context.Context, n int, limit time.Duration) ([]byte, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		s.mu.Lock()
		if len(s.buf) >= n {
			b := s.buf[:n:n]
			s.buf = s.buf[n:]
			s.mu.Unlock()
			return b, nil
		}
		have, err := len(s.buf), s.err
		s.mu.Unlock()
		if err != nil {
			if have > 0 {
				return nil, &shortError{have: have, want: n, err: err}
			}
			return nil, err
		}
		select {
		case <-s.arrived:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
			if have > 0 {
				return nil, &shortError{have: have, want: n, err: fmt.Errorf("%w for %v", control.ErrSilent, limit)}
			}
			return nil, fmt.Errorf("%w for %v", control.ErrSilent, limit)
		}
	}
}

// shortError is a message that stopped in the middle: the ends are out of step.
type shortError struct {
	have, want int
	err        error
}

func (e *shortError) Error() string {
	return fmt.Sprintf("%d of %d bytes came, then: %v", e.have, e.want, e.err)
}

func (e *shortError) Unwrap() error { return e.err }

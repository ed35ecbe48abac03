package wire

import (
	"context"
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
	ahead chan byte       // what came and was not taken; closed at the end
	over  context.Context //nolint:containedctx // ends, with its cause, when nothing more will come
	wg    sync.WaitGroup
}

func newStream(conn net.Conn, unread []byte) *stream {
	s := &stream{ahead: make(chan byte, maxAhead)}
	for _, c := range unread[:min(len(unread), maxAhead)] {
		s.ahead <- c
	}
	over, end := context.WithCancelCause(context.Background())
	s.over = over
	s.wg.Go(func() {
		end(s.read(conn))
		close(s.ahead)
	})
	return s
}

func (s *stream) read(conn net.Conn) error {
	var chunk [512]byte
	for {
		n, err := conn.Read(chunk[:])
		for _, c := range chunk[:n] {
			select {
			case s.ahead <- c:
			default:
				return control.Malformed("it sends more than was due")
			}
		}
		if err != nil {
			return control.WhyLost(err)
		}
	}
}

// take waits for n bytes, no longer than the limit (0: for ever). On failure it says how many there were.
func (s *stream) take(ctx context.Context, n int, limit time.Duration) ([]byte, error) {
	if limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit, fmt.Errorf("%w for %v", control.ErrSilent, limit))
		defer stop()
	}
	b := make([]byte, 0, n)
	for len(b) < n {
		var err error
		select {
		case c, more := <-s.ahead:
			if more {
				b = append(b, c)
				continue
			}
			err = context.Cause(s.over)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if len(b) > 0 {
			err = fmt.Errorf("%d of %d bytes came, then: %w", len(b), n, err)
		}
		return nil, err
	}
	return b, nil
}

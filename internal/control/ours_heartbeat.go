package control

import (
	"bufio"
	"context"
	"errors"
	"io"
	"time"
)

// read sorts what the peer sends until the connection ends.
func (s *ourSession) read() {
	r := bufio.NewReader(s.conn)
	for {
		m, err := readFrame(r)
		if err != nil {
			var format *formatError
			switch {
			case errors.As(err, &format):
				s.die(err)
			case s.leaving.Load() && errors.Is(err, io.EOF):
				s.die(&LostError{Phase: *s.doing.Load(), Cause: errors.New("it said goodbye")})
			default:
				s.die(lost(context.Background(), *s.doing.Load(), err))
			}
			return
		}
		s.silence.listen(time.Since(s.start))
		switch m.Kind {
		case kindHeartbeat:
			continue
		case kindError, kindBusy:
			s.die(&PeerError{Message: m.Error, Busy: m.Kind == kindBusy})
			return
		case kindBye:
			s.leaving.Store(true)
		default:
		}
		select {
		case s.inbox <- m:
		default:
			s.die(&formatError{errors.New("it sends messages nobody asked for")})
			return
		}
	}
}

// interval is how often to send heartbeats to a peer that bears silence for so long.
func interval(bears time.Duration) time.Duration {
	return min(max(bears/6, 5*time.Millisecond), 500*time.Millisecond)
}

// beat shows the peer that this end lives, and declares it lost when it was silent for too long. A tick that came late
// itself judges nobody: then it was this end that slept.
func (s *ourSession) beat() {
	every := interval(s.o.timeouts.Peer)
	t := time.NewTicker(every)
	defer t.Stop()
	previous := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case <-s.dead:
			return
		case every = <-s.pace:
			t.Reset(every)
			continue
		case now := <-t.C:
			late := now.Sub(previous) > every+s.o.timeouts.Peer/3
			s.silence.stumble(now.Sub(previous))
			previous = now
			if late {
				s.silence.excuse(now.Sub(s.start))
			}
			if err := s.judge(); err != nil {
				s.die(&LostError{Phase: *s.doing.Load(), Cause: err})
				return
			}
			if err := s.send(message{Kind: kindHeartbeat}); err != nil {
				if !s.leaving.Load() {
					s.die(err)
				}
				return
			}
		}
	}
}

// judge looks closer where a peer has been silent for the peer timeout.
func (s *ourSession) judge() error {
	now := time.Since(s.start)
	if s.silence.verdict(now, hostUnknown) == nil || unread(s.conn) {
		return nil
	}
	return s.silence.verdict(now, hostOf(s.conn, s.o.timeouts.Peer))
}

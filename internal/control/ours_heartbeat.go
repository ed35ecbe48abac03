package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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
		s.heard.Store(int64(time.Since(s.start)))
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

// beat shows the peer that this end lives, and declares the peer lost when it was silent for the peer timeout. A tick
// that came late itself judges nobody: then it was this end that slept.
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
			previous = now
			if late {
				s.heard.Store(max(s.heard.Load(), int64(now.Sub(s.start)-s.o.timeouts.Peer/2)))
			}
			if silent := time.Since(s.start) - time.Duration(s.heard.Load()); silent > s.o.timeouts.Peer {
				s.die(&LostError{Phase: *s.doing.Load(), Cause: fmt.Errorf("%w for %v", errSilent, silent.Round(100*time.Millisecond))})
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

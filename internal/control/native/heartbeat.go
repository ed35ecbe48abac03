package native

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// read sorts what the peer sends until the connection ends.
func (s *Session) read() {
	var frames frameReader
	beats := 0
	for {
		m, err := frames.next(s.r)
		if err != nil {
			var format *control.FormatError
			switch {
			case errors.As(err, &format):
				s.die(err)
			case s.leaving.Load() && errors.Is(err, io.EOF):
				s.die(&control.LostError{Phase: *s.doing.Load(), Cause: errors.New("it said goodbye")})
			default:
				s.die(control.Lost(context.Background(), *s.doing.Load(), err))
			}
			return
		}
		s.silence.listen(time.Since(s.start))
		switch m.Kind {
		case kindHeartbeat:
			if beats++; float64(beats) > heartbeatsPerSecond*(1+time.Since(s.start).Seconds()) {
				s.die(&control.FormatError{Err: errUnasked})
				return
			}
			continue
		case KindError, KindBusy:
			s.die(&control.PeerError{Message: control.Bounded(m.Error), Busy: m.Kind == KindBusy, Lost: m.Lost})
			return
		case kindBye:
			s.leaving.Store(true)
		default:
		}
		select {
		case s.inbox <- m:
		default:
			s.die(&control.FormatError{Err: errUnasked})
			return
		}
		if m.Kind == KindPropose && !s.o.Dialled {
			s.paused.Store(true)
			select { // the plan decides which process reads on
			case <-s.more:
			case <-s.stop:
				return
			}
			s.silence.listen(time.Since(s.start))
			s.paused.Store(false)
		}
	}
}

// goOn lets the reader read what follows a plan.
func (s *Session) goOn() {
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// heartbeatsPerSecond is how many a peer may send: five times as many as one does that bears the least silence.
const heartbeatsPerSecond = 1000

// Interval is how often to send heartbeats to a peer that bears silence for so long.
func Interval(bears time.Duration) time.Duration {
	return min(max(bears/6, 5*time.Millisecond), 500*time.Millisecond)
}

// beat shows the peer that this end lives, and declares it lost when it was silent for too long. A tick that came late
// itself judges nobody: then it was this end that slept.
func (s *Session) beat(every time.Duration) {
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
			late := now.Sub(previous) > every+s.o.Timeouts.Peer/3
			s.silence.stumble(now.Sub(previous))
			previous = now
			if late {
				s.silence.excuse(now.Sub(s.start))
			}
			if err := s.judge(); err != nil {
				s.die(&control.LostError{Phase: *s.doing.Load(), Cause: err})
				return
			}
			if err := s.Send(Message{Kind: kindHeartbeat}); err != nil {
				if !s.leaving.Load() {
					s.die(err)
				}
				return
			}
		}
	}
}

// judge looks closer where a peer has been silent for the peer timeout.
func (s *Session) judge() error {
	now := time.Since(s.start)
	if s.paused.Load() || s.silence.verdict(now, hostUnknown) == nil || unread(s.Conn) {
		return nil
	}
	return s.silence.verdict(now, hostOf(s.Conn, s.o.Timeouts.Peer))
}

package frame

import (
	"time"

	"github.com/gobw/gobw/internal/control"
)

// heartbeatsPerSecond is how many heartbeats a peer may send: five times as many as at the shortest interval, 5 ms.
const heartbeatsPerSecond = 1000

// interval is how often to send heartbeats: the end that bears less silence decides it.
func (s *Session) interval() time.Duration {
	bears := s.o.Bears
	if theirs := time.Duration(min(max(s.theirs.BearsMs, 0), time.Hour.Milliseconds())) * time.Millisecond; theirs > 0 {
		bears = min(bears, theirs)
	}
	return min(max(bears/6, 5*time.Millisecond), 500*time.Millisecond)
}

// beat shows the peer that this end lives, and declares it lost when it was silent for too long. A tick that came late
// itself says nothing of the peer: this process was stalled.
func (s *Session) beat(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	previous := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case <-s.life.Done():
			return
		case every = <-s.pace:
			t.Reset(every)
		case now := <-t.C:
			late := now.Sub(previous) > every+s.o.Bears/3
			s.silence.noteGap(now.Sub(previous))
			previous = now
			if late {
				s.silence.excuse(now.Sub(s.start))
			}
			if err := s.judge(); err != nil {
				s.die(&control.LostError{Phase: *s.doing.Load(), Cause: err})
				return
			}
			if err := s.write(make([]byte, prefixBytes)); err != nil {
				if !s.leaving.Load() {
					s.die(err)
				}
				return
			}
		}
	}
}

// judge returns the error of a lost peer. It asks the kernel about the peer's host only after the peer timeout.
func (s *Session) judge() error {
	now := time.Since(s.start)
	if s.silence.lost(now, hostUnknown) == nil {
		return nil
	}
	if s.paused.Load() || unread(s.Conn) { // the peer has sent something that this end has not read
		return nil
	}
	return s.silence.lost(now, hostOf(s.Conn, s.o.Bears))
}

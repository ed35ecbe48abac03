package fabric

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/control"
)

// What both ends of a conversation between rank 0 and an agent wait for.
const (
	OrphanAfter = 20 * time.Second // without a word of the other end a connection is given up
	// a wait lasts so long before the user is told: ranks that a launcher starts need a moment
	TellAfter = 2 * time.Second
)

// Ended says why an agent is gone.
func Ended(err error) error {
	said, parted := errors.AsType[*control.PeerError](err)
	switch {
	case parted:
		return errors.New(control.Bounded(said.Message))
	case errors.Is(err, control.ErrPeerLost) && !errors.Is(err, syscall.ETIMEDOUT) &&
		!errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, control.ErrSilent):
		return errors.New("its process has ended")
	case errors.Is(err, control.ErrPeerLost):
		return fmt.Errorf("its host no longer answers: %w", err)
	}
	return err
}

// Say says something to who wants to know it.
func Say(to func(string), format string, args ...any) {
	if to != nil {
		to(fmt.Sprintf(format, args...))
	}
}

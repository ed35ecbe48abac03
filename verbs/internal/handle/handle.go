// Package handle is the life of a provider's handles, by the rule that package verbs states: calls are let in until
// Close, which waits for those that are inside, and which handles that depend on this one refuse.
package handle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gobw/gobw/verbs"
)

// Handle is embedded in each handle of a provider. It may be used by several goroutines; the zero
// Handle is open and depends on nothing.
type Handle struct {
	calls   sync.RWMutex // held for reading inside a call
	closing sync.Mutex   // one Close at a time
	closed  atomic.Bool

	mu      sync.Mutex
	users   map[string]int // open handles that depend on this one, by kind
	kind    string
	parents map[*Handle]bool // those that this one depends on
}

// Enter lets a call in, or answers [verbs.ErrClosed]. It never waits, so that a call may make another.
func (h *Handle) Enter() error {
	if !h.calls.TryRLock() {
		return verbs.ErrClosed
	}
	if h.closed.Load() {
		h.calls.RUnlock()
		return verbs.ErrClosed
	}
	return nil
}

// Leave ends a call that Enter has let in.
func (h *Handle) Leave() { h.calls.RUnlock() }

// Closed tells whether Close has begun.
func (h *Handle) Closed() bool { return h.closed.Load() }

// Open makes a handle of a kind ("queue pair") by create, which keeps its parents open until it is closed.
func (h *Handle) Open(kind string, create func() error, parents ...*Handle) error {
	h.kind, h.parents = kind, make(map[*Handle]bool, len(parents))
	var err error
	for _, p := range parents {
		if !h.parents[p] {
			if err = p.Use(kind); err != nil {
				break
			}
			h.parents[p] = true
		}
	}
	if err == nil {
		err = create()
	}
	if err != nil {
		h.closed.Store(true)
		h.release()
	}
	return err
}

func (h *Handle) release() {
	for p := range h.parents {
		p.Release(h.kind)
	}
	h.parents = nil
}

// Use keeps the handle open until Release, for something of that kind.
func (h *Handle) Use(kind string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed.Load() {
		return verbs.ErrClosed
	}
	if h.users == nil {
		h.users = make(map[string]int)
	}
	h.users[kind]++
	return nil
}

// Release ends a Use.
func (h *Handle) Release(kind string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.users[kind]--; h.users[kind] == 0 {
		delete(h.users, kind)
	}
}

// Users is how many of a kind depend on the handle.
func (h *Handle) Users(kind string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.users[kind]
}

// Close lets no call in any more, wakes those that wait, waits until all have left, and destroys; a handle that is not
// destroyed stays open. Closing again does nothing.
func (h *Handle) Close(wake func(), destroy func() error) error {
	h.closing.Lock()
	defer h.closing.Unlock()
	if h.closed.Load() {
		return nil
	}
	if err := h.close(); err != nil {
		return err
	}
	if wake != nil {
		wake()
	}
	h.calls.Lock()
	defer h.calls.Unlock()
	if err := destroy(); err != nil {
		h.closed.Store(false)
		return err
	}
	h.release()
	return nil
}

// close lets nothing in any more, unless something depends on the handle.
func (h *Handle) close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.users) == 0 {
		h.closed.Store(true)
		return nil
	}
	var open []string
	for kind, n := range h.users {
		if n > 1 {
			kind += "s"
		}
		open = append(open, fmt.Sprintf("%d %s", n, kind))
	}
	slices.Sort(open)
	return fmt.Errorf("%w: %s open", verbs.ErrBusy, strings.Join(open, ", "))
}

// Needs collects the handles of a device that a new one depends on.
type Needs[D comparable] struct {
	Of   D
	List []*Handle
	Err  error // what the first is that is missing, or another device's
}

// Need is h, which the new handle depends on, as what is its kind.
func Need[T interface {
	On() D
	Base() *Handle
}, D comparable](n *Needs[D], what string, h any) T {
	mine, err := Own[T](n.Of, what, h)
	if err == nil {
		n.List = append(n.List, mine.Base())
	}
	n.Err = cmp.Or(n.Err, err)
	return mine
}

// Base is the handle itself, of whatever it is embedded in.
func (h *Handle) Base() *Handle { return h }

// Own is a provider's handle h, of the device d: what is its kind, for the error where it is another's.
func Own[T interface{ On() D }, D comparable](d D, what string, h any) (T, error) {
	mine, ok := h.(T)
	if !ok || mine.On() != d {
		return mine, fmt.Errorf("the %s is another device's, or missing", what)
	}
	return mine, nil
}

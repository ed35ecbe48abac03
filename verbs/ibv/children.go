//go:build linux && cgo

package ibv

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gobw/gobw/verbs"
)

// children counts the open handles that keep a parent open. It may be used by several goroutines.
type children struct {
	mu     sync.Mutex
	open   map[string]int // by kind: "queue pair"
	closed bool
}

// add counts a new child, or answers [verbs.ErrClosed] once the parent is closed.
func (c *children) add(kind string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return verbs.ErrClosed
	}
	if c.open == nil {
		c.open = make(map[string]int)
	}
	c.open[kind]++
	return nil
}

// drop forgets a child that was closed, or that could not be made.
func (c *children) drop(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[kind]--; c.open[kind] <= 0 {
		delete(c.open, kind)
	}
}

// close runs destroy unless children are open or it has run before.
func (c *children) close(destroy func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if len(c.open) > 0 {
		var what []string
		for kind, n := range c.open {
			if n == 1 {
				what = append(what, "1 "+kind)
			} else {
				what = append(what, fmt.Sprintf("%d %ss", n, kind))
			}
		}
		slices.Sort(what)
		return fmt.Errorf("%w: %s open", verbs.ErrBusy, strings.Join(what, ", "))
	}
	if err := destroy(); err != nil {
		return err
	}
	c.closed = true
	return nil
}

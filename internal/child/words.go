// Package child is what the processes that this program starts of itself have in common.
package child

import (
	"slices"
	"strings"
	"sync"
)

// How much of the beginning and of the end is kept: enough for what went wrong first, and for stacks.
const (
	firstBytes = 16 << 10
	lastBytes  = 64 << 10
)

// Words keeps the beginning and the end of what a process writes.
type Words struct {
	mu    sync.Mutex
	kept  []byte
	hangs func(line string)
}

// NotReturned is in the line in which a process says that a call into a driver hangs.
const NotReturned = "has not returned for"

// TellHangs has the lines with [NotReturned] be told from now on.
func (w *Words) TellHangs(to func(line string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hangs = to
}

func (w *Words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if line := strings.TrimSpace(string(p)); w.hangs != nil && strings.Contains(line, NotReturned) {
		w.hangs(line)
	}
	if w.kept = append(w.kept, p...); len(w.kept) > firstBytes+lastBytes {
		w.kept = slices.Delete(w.kept, firstBytes, len(w.kept)-lastBytes)
	}
	return len(p), nil
}

// String is what was kept, without the white space around it.
func (w *Words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.kept))
}

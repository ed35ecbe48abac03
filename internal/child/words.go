// Package child is what the processes that this program starts of itself have in common.
package child

import (
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
	mu          sync.Mutex
	first, last []byte
}

func (w *Words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(p)
	k := min(firstBytes-len(w.first), n)
	w.first = append(w.first, p[:k]...)
	if w.last = append(w.last, p[k:]...); len(w.last) > lastBytes {
		w.last = append([]byte(nil), w.last[len(w.last)-lastBytes:]...)
	}
	return n, nil
}

// String is what was kept, without the white space around it.
func (w *Words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.TrimSpace(string(w.first) + string(w.last))
}

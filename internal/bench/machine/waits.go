package machine

import (
	"sync"
	"time"
)

// waits add up how long the threads that measure were ready and had no CPU, each from when it was calm to when it ended.
type waits struct {
	mu      sync.Mutex
	ended   time.Duration
	threads map[int]func() time.Duration // of those at work, what they have waited since they were asked last
}

// follow begins with the calling thread.
func (w *waits) follow(n int) (end func() error) {
	read, unfollow := followThread()
	last := read()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.threads == nil {
		w.threads = map[int]func() time.Duration{}
	}
	w.threads[n] = func() time.Duration {
		before := last
		last = read()
		return last - before
	}
	return func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended += w.threads[n]()
		delete(w.threads, n)
		return unfollow()
	}
}

// counted is what they have waited since the last call.
func (w *waits) counted() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	sum := w.ended
	w.ended = 0
	for _, more := range w.threads {
		sum += more()
	}
	return sum
}

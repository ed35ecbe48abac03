package machine

import (
	"sync"
	"time"
)

// followers add up the accounts of the other threads, each from when it was ready to when it ended.
type followers struct {
	mu    sync.Mutex
	ended time.Duration
	begun map[int]func() time.Duration // of those at work, what they have waited so far
}

func (f *followers) begin(n int, so func() time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun == nil {
		f.begun = map[int]func() time.Duration{}
	}
	f.begun[n] = so
}

func (f *followers) end(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended += f.begun[n]()
	delete(f.begun, n)
}

// counted is what they have waited since the last call.
func (f *followers) counted() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := f.ended
	f.ended = 0
	for _, so := range f.begun {
		sum += so()
	}
	return sum
}

package machine

import (
	"sync"
	"time"
)

// schedule is the scheduler's account of a thread, whose figures only grow.
type schedule struct {
	waited time.Duration // ready to run, without a CPU
	waits  int64         // how often it got one
}

func (s schedule) plus(o schedule) schedule { return schedule{s.waited + o.waited, s.waits + o.waits} }

func (s schedule) minus(o schedule) schedule { return schedule{s.waited - o.waited, s.waits - o.waits} }

// followers add up the accounts of the other threads, each from when it was ready to when it ended.
type followers struct {
	mu    sync.Mutex
	ended schedule
	begun map[int]func() schedule // of those at work, what they have waited so far
}

func (f *followers) begin(n int, so func() schedule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.begun == nil {
		f.begun = map[int]func() schedule{}
	}
	f.begun[n] = so
}

func (f *followers) end(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = f.ended.plus(f.begun[n]())
	delete(f.begun, n)
}

// counted is what they have waited since the last call.
func (f *followers) counted() schedule {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := f.ended
	f.ended = schedule{}
	for _, so := range f.begun {
		sum = sum.plus(so())
	}
	return sum
}

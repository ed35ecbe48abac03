package handle

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gobw/gobw/verbs"
)

func nothing() error { return nil }

func TestDependents(t *testing.T) {
	var domain, queue, pair, region Handle
	for _, open := range []error{
		queue.Open("completion queue", nothing),
		pair.Open("queue pair", nothing, &domain, &queue, &queue),
		region.Open("memory region", nothing, &domain),
		domain.Use("queue pair"),
	} {
		if open != nil {
			t.Fatal(open)
		}
	}
	if err := domain.Close(nil, nothing); !errors.Is(err, verbs.ErrBusy) ||
		err.Error() != "busy: 1 memory region, 2 queue pairs open" {
		t.Errorf("close with dependents: %v", err)
	}
	if n := queue.Users("queue pair"); n != 1 {
		t.Errorf("a queue pair uses a queue %d times, want once for both directions", n)
	}
	domain.Release("queue pair")
	destroyed := 0
	for _, h := range []*Handle{&pair, &region, &queue, &domain, &domain} {
		if err := h.Close(nil, func() error { destroyed++; return nil }); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if destroyed != 4 {
		t.Errorf("%d handles destroyed, want each once", destroyed)
	}
	var late Handle
	if err := late.Open("queue pair", func() error { t.Error("made"); return nil }, &domain); !errors.Is(err,
		verbs.ErrClosed) {
		t.Errorf("open in a closed domain: %v, want ErrClosed", err)
	}
}

func TestFailures(t *testing.T) {
	var parent, child Handle
	no := errors.New("no")
	if err := child.Open("child", func() error { return no }, &parent); !errors.Is(err, no) || parent.Users("child") != 0 {
		t.Errorf("a child that was not made: %v, and %d children", err, parent.Users("child"))
	}
	if err := parent.Close(nil, func() error { return no }); !errors.Is(err, no) {
		t.Errorf("close: %v", err)
	}
	if err := parent.Enter(); err != nil {
		t.Errorf("a handle that was not destroyed lets nothing in: %v", err)
	}
	parent.Leave()
}

// TestCloseWaits closes a handle beside a call that ends when it is woken, and has that call make another.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Handle
		woken, inside := make(chan struct{}), true
		var calls sync.WaitGroup
		if err := h.Enter(); err != nil {
			t.Fatal(err)
		}
		calls.Go(func() {
			<-woken
			if err := h.Enter(); !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("a call inside a call: %v, want ErrClosed", err)
			}
			inside = false
			h.Leave()
		})
		for range 2 {
			calls.Go(func() {
				if err := h.Close(func() { close(woken) }, func() error {
					if inside {
						t.Error("destroyed beside a call")
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
				if inside {
					t.Error("closed beside a call")
				}
			})
		}
		calls.Wait()
	})
}

func BenchmarkEnterLeave(b *testing.B) {
	var h Handle
	for b.Loop() {
		if err := h.Enter(); err != nil {
			b.Fatal(err)
		}
		h.Leave()
	}
}

package serve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// Lines may come so many at once, and then one every so often: of what strangers cause, 0.1 KB/s in the long run, and of tests,
// 0.4 KB/s.
const (
	burstLines = 50
	lineEvery  = 2 * time.Second
	testLines  = 200
	testEvery  = 500 * time.Millisecond
)

// maxLogText is how much of one value is logged, in bytes.
const maxLogText = 512

// limited is a log in which every line is cut to size, and the lines to a rate.
type limited struct {
	slog.Handler
	strangers, tests *lineBudget
}

type lineBudget struct {
	most  time.Duration // lines at once, each the time until there may be another
	every time.Duration

	mu      sync.Mutex
	due     time.Time // when all lines so far had their time
	skipped int
}

func newLimited(h slog.Handler) slog.Handler {
	return &limited{h, &lineBudget{most: burstLines * lineEvery, every: lineEvery}, &lineBudget{most: testLines * testEvery, every: testEvery}}
}

// Handle writes a record, or counts it.
func (l *limited) Handle(ctx context.Context, r slog.Record) error {
	cut := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	budget := l.strangers
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "test" {
			budget = l.tests
		}
		if text := a.Value.Resolve().String(); len(text) > maxLogText {
			a.Value = slog.StringValue(text[:maxLogText] + " ...")
		}
		cut.AddAttrs(a)
		return true
	})
	skipped, pass := budget.spend(r.Time)
	if !pass {
		return nil
	}
	if skipped > 0 {
		cut.AddAttrs(slog.Int("lines_left_out_before", skipped))
	}
	return l.Handler.Handle(ctx, cut)
}

// WithAttrs keeps the budget.
func (l *limited) WithAttrs(a []slog.Attr) slog.Handler {
	return &limited{l.Handler.WithAttrs(a), l.strangers, l.tests}
}

// WithGroup keeps the budget.
func (l *limited) WithGroup(name string) slog.Handler {
	return &limited{l.Handler.WithGroup(name), l.strangers, l.tests}
}

// spend takes a line from the budget, and says how many were left out since the last one.
func (b *lineBudget) spend(now time.Time) (skipped int, pass bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.due.Before(now) {
		b.due = now
	}
	if b.due.Add(b.every).After(now.Add(b.most)) {
		b.skipped++
		return 0, false
	}
	b.due = b.due.Add(b.every)
	skipped, b.skipped = b.skipped, 0
	return skipped, true
}

// writer passes what is written on, and never waits for who reads it: a reader that has stopped loses lines.
type writer struct {
	lines chan []byte
	done  chan struct{}
}

func newWriter(to io.Writer) *writer {
	w := &writer{lines: make(chan []byte, 256), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for b := range w.lines {
			if b == nil {
				return
			}
			_, _ = to.Write(b)
		}
	}()
	return w
}

func (w *writer) Write(b []byte) (int, error) {
	select {
	case w.lines <- bytes.Clone(b):
	default:
	}
	return len(b), nil
}

// close waits a moment until everything is written.
func (w *writer) close() {
	over := time.After(time.Second)
	select {
	case w.lines <- nil:
	case <-over:
		return
	}
	select {
	case <-w.done:
	case <-over:
	}
}

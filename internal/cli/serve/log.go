package serve

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// A stranger may cause so many lines at once, and then one every so often: 0.1 KB/s in the long run.
const (
	burstLines = 50
	lineEvery  = 2 * time.Second
)

// maxLogText is how much of one value is logged, in bytes.
const maxLogText = 512

// limited is a log in which what strangers cause is cut to size and to a rate. Lines of tests, which are rare, always pass.
type limited struct {
	slog.Handler
	shared *lineBudget
}

type lineBudget struct {
	mu      sync.Mutex
	left    float64
	at      time.Time
	skipped int
}

func newLimited(h slog.Handler) slog.Handler {
	return &limited{Handler: h, shared: &lineBudget{left: burstLines, at: time.Now()}}
}

// Handle writes a record, or counts it.
func (l *limited) Handle(ctx context.Context, r slog.Record) error {
	cut := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	own := false
	r.Attrs(func(a slog.Attr) bool {
		own = own || a.Key == "test"
		if text := a.Value.Resolve().String(); len(text) > maxLogText {
			a.Value = slog.StringValue(text[:maxLogText] + " ...")
		}
		cut.AddAttrs(a)
		return true
	})
	if !own {
		skipped, pass := l.shared.spend(r.Time)
		if !pass {
			return nil
		}
		if skipped > 0 {
			cut.AddAttrs(slog.Int("lines_left_out_before", skipped))
		}
	}
	return l.Handler.Handle(ctx, cut)
}

// WithAttrs keeps the budget.
func (l *limited) WithAttrs(a []slog.Attr) slog.Handler {
	return &limited{Handler: l.Handler.WithAttrs(a), shared: l.shared}
}

// WithGroup keeps the budget.
func (l *limited) WithGroup(name string) slog.Handler {
	return &limited{Handler: l.Handler.WithGroup(name), shared: l.shared}
}

// spend takes a line from the budget, and says how many were left out since the last one.
func (b *lineBudget) spend(now time.Time) (skipped int, pass bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.at); passed > 0 {
		b.left = min(b.left+passed.Seconds()/lineEvery.Seconds(), burstLines)
		b.at = now
	}
	if b.left < 1 {
		b.skipped++
		return 0, false
	}
	b.left--
	skipped, b.skipped = b.skipped, 0
	return skipped, true
}

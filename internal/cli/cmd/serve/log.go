package serve

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Lines may come so many at once, and then one every so often: of what strangers cause, 0.1 KB/s in
// the long run, and of tests, 0.4 KB/s.
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
	strangers, tests *budget
}

// budget is of lines.
type budget struct {
	*rate.Limiter
	skipped atomic.Int64 // since the last line that was not
}

func newLimited(h slog.Handler) slog.Handler {
	of := func(every time.Duration, lines int) *budget {
		return &budget{Limiter: rate.NewLimiter(rate.Every(every), lines)}
	}
	return &limited{h, of(lineEvery, burstLines), of(testEvery, testLines)}
}

// Handle writes a record, or counts it.
func (l *limited) Handle(ctx context.Context, r slog.Record) error {
	cut := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	lines := l.strangers
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "test" {
			lines = l.tests
		}
		if text := a.Value.Resolve().String(); len(text) > maxLogText {
			a.Value = slog.StringValue(text[:maxLogText] + " ...")
		}
		cut.AddAttrs(a)
		return true
	})
	if !lines.AllowN(r.Time, 1) {
		lines.skipped.Add(1)
		return nil
	}
	if n := lines.skipped.Swap(0); n > 0 {
		cut.AddAttrs(slog.Int64("lines_left_out_before", n))
	}
	return l.Handler.Handle(ctx, cut)
}

// WithAttrs keeps the budgets.
func (l *limited) WithAttrs(a []slog.Attr) slog.Handler {
	return &limited{l.Handler.WithAttrs(a), l.strangers, l.tests}
}

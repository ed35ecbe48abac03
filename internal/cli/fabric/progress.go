package fabric

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/cli/output"
)

// progress tells a person how far a run has come: a line that changes on a terminal, else a line now and then.
type progress struct {
	out   output.Streams
	quiet bool

	mu   sync.Mutex
	line *output.Progress
	last time.Time
}

func newProgress(out output.Streams, quiet bool) *progress {
	return &progress{out: out, quiet: quiet, line: output.NewProgress(out, quiet)}
}

// between is the least time between two lines where there is no terminal.
const between = 10 * time.Second

func (p *progress) show(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line.Write(text)
	if !p.quiet && !p.line.On() && time.Since(p.last) >= between {
		p.last = time.Now()
		fmt.Fprintln(p.out.Err, text)
	}
}

// note says what should be read at once.
func (p *progress) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line.Clear()
	fmt.Fprintf(p.out.Err, "gobw fabric: %s\n", strings.ReplaceAll(s, "\n", "\n  "))
}

// end removes the line from the terminal.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line.Clear()
}

package output

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Console is a stream for messages and one line of progress. Its goroutine writes them, so nobody waits for a stopped
// terminal or reader. A line of progress replaces the one before. Messages beyond pendingTexts are lost.
type Console struct {
	to    io.Writer
	texts chan text             // nil: there is no goroutine, and callers write themselves
	line  atomic.Pointer[liner] // the line to show next
	told  chan struct{}         // signals a new line
	mu    sync.Mutex            // guards writing without a goroutine
	width int                   // of the line that is shown
}

// liner makes the line of progress; empty: none is shown.
type liner func() string

// text is a message, or a mark that tells when all before it is written.
type text struct {
	b       []byte
	written chan struct{}
	last    bool
}

// pendingTexts is how many messages may wait for the reader.
const pendingTexts = 4096

// NewConsole starts a console.
func NewConsole(to io.Writer) *Console {
	c := &Console{to: to, texts: make(chan text, pendingTexts), told: make(chan struct{}, 1)}
	go c.run()
	return c
}

// consoleOf is a stream as a console.
func consoleOf(w io.Writer) *Console {
	if c, is := w.(*Console); is {
		return c
	}
	return &Console{to: w}
}

func (c *Console) run() {
	for {
		select {
		case <-c.told:
			c.show()
		case t := <-c.texts:
			c.show()
			c.put(t.b)
			if t.written != nil {
				close(t.written)
			}
			if t.last {
				return
			}
		}
	}
}

// Write takes a message.
func (c *Console) Write(b []byte) (int, error) {
	if c.texts == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.put(b)
		return len(b), nil
	}
	select {
	case c.texts <- text{b: append([]byte(nil), b...)}:
	default:
	}
	return len(b), nil
}

// Line takes a line of progress.
func (c *Console) Line(line liner) {
	c.line.Store(&line)
	if c.texts == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.show()
		return
	}
	select {
	case c.told <- struct{}{}:
	default:
	}
}

// show writes the newest line over the one before.
func (c *Console) show() {
	made := c.line.Swap(nil)
	if made == nil {
		return
	}
	line := []rune((*made)())
	if len(line) == 0 {
		c.clear()
		return
	}
	if most := c.Columns() - 1; most > 0 { // a line that the terminal breaks could not be replaced
		line = line[:min(len(line), most)]
	}
	pad := max(c.width-len(line), 0)
	c.width = len(line)
	fmt.Fprintf(c.to, "\r%s%s", string(line), strings.Repeat(" ", pad))
}

func (c *Console) clear() {
	if c.width > 0 {
		fmt.Fprintf(c.to, "\r%s\r", strings.Repeat(" ", c.width))
		c.width = 0
	}
}

// put writes a message above the line.
func (c *Console) put(b []byte) {
	if len(b) > 0 {
		c.clear()
		_, _ = c.to.Write(b)
	}
}

// Columns the stream shows; 0: unknown.
func (c *Console) Columns() int { return columnsIn(c.to) }

// Flush waits until everything is written.
func (c *Console) Flush() {
	if c.texts != nil {
		t := text{written: make(chan struct{})}
		c.texts <- t
		<-t.written
	}
}

// Close ends the console when everything is written, or at the latest after so long.
func (c *Console) Close(within time.Duration) {
	over, t := time.After(within), text{written: make(chan struct{}), last: true}
	select {
	case c.texts <- t:
	case <-over:
		return
	}
	select {
	case <-t.written:
	case <-over:
	}
}

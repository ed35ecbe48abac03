package output

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobw/gobw/internal/bench/drive"
)

// halted is a reader that was stopped, as by Ctrl-S.
type halted struct{ goOn chan struct{} }

func (h halted) Write(b []byte) (int, error) {
	<-h.goOn
	return len(b), nil
}

// TestNobodyWaitsForTheTerminal: messages and progress cost no time while nobody reads them, and the end waits for a
// moment only.
func TestNobodyWaitsForTheTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := halted{make(chan struct{})}
		c := NewConsole(reader)
		bar := NewProgress(Streams{Err: c, ErrTerminal: true}, false)
		began := time.Now()
		for range 10000 {
			bar.Show(drive.Progress{Size: 64, Sizes: 1, BitsPerS: 1e9})
			if n, err := io.WriteString(c, "line\n"); n != 5 || err != nil {
				t.Fatal(n, err)
			}
		}
		bar.Clear()
		if took := time.Since(began); took > 0 {
			t.Errorf("who told waited for %v", took)
		}
		c.Close(time.Second)
		if took := time.Since(began); took > time.Second {
			t.Errorf("it ended after %v", took)
		}
		close(reader.goOn)
		synctest.Wait()
		c.Close(time.Second)
	})
}

package fabric

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/fabric"
)

// TestProgress: a line that changes on a terminal, one every ten seconds elsewhere, none where quiet; notes are always told.
func TestProgress(t *testing.T) {
	for _, tt := range []struct {
		name            string
		terminal, quiet bool
		want            string
	}{
		{"elsewhere", false, false, "waiting for node1, node2, 9s left\ngobw fabric: lost\nround 20 of 63 (pairs 20), 43s left\n"},
		{"quiet", false, true, "gobw fabric: lost\n"},
		{"a quiet terminal", true, true, "gobw fabric: lost\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			p := newProgress(output.Streams{Err: &said, ErrTerminal: tt.terminal}, tt.quiet)
			p.round(fabric.Progress{Waiting: []string{"node1", "node2"}, Left: 9 * time.Second})
			p.note("lost")
			for range 2 {
				p.round(fabric.Progress{Round: 20, Rounds: 63, Label: "pairs 20", Left: 43 * time.Second})
				time.Sleep(10 * time.Second)
			}
			p.round(fabric.Progress{Round: 64, Label: "re-test", Retest: true})
			p.end()
			if got := said.String(); !strings.HasPrefix(got, tt.want) || tt.quiet && got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		})
	}
	var said bytes.Buffer
	p := newProgress(output.Streams{Err: &said, ErrTerminal: true}, false)
	p.round(fabric.Progress{Round: 64, Label: "re-test", Retest: true})
	p.note("lost")
	if want := "\rround 64 (re-test)\r" + strings.Repeat(" ", 18) + "\rgobw fabric: lost\n"; said.String() != want {
		t.Errorf("on a terminal %q, want %q", said.String(), want)
	}
	many := strings.Fields(strings.Repeat("a ", 11))
	if got := few(many); got != "a, a, a, a, a, a, a, a and 3 more" {
		t.Error(got)
	}
}

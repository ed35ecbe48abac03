package fabric

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobw/gobw/internal/cli/output"
)

// TestProgress: a line that changes on a terminal, one every ten seconds elsewhere, none where quiet; notes are always
// told.
func TestProgress(t *testing.T) {
	for _, tt := range []struct {
		name            string
		terminal, quiet bool
		want            string
	}{
		{
			"elsewhere", false, false,
			"waiting for node1, node2, 9s left\ngobw fabric: lost\nround 20 of 63 (pairs 20), 43s left\n",
		},
		{"quiet", false, true, "gobw fabric: lost\n"},
		{"a quiet terminal", true, true, "gobw fabric: lost\n"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			p := output.NewProgress(output.Streams{Err: &said, ErrTerminal: tt.terminal}, tt.quiet)
			p.Tell("waiting for node1, node2, 9s left")
			note("gobw", p)("lost")
			for range 2 {
				p.Tell("round 20 of 63 (pairs 20), 43s left")
				time.Sleep(10 * time.Second)
			}
			p.Tell("round 64 (re-test)")
			p.Clear()
			if got := said.String(); !strings.HasPrefix(got, tt.want) || tt.quiet && got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		})
	}
	var said bytes.Buffer
	p := output.NewProgress(output.Streams{Err: &said, ErrTerminal: true}, false)
	p.Tell("round 64 (re-test)")
	note("gobw", p)("lost")
	if want := "\rround 64 (re-test)\r" + strings.Repeat(" ", 18) + "\rgobw fabric: lost\n"; said.String() != want {
		t.Errorf("on a terminal %q, want %q", said.String(), want)
	}
}

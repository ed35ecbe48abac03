package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gobw/gobw/report"
)

// TestThreadTable: a set-up with threads has a row for each, of both ends where both work; others have no such table.
func TestThreadTable(t *testing.T) {
	one := report.Record{Operation: "send", Kind: "bandwidth", Transport: "RC", SizeBytes: 64, QPs: 3, Run: 1, MessagesPerS: 3e6}
	two := one
	two.Threads = 2
	two.PerThread = []report.Share{{CPU: 7, QPs: 2, AverageBitsPerS: 2e9, MessagesPerS: 2e6}, {CPU: 6, QPs: 1, AverageBitsPerS: 1e9, MessagesPerS: 1e6}}
	two.PeerThreads = []report.Share{{CPU: -1, QPs: 2, AverageBitsPerS: 2e9, MessagesPerS: 2e6}, {CPU: -1, QPs: 1, AverageBitsPerS: 1e9, MessagesPerS: 1e6}}
	var b bytes.Buffer
	if err := Table(&b, &report.Document{Records: []report.Record{one, two}, Complete: true}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"3 QPs, 2 threads", "   64       2    6    1  1.00  119.2    1.00\n", "by thread of the other end", "   64       2    -    1  1.00"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want %q once in\n%s", want, text)
		}
	}
	if strings.Count(text, "by thread") != 2 {
		t.Errorf("a set-up of one thread has a table of threads:\n%s", text)
	}
	if one.Point() == two.Point() {
		t.Error("tests with one thread and with two have the same key")
	}
}

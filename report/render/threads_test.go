package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gobw/gobw/report"
)

// TestThreadTable: a set-up with threads has a row for each, of both ends where both work; others have no such table.
func TestThreadTable(t *testing.T) {
	one := report.Record{
		Plan: report.Plan{Operation: "send", Kind: "bandwidth", Transport: "RC", SizeBytes: 64, QPs: 3},
		Run:  1, MessagesPerS: 3e6,
	}
	two := one
	two.Threads = 2
	two.PerThread = []report.Share{
		{CPU: 7, QPs: 2, AverageBitsPerS: 2e9, MessagesPerS: 2e6}, {CPU: 6, QPs: 1, AverageBitsPerS: 1e9, MessagesPerS: 1e6},
	}
	two.PeerThreads = []report.Share{
		{CPU: -1, QPs: 2, AverageBitsPerS: 2e9, MessagesPerS: 2e6},
		{CPU: -1, QPs: 1, AverageBitsPerS: 1e9, MessagesPerS: 1e6},
	}
	var b bytes.Buffer
	if err := Documents(&b, "table",
		[]*report.Document{{Records: []report.Record{one, two}, Complete: true}}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"3 QPs, 2 threads", "   64       2    6    1  1.00  119.2    1.00\n", "by thread of the other end",
		"   64       2    1  1.00",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want %q once in\n%s", want, text)
		}
	}
	if strings.Count(text, "by thread") != 2 {
		t.Errorf("a set-up of one thread has a table of threads:\n%s", text)
	}
	if one.Plan == two.Plan {
		t.Error("tests with one thread and with two have the same key")
	}
}

// TestRailTable: a set-up on several devices has a row for each under their total; threads have rows of their own
// beside these only where there are more of them.
func TestRailTable(t *testing.T) {
	r := report.Record{
		Plan: report.Plan{
			Operation: "write", Kind: "bandwidth", Transport: "RC", SizeBytes: 64, QPs: 4, Rails: 2, Threads: 2,
		},
		Run: 1, MessagesPerS: 3e6,
	}
	r.PerThread = []report.Share{
		{Device: "mlx5_0", CPU: 7, QPs: 2, AverageBitsPerS: 2e9, MessagesPerS: 2e6},
		{Device: "mlx5_1", CPU: 6, QPs: 2, AverageBitsPerS: 1e9, MessagesPerS: 1e6},
	}
	table := func(r report.Record) string {
		var b bytes.Buffer
		if err := Documents(&b, "table", []*report.Document{{Records: []report.Record{r}, Complete: true}}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	text := table(r)
	for _, want := range []string{
		"4 QPs, 2 rails", "by thread\n", "   64       2  mlx5_1    6    2  1.00  119.2    1.00\n",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want %q once in\n%s", want, text)
		}
	}
	r.Threads, r.PerThread = 4, append(r.PerThread, r.PerThread...)
	text = table(r)
	for _, want := range []string{
		"2 rails, 4 threads",
		"   64       4  mlx5_1    6    2  1.00  119.2    1.00\n",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("want %q once in\n%s", want, text)
		}
	}
}

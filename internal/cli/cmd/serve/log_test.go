package serve

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// TestLogIsBounded: strangers cause a burst of lines and then one every two seconds, each of a length that a person
// reads; the lines of tests always appear.
func TestLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log := slog.New(newLimited(slog.NewTextHandler(&b, nil))).With("client", "192.0.2.7")
		for range 3000 {
			log.Warn("client dropped", "err", strings.Repeat("A", 8<<20>>10))
		}
		if n := strings.Count(b.String(), "\n"); n != burstLines {
			t.Errorf("%d lines of 3000, want %d", n, burstLines)
		}
		if b.Len() > burstLines*(maxLogText+200) {
			t.Errorf("%d bytes", b.Len())
		}
		b.Reset()
		log.Info("begins", "test", "write bandwidth RC")
		if !strings.Contains(b.String(), "begins") {
			t.Error("a test's line is left out")
		}
		time.Sleep(lineEvery)
		log.Warn("client dropped")
		if !strings.Contains(b.String(), "lines_left_out_before=2950") {
			t.Errorf("what was left out is not counted: %s", b.String())
		}
	})
}

// TestLogOfATest: a test of many records, or test after test, does not fill a disk either.
func TestLogOfATest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		log := slog.New(newLimited(slog.NewTextHandler(&b, nil)))
		for range maxRecords {
			log.Info("measured", "test", "write bandwidth RC 64 B", "figure", "6.4 Mb/s")
		}
		if n := strings.Count(b.String(), "\n"); n != testLines {
			t.Errorf("%d lines of %d, want %d", n, maxRecords, testLines)
		}
		time.Sleep(testEvery)
		log.Info("done", "test", "write bandwidth RC")
		if !strings.Contains(b.String(), "lines_left_out_before=65336") {
			t.Errorf("what was left out is not counted: %.200s", b.String()[b.Len()-200:])
		}
	})
}

// TestLogNamesTheTest: a latency test has no bandwidth in the log.
func TestLogNamesTheTest(t *testing.T) {
	r := report.Record{
		Plan:    report.Plan{Kind: "latency"},
		Latency: &report.Latency{P50Ns: 2500},
	}
	r.Bandwidth.AverageBitsPerS = 1e9
	if got := figureText(r); got != "2.50 us" {
		t.Errorf("latency: %q", got)
	}
	r.Kind = "bandwidth"
	if got := figureText(r); got != "1.00 Gb/s" {
		t.Errorf("bandwidth: %q", got)
	}
	r.Messages = 16 // of 'doctor'
	if got, name := figureText(r), planText(plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Iterations: 16,
	}); got != "16 messages" || name != "write RC, 16 messages" {
		t.Errorf("%q, %q", name, got)
	}
}

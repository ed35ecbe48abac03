package trend_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/report/trend"
)

// nights are so many results of four runs each, of which the last bad ones have lost a share. Each has noise of its
// own.
func nights(count, bad int, lost, noise float64, lot *rand.Rand) []*report.Document {
	docs := make([]*report.Document, count)
	for n := range docs {
		d := &report.Document{
			Schema: report.SchemaVersion, Complete: true, Started: dateOf(n), Description: fmt.Sprintf("night-%02d", n),
			Client: report.Environment{Device: "mlx5_0", Host: "alpha", Version: "v1"},
		}
		level := 94e9 * math.Exp(noise*lot.NormFloat64())
		if n >= count-bad {
			level *= 1 - lost
		}
		for run := range 4 {
			r := report.Record{
				Run: run + 1, Plan: report.Plan{Operation: "write", Kind: "bandwidth", Transport: "RC", QPs: 1, SizeBytes: 65536},
			}
			r.Bandwidth.AverageBitsPerS = level * math.Exp(noise/4*lot.NormFloat64())
			d.Records = append(d.Records, r)
		}
		docs[n] = d
	}
	return docs
}

func dateOf(night int) time.Time { return time.Date(2026, 10, 1+night, 2, 0, 0, 0, time.UTC) }

// judged is the verdict of a gate over some results.
func judged(t *testing.T, docs []*report.Document, since time.Time, accepted trend.Acceptance,
	limit string,
) stats.Word {
	t.Helper()
	e, err := expect.Parse(limit, expect.Options{Comparison: true})
	if err != nil {
		t.Fatal(err)
	}
	tr, err := trend.Documents(docs, compare.Options{Margin: expect.Margin([]*expect.Expectation{e})})
	if err != nil {
		t.Fatal(err)
	}
	tr.Accepted = accepted
	var words []stats.Word
	for _, c := range expect.JudgeComparison(tr.Since(since), []*expect.Expectation{e}, nil) {
		words = append(words, c.Word)
	}
	return stats.Gravest(words...)
}

// letter is a verdict in a table: P pass, F fail, - cannot tell.
func letter(w stats.Word) string {
	return map[stats.Word]string{stats.Pass: "P", stats.Fail: "F", stats.CannotTell: "-"}[w]
}

// forms are the ways to say what is new: a time before now, the date of the change, and another date.
var forms = map[string]func(nights, bad int) time.Time{
	"7d":     func(nights, _ int) time.Time { return dateOf(nights - 1).Add(time.Hour - 7*24*time.Hour) },
	"change": func(nights, bad int) time.Time { return dateOf(nights - bad).Truncate(24 * time.Hour) },
	"date":   func(nights, _ int) time.Time { return dateOf(nights / 2).Truncate(24 * time.Hour) },
}

// A gate that failed does not pass until somebody accepts, however many bad nights there are. Less than three good
// nights are no state to remember, and one or two bad nights are no state yet.
func TestGateStaysRed(t *testing.T) {
	for _, step := range []struct {
		lost  float64
		limit string
		red   bool
	}{{0.03, "worse<5%", false}, {0.03, "worse<1.5%", true}, {0.08, "worse<5%", true}, {0.5, "worse<5%", true}} {
		for form, since := range forms {
			t.Run(fmt.Sprintf("-%.0f %%, %s, --since %s", 100*step.lost, step.limit, form), func(t *testing.T) {
				lot := rand.New(rand.NewPCG(40, 1))
				var row, after strings.Builder
				for bad := 1; bad <= 30; bad++ {
					if !testrun.Whole() && !slices.Contains([]int{1, 2, 3, 7, 8, 10, 11, 14, 20, 27, 28, 30}, bad) {
						continue
					}
					docs := nights(30, bad, step.lost, 0.004, lot)
					got := judged(t, docs, since(30, bad), trend.Acceptance{}, step.limit)
					row.WriteString(letter(got))
					remembered := bad >= 3 && bad <= 27
					if missed := step.red && remembered && got != stats.Fail; missed || !step.red && got == stats.Fail {
						t.Errorf("%d bad nights: %s", bad, got)
					}
					accepted := trend.Acceptance{Since: dateOf(30 - bad).Truncate(24 * time.Hour), Reason: "accepted"}
					got = judged(t, docs, since(30, bad), accepted, step.limit)
					after.WriteString(letter(got))
					if got == stats.Fail || form == "7d" && bad >= 11 && got != stats.Pass {
						t.Errorf("%d bad nights, accepted: %s", bad, got)
					}
				}
				t.Logf("1 to 30 bad nights %s, accepted %s", row.String(), after.String())
			})
		}
	}
}

// TestGateNightByNight runs a gate every night, as a nightly test does: once red it stays red until it is accepted or
// repaired.
func TestGateNightByNight(t *testing.T) {
	for seed := range uint64(3) {
		lot := rand.New(rand.NewPCG(seed, 2))
		docs := nights(40, 20, 0.08, 0.004, lot)
		var row strings.Builder
		red := false
		for n := 8; n <= 40; n++ {
			got := judged(t, docs[:n], forms["7d"](n, 0), trend.Acceptance{}, "worse<5%")
			row.WriteString(letter(got))
			if red = red || got == stats.Fail; red != (n >= 23) || red && got != stats.Fail {
				t.Errorf("night %d: %s", n, got)
			}
		}
		repaired := nights(8, 0, 0, 0.004, lot)
		for n, d := range repaired {
			d.Started = dateOf(40 + n)
			got := judged(t, append(docs, repaired[:n+1]...), forms["7d"](41+n, 0), trend.Acceptance{}, "worse<5%")
			row.WriteString(letter(got))
			if n >= 3 && got != stats.Pass {
				t.Errorf("night %d after the repair: %s", n, got)
			}
		}
		t.Logf("nights 8 to 48, bad from 20 to 39: %s", row.String())
	}
}

// TestFailedNightIsAccepted: a night whose test failed cannot be told, until somebody accepts the results behind it.
func TestFailedNightIsAccepted(t *testing.T) {
	docs := nights(30, 0, 0, 0.004, rand.New(rand.NewPCG(5, 1)))
	docs[20].Records, docs[20].Complete, docs[20].Failure = nil, false, "the peer was lost"
	since := dateOf(20).Truncate(24 * time.Hour)
	for night, want := range map[int]stats.Word{0: stats.CannotTell, 20: stats.CannotTell, 21: stats.Pass} {
		accepted := trend.Acceptance{Since: dateOf(night).Truncate(24 * time.Hour), Reason: "power failed"}
		if got := judged(t, docs, since, accepted, "worse<5%"); got != want {
			t.Errorf("accepted since night %d: %q, want %q", night, got, want)
		}
	}
}

// Where nothing changed at most one gate in twenty fails, in a machine as noisy as these and with a narrow limit.
func TestGateFalseAlarms(t *testing.T) {
	gates, alarms := 40, map[string]int{}
	if testrun.Whole() {
		gates = 200
	}
	for seed := range gates {
		docs := nights(30, 0, 0, 0.03, rand.New(rand.NewPCG(uint64(seed), 3)))
		for form, since := range forms {
			for _, limit := range []string{"worse<5%", "worse<0.1%"} {
				if judged(t, docs, since(30, 7), trend.Acceptance{}, limit) == stats.Fail {
					alarms[form+", "+limit]++
				}
			}
		}
	}
	t.Logf("of %d gates: %v", gates, alarms)
	for what, n := range alarms {
		if float64(n) > 0.05*float64(gates)+3*math.Sqrt(0.05*0.95*float64(gates)) {
			t.Errorf("%s: %d false alarms of %d", what, n, gates)
		}
	}
}

// Four results of one night are one sample: that they agree with each other says nothing of other nights.
func TestResultsOfANightAreOneSample(t *testing.T) {
	var docs []*report.Document
	lot := rand.New(rand.NewPCG(7, 7))
	for n, d := range nights(5, 0, 0, 0.05, lot) {
		for again := range 4 {
			copied := *d
			copied.Started = dateOf(n).Add(time.Duration(again) * time.Hour)
			copied.Description = fmt.Sprintf("night-%02d-%d", n, again)
			docs = append(docs, &copied)
		}
	}
	tr, err := trend.Documents(docs, compare.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p := tr.Series[0].Points; len(p) != 5 || p[0].Runs != 16 {
		t.Errorf("%d points, the first of %d runs; want 5 of 16", len(p), p[0].Runs)
	}
	if got := judged(t, docs, dateOf(3), trend.Acceptance{}, "worse<5%"); got != stats.CannotTell {
		t.Errorf("5 nights: %s", got)
	}
}

func TestAcceptances(t *testing.T) {
	now := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	read := func(text string) (trend.Acceptance, error) {
		return trend.ReadAcceptances(strings.NewReader(text), "n/accepted", now)
	}
	got, err := read("# what we live with\n2026-10-05 firmware 22.41, T-12\n\n2026-10-20 new switch\n2026-10-01 first\n")
	if err != nil || got.String() != "results since 2026-10-20: new switch (n/accepted:4)" {
		t.Errorf("%v, %v", got, err)
	}
	for text, says := range map[string]string{
		"2026-10-05\n":          "n/accepted:1: no reason",
		"\nyesterday all\n":     "n/accepted:2: \"yesterday all\": want a date",
		"2027-10-05 of a dream": "2027-10-05 is in the future",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

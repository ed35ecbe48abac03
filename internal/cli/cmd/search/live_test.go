package search

import (
	"context"
	"errors"
	"flag"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cli/output"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

var (
	live   = flag.String("live", "", "a test against a server that runs: 'write 127.0.0.1 -d roce0'")
	length = flag.Duration("length", 10*time.Millisecond, "of a live test")
	seeds  = flag.Int("seeds", 10, "searches of each planted rule")
	first  = flag.Uint64("first", 0, "seed of the first searches")
	most   = flag.Duration("most", 5*time.Minute, "time for all planted rules; a quarter of it for the grid")
)

// openLive is a meter and a space of a device that is there.
func openLive(t *testing.T, question string, only ...string) (*meter, engine.Space) {
	t.Helper()
	if *live == "" {
		t.Skip("no -live: no device is asked for")
	}
	f := commandFlags{config: config{Only: only, By: byRate}, testTime: *length}
	fs := NewCommand("gobw", "bandwidth", output.Streams{}).Flags()
	f.output.Bind(fs, formats())
	c, err := f.validated("gobw", question, "bandwidth", *live)
	if err != nil {
		t.Fatal(err)
	}
	c.Output.Quiet = true
	m := &meter{config: &c, out: output.Streams{Out: io.Discard, Err: io.Discard}}
	if err := m.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.close() })
	if m.tests, err = c.tests(m.limits); err != nil {
		t.Fatal(err)
	}
	m.learn(t.Context())
	space := m.space()
	if space.Size >= 0 { // of larger ones what is in flight takes longer than a test
		size := &space.Dimensions[space.Size]
		size.Values = slices.DeleteFunc(slices.Clone(size.Values), func(v int) bool { return v > 16384 })
	}
	return m, space
}

// TestPlantedRulesAreFoundLive: rules of one to three settings, among the noise of a device that is there. It counts
// and does not judge. All rules have their turn with one seed, then with the next, until -most is over.
func TestPlantedRulesAreFoundLive(t *testing.T) {
	m, space := openLive(t, anomalies, "operation", "size", "qp", "tx-depth", "post-list", "bidirectional")
	type of = func(string) int
	plants := []struct {
		rule string
		is   func(v of) bool
	}{
		{"qp >= 16", func(v of) bool { return v("qp") >= 16 }},
		{"post-list >= 16 and bidirectional yes", func(v of) bool { return v("post-list") >= 16 && v("bidirectional") == 1 }},
		{
			"operation send and size >= 1025 and qp >= 16",
			func(v of) bool { return v("operation") == 2 && v("size") >= 1025 && v("qp") >= 16 },
		},
	}
	type count struct {
		exact, inexact, others, searches, tests int
		took                                    time.Duration
	}
	counts, began := make([]count, len(plants)), time.Now()
	for n := range *seeds * len(plants) {
		i, left := n%len(plants), *most-time.Since(began)
		if left < *most/time.Duration(20**seeds*len(plants)) { // too little for a search
			break
		}
		c, p, from := &counts[i], plants[i], time.Now()
		// Four times its share of what is left: most searches need less.
		ctx, cancel := context.WithTimeoutCause(t.Context(), min(left, 4*left/time.Duration(*seeds*len(plants)-n)), errTimeUp)
		is := func(point engine.Point) bool { return p.is(func(name string) int { return point[space.Index(name)] }) }
		s := &engine.Search{
			Space: space, Seed: *first + uint64(n/len(plants)),
			Measure: func(ctx context.Context, point engine.Point) (engine.Figures, error) {
				f, err := m.measure(ctx, point) // what it measures is real
				if is(point) {
					f.Value /= 2
				}
				return f, err
			},
		}
		// Where both ends of a finding have the plant, that is not what made the difference.
		planted := func() int {
			return slices.IndexFunc(s.Answer.Found, func(f engine.Finding) bool { return is(f.Bad) && !is(f.Good) })
		}
		s.Tell = func(engine.Step) {
			if planted() >= 0 { // enough; what the device itself does is found beside it
				cancel()
			}
		}
		err := s.Run(ctx, engine.Anomalies)
		cancel()
		if !errors.Is(err, errTimeUp) && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		c.searches, c.tests, c.took = c.searches+1, c.tests+len(s.Steps()), c.took+time.Since(from)
		at := planted()
		switch {
		case at < 0:
		case s.Answer.Found[at].Rule.String() == p.rule:
			c.exact++
		default:
			c.inexact++
		}
		if c.others += len(s.Answer.Found); at >= 0 {
			c.others--
		}
		rules := plain.Each(s.Answer.Found, func(f engine.Finding) string { return f.Rule.String() })
		t.Logf("%s, seed %d: %d tests in %v, %d found: %q", p.rule, s.Seed, len(s.Steps()),
			time.Since(from).Round(time.Second), len(s.Answer.Found), rules)
	}
	t.Logf("device  rule                                           exact  inexact  other rules  tests  seconds   (of so " +
		"many searches; tests and seconds of each)")
	for i, p := range plants {
		c := counts[i]
		each := max(c.searches, 1)
		t.Logf("%-6s  %-44s  %2d of %-2d %6d %11d %7d %8.0f", m.limits.Device.Name, p.rule, c.exact, c.searches, c.inexact,
			c.others, c.tests/each, c.took.Seconds()/float64(each))
	}
	t.Logf("%v in all", time.Since(began).Round(time.Second))
}

// TestBestBesideTheWholeGrid lets 'best' search a grid, and then measures each of its points, as far as -most allows.
func TestBestBesideTheWholeGrid(t *testing.T) {
	m, space := openLive(t, best, "qp", "tx-depth", "post-list", "cq-mod")
	ctx, cancel := context.WithTimeoutCause(t.Context(), *most/4, errTimeUp)
	defer cancel()
	s := &engine.Search{Space: space, Measure: m.measure, Seed: 1}
	if err := s.Run(ctx, engine.Best); err != nil {
		t.Fatalf("after %d tests: %v", len(s.Steps()), err)
	}
	at := s.Answer.Best.At
	distinct := map[string]bool{}
	for _, step := range s.Steps() {
		distinct[space.Text(step.Point, nil)] = true
	}
	t.Logf("best: %s, %d tests of %d points", space.Text(at, nil), len(s.Steps()), len(distinct))
	points := []engine.Point{{}}
	for _, d := range space.Dimensions {
		var longer []engine.Point
		for _, p := range points {
			for _, v := range d.Values {
				longer = append(longer, append(slices.Clone(p), v))
			}
		}
		points = longer
	}
	points = slices.DeleteFunc(points,
		func(p engine.Point) bool { return !slices.Equal(space.Repair(slices.Clone(p), -1), p) })
	rand.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	top, topAt, seen := 0.0, at, 0
	for _, p := range points {
		f, err := m.measure(ctx, p)
		if _, is := errors.AsType[*engine.PointError](err); err != nil && !is {
			if !errors.Is(err, errTimeUp) {
				t.Fatal(err)
			}
			break
		}
		if seen++; f.Value > top {
			top, topAt = f.Value, p
		}
	}
	var a, b []float64 // the largest of many is largest by noise, too: both once more, in turn
	for range 15 {
		f, _ := m.measure(t.Context(), at)
		g, _ := m.measure(t.Context(), topAt)
		a, b = append(a, f.Value), append(b, g.Value)
	}
	e := stats.Paired(b, a, stats.DefaultConfidence, stats.HigherIsBetter)
	t.Logf("grid: %d of %d points measured, the best of them %s; 'best' is %s beside it in 15 pairs, "+
		"from %.3f of the grid's points",
		seen, len(points), space.Text(topAt, nil), change(e), float64(len(distinct))/float64(len(points)))
}

package search

import (
	"context"
	"errors"
	"flag"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cli/output"
	engine "github.com/gobw/gobw/internal/search"
)

var (
	live   = flag.String("live", "", "a test against a server that runs: 'write 127.0.0.1 -d roce0'")
	length = flag.Duration("length", 20*time.Millisecond, "of a live test")
	seeds  = flag.Int("seeds", 3, "searches of each planted rule")
)

// openLive is a meter and a space of a device that is there.
func openLive(t *testing.T, question string, only ...string) (*meter, engine.Space) {
	t.Helper()
	if *live == "" {
		t.Skip("no -live: no device is asked for")
	}
	f := commandFlags{testTime: length.String(), only: only}
	fs := NewCommand("gobw", "bandwidth", output.Streams{}).Flags()
	f.output.Bind(fs, formats())
	c, err := f.config("gobw", question, "bandwidth", *live)
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
	return m, m.space()
}

// plantedMeter makes a device slower by a rule: what it measures is real.
type plantedMeter struct {
	*meter
	slower func(v func(name string) int) float64
}

func (p plantedMeter) Measure(ctx context.Context, at engine.Point) (engine.Figures, error) {
	f, err := p.meter.Measure(ctx, at)
	f.Value /= p.slower(func(name string) int {
		return at[slices.IndexFunc(p.dims, func(s setting) bool { return s.Name == name })]
	})
	return f, err
}

// TestPlantedRulesAreFoundLive: rules of one to three settings, among the noise of a device that is there.
func TestPlantedRulesAreFoundLive(t *testing.T) {
	m, space := openLive(t, anomalies, "operation", "size", "qp", "tx-depth", "post-list", "bidirectional", "events")
	type of = func(string) int
	for _, plant := range []struct {
		rule string
		is   func(v of) bool
	}{
		{"qp >= 16", func(v of) bool { return v("qp") >= 16 }},
		{"post-list >= 16 and bidirectional yes", func(v of) bool { return v("post-list") >= 16 && v("bidirectional") == 1 }},
		{"operation send and size >= 4097 and qp >= 4", func(v of) bool { return v("operation") == 2 && v("size") >= 4097 && v("qp") >= 4 }},
	} {
		exact := 0
		for seed := range *seeds {
			slower := func(v of) float64 {
				if plant.is(v) {
					return 4
				}
				return 1
			}
			s := &engine.Search{Space: space, Meter: plantedMeter{m, slower}, Seed: uint64(seed), Most: 3000, Enough: 1}
			from := time.Now()
			err := s.Run(t.Context(), engine.Anomalies)
			if err != nil && !errors.Is(err, engine.ErrPoints) && !errors.Is(err, engine.ErrEnough) {
				t.Fatal(err)
			}
			rules := []string{}
			for _, a := range slices.Concat(s.Answer.Found, s.Answer.Unproven) {
				rules = append(rules, a.Rule.String())
			}
			if len(s.Answer.Found) == 1 && rules[0] == plant.rule {
				exact++
			}
			t.Logf("seed %d: %d points in %v: %d found, with those not confirmed %q", seed, len(s.Steps()), time.Since(from).Round(time.Second), len(s.Answer.Found), rules)
		}
		t.Logf("%s: exact in %d of %d", plant.rule, exact, *seeds)
	}
}

// TestBestBesideTheWholeGrid measures each point of a grid, and then lets 'best' search it.
func TestBestBesideTheWholeGrid(t *testing.T) {
	m, space := openLive(t, best, "qp", "tx-depth", "post-list", "cq-mod")
	s := &engine.Search{Space: space, Meter: m, Seed: 1}
	from := time.Now()
	if err := s.Run(t.Context(), engine.Best); err != nil {
		t.Fatal(err)
	}
	found := s.Answer.Best
	t.Logf("best: %s, %d points in %v", space.Text(found.At, nil), len(s.Steps()), time.Since(from).Round(time.Second))
	grid, top, topAt := 0, 0.0, engine.Point(nil)
	var walk func(p engine.Point)
	walk = func(p engine.Point) {
		if d := len(p); d < len(space.Dimensions) {
			for _, v := range space.Dimensions[d].Values {
				walk(append(slices.Clone(p), v))
			}
			return
		}
		if !slices.Equal(space.Repair(slices.Clone(p), -1), p) {
			return
		}
		f, err := m.Measure(t.Context(), p)
		if _, is := errors.AsType[*engine.PointError](err); err != nil && !is {
			t.Fatal(err)
		}
		if grid++; f.Value > top {
			top, topAt = f.Value, p
		}
	}
	walk(nil)
	var a, b []float64 // the largest of many is largest by noise, too: both once more, in turn
	for range 15 {
		f, _ := m.Measure(t.Context(), found.At)
		g, _ := m.Measure(t.Context(), topAt)
		a, b = append(a, f.Value), append(b, g.Value)
	}
	slices.Sort(a)
	slices.Sort(b)
	t.Logf("grid: %d points, its best %s; of 15 tests in turn the median of 'best' is %.3f of it; searched %.3f of the grid's points",
		grid, space.Text(topAt, nil), a[7]/b[7], float64(len(s.Steps()))/math.Max(float64(grid), 1))
}

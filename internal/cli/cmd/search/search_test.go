package search

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmd/ab"
	"github.com/gobw/gobw/internal/cli/cmd/operation"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/opendevice"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

// TestAPeerThatDoesNotComeBackIsLost: it ends the search with the peer's exit code, and is no failure of a point.
func TestAPeerThatDoesNotComeBackIsLost(t *testing.T) {
	c := &config{
		Tool: "gobw", Test: operation.Config{
			Config: measure.Config{
				Device: opendevice.Config{Name: "roce0"}, Peer: measure.PeerConfig{Host: "127.0.0.1", Port: 1},
			},
		},
	}
	m := &meter{config: c, out: output.Streams{Out: io.Discard, Err: io.Discard}}
	_, err := m.measure(t.Context(), nil)
	if _, point := errors.AsType[*engine.PointError](err); point || exit.Code(err) != exit.PeerLost ||
		!strings.Contains(err.Error(), "does not answer") {
		t.Errorf("%v, exit code %d", err, exit.Code(err))
	}
}

// capable are the tests of a search for anomalies on a device that has all they may ask for.
func capable(t *testing.T) (*tests, *config) {
	t.Helper()
	c := &config{}
	c.Tool, c.Question = "gobw", anomalies
	if err := c.parseTest("alpha"); err != nil {
		t.Fatal(err)
	}
	c.Test.Plan.Duration = 100 * time.Millisecond
	tests, err := c.tests(plan.Limits{
		Device: verbs.DeviceInfo{Name: "x", Limits: verbs.Limits{
			MaxQP: 1000, MaxQPWR: 16384, MaxInline: 512, MaxCQE: 1 << 20, MaxRDAtomic: 128, MaxInitRDAtomic: 128, Atomic: true,
			MaxSGE: 32, MaxSGERead: 32, MaxSRQ: 100, MaxSRQWR: 16384,
		}}, Port: verbs.PortInfo{Number: 1, ActiveMTU: verbs.MTU4096, State: verbs.PortActive},
		PageBytes: 4096, LineBytes: 64,
		CPUs: 8, Dialled: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests, c
}

// TestEveryRepairedPointIsATest: whatever is drawn, a repair makes a test of it that
// settles, and keeps the setting it is told to.
func TestEveryRepairedPointIsATest(t *testing.T) {
	tests, c := capable(t)
	space := tests.space()
	for _, d := range space.Dimensions { // no value is lost to a rule of the base
		if len(d.Values) < len(named(d.Name).Values) && d.Name != "threads" {
			t.Errorf("of %s only %v are tried", d.Name, d.Values)
		}
	}
	point, m := space.Base(), &meter{tests: tests, config: c}
	point[space.Index("sge")], point[space.Index("mix")] = 4, 1
	if got := m.command(point); !strings.HasSuffix(got, "gobw write alpha -Q 100 --mix 4Kx4,64") ||
		m.perftest(point) != "" {
		t.Errorf("a mix is typed %q, and perftest %q", got, m.perftest(point))
	}
	tried, refused := 0, map[string]int{}
	s := &engine.Search{
		Space: space, Seed: 1, Most: 1000,
		Measure: func(_ context.Context, p engine.Point) (engine.Figures, error) {
			tried++
			if again := space.Repair(slices.Clone(p), -1); !slices.Equal(again, p) {
				t.Fatalf("%s is repaired once more, to %s", space.Text(p, nil), space.Text(again, nil))
			}
			words, err := plain.SplitWords(m.command(p))
			if err == nil {
				_, err = operation.Parse(words, func(*pflag.FlagSet) error { return nil })
			}
			if err != nil {
				t.Fatalf("%s: %v", m.command(p), err)
			}
			spec := tests.spec(p)
			if _, err := plan.Settle(spec, tests.limits, plan.Peer{}, plan.Policy{}); err != nil {
				refused[err.Error()]++
			}
			return engine.Figures{Value: 1}, nil
		},
	}
	if err := s.Run(t.Context(), engine.Anomalies); !errors.Is(err, engine.ErrPoints) {
		t.Fatal(err)
	}
	if len(refused) > 0 {
		t.Errorf("of %d points some are refused: %v", tried, refused)
	}
}

func named(name string) setting {
	all := settings()
	return all[slices.IndexFunc(all, func(s setting) bool { return s.Name == name })]
}

// TestSettingsAreFlags: a command that shows a finding can be typed.
func TestSettingsAreFlags(t *testing.T) {
	for _, s := range settings() {
		known := s.Name == "operation" || slices.ContainsFunc(operations(), func(o plan.Operation) (has bool) {
			_, _ = operation.Parse([]string{"gobw", string(o), "alpha"}, func(typed *pflag.FlagSet) error {
				f := typed.Lookup(s.flagName())
				has = f != nil && (len(s.perftest) != 2 || s.perftest == "-"+f.Shorthand)
				return nil
			})
			return has
		})
		if !known {
			t.Errorf("no test has --%s, %q", s.Name, s.perftest)
		}
	}
}

// TestBeside: a point's neighbour runs while its test is measured, and no other; one
// that has ended is a failure of the point.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	runs, program := filepath.Join(dir, "runs"), filepath.Join(dir, "gobw")
	script := "#!/bin/sh\n[ $2 != gone ] || exit 3\n: >" + runs + "\ntrap 'rm " + runs +
		"; exit' TERM INT\nprintf '\\r4 KiB  1 Gb/s' >&2\nwhile :; do sleep 0.01; done\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	c := &config{Tool: "gobw", Question: anomalies, Beside: []string{program + " send alpha", program + " send gone"}}
	for _, line := range c.Beside {
		n, err := ab.ParseNeighbour("gobw", line)
		if err != nil {
			t.Fatal(err)
		}
		c.neighbours = append(c.neighbours, n)
	}
	m := &meter{config: c, tests: &tests{dims: []setting{{Dimension: engine.Dimension{Name: besideName}}}}}
	running := func() bool { _, err := os.Stat(runs); return err == nil }
	for _, v := range []int{0, 1, 1, 0} {
		if err := m.keepBeside(t.Context(), engine.Point{v}); err != nil || running() != (v == 1) {
			t.Fatalf("beside %d: %v, runs: %t", v, err, running())
		}
	}
	if err := m.keepBeside(t.Context(), engine.Point{1}); err != nil {
		t.Fatal(err)
	}
	if err := m.close(); err != nil || running() {
		t.Errorf("after the end: %v, runs: %t", err, running())
	}
	if err := m.keepBeside(t.Context(), engine.Point{2}); err == nil ||
		!strings.Contains(err.Error(), "it ended before the test beside it") {
		t.Error(err)
	}
}

// TestInFlight: a point whose messages in flight would hold a test up for long is repaired; on a fast link it is none,
// and on a device whose first test was slow it is.
func TestInFlight(t *testing.T) {
	tests, _ := capable(t)
	space := tests.space()
	p := space.Base()
	for name, v := range map[string]int{"size": 262144, "qp": 64, "tx-depth": 512} {
		p[space.Index(name)] = v
	}
	if tests.limits.Port.RateBitsPerS = 200e9; !slices.Equal(space.Repair(slices.Clone(p), -1), p) {
		t.Error("a link of 200 Gb/s needs no repair")
	}
	tests.rate = 4e6
	q := space.Repair(slices.Clone(p), space.Index("size"))
	if slices.Equal(p, q) || q[space.Index("size")] != 262144 || tests.problems(q) > 0 {
		t.Errorf("%s became %s", space.Text(p, nil), space.Text(q, nil))
	}
}

// TestDefaultsOfEachOperation: what is not typed is what the point says, also of
// settings that only another operation has.
func TestDefaultsOfEachOperation(t *testing.T) {
	tests, _ := capable(t)
	space := tests.space()
	for o, name := range map[plan.Operation]string{plan.Read: "outs", plan.Send: "rx-depth"} {
		p := space.Base()
		p[space.Index("operation")] = slices.Index(operations(), o)
		settled, err := tests.settle(tests.spec(p))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{"outs": settled.Outstanding, "rx-depth": settled.Depths().Rx}[name]
		if want := p[space.Index(name)]; got != want || got < 2 {
			t.Errorf("%s: %s is %d, the point says %d", o, name, got, want)
		}
	}
}

// TestTheServerCanRunEachPoint: receives of all queue pairs that its completion queue does not hold are repaired.
func TestTheServerCanRunEachPoint(t *testing.T) {
	tests, _ := capable(t)
	tests.limits.Device.Limits.MaxCQE = 32767
	space := tests.space()
	p := space.Base()
	for name, v := range map[string]int{"operation": slices.Index(operations(), plan.Send), "qp": 64, "rx-depth": 1024} {
		p[space.Index(name)] = v
	}
	if tests.problems(p) == 0 {
		t.Errorf("%s has no problem", space.Text(p, nil))
	}
}

// TestNothingFoundSaysWhatWasLookedFor: where no setting has an order, only counters tell.
func TestNothingFoundSaysWhatWasLookedFor(t *testing.T) {
	steps := []engine.Step{{Figures: engine.Figures{Counters: map[string]float64{"rnr_naks": 0}}}}
	for ordered, want := range map[bool]string{
		true: "no combination of settings is slow", false: "no counter moved. Slow tests were not",
	} {
		r := &Result{
			Question: anomalies, Complete: true, Steps: steps, Dimensions: []engine.Dimension{{Name: "qp", AnyCost: !ordered}},
		}
		if text := r.table(); !strings.Contains(text, "nothing found: "+want) {
			t.Errorf("ordered %t: %q, want %q", ordered, text, want)
		}
	}
}

// TestNoMessageHasNoCPUTime: a test in which no message came has no figure, also by CPU
// time, so that it is measured once more.
func TestNoMessageHasNoCPUTime(t *testing.T) {
	for _, r := range []*report.Record{{}, {CPU: &report.CPU{}}} {
		if v := goals()[byCPU].value(r); v != 0 {
			t.Errorf("the value is %v, want 0", v)
		}
	}
}

// TestOneCauseIsOneFinding: the numbers in an error's text differ, the cause does not.
func TestOneCauseIsOneFinding(t *testing.T) {
	tests, c := capable(t)
	m := &meter{tests: tests, config: c}
	steps := []engine.Step{{Figures: engine.Figures{Value: 1}}}
	for _, failure := range []string{
		"out of memory: 4096 entries", "out of memory: 8192 entries", "qp 0x12ab: no answer", "qp 0xff: no answer",
		"qp 0xff: status 5",
	} {
		steps = append(steps, engine.Step{Failure: failure})
	}
	r := &Result{Steps: steps}
	r.failures(m)
	if len(r.Findings) != 3 || r.Findings[0].How != "2 tests failed like this" {
		t.Errorf("findings %+v, want three causes, the first of 2 tests", r.Findings)
	}
	if err := r.unanswered(); exit.Code(err) != exit.Undecided || !strings.Contains(err.Error(), "5 of 6 tests failed") {
		t.Errorf("where most tests failed: %v, exit code %d", err, exit.Code(err))
	}
	r.Steps = append(r.Steps, steps[0], steps[0], steps[0], steps[0])
	if err := r.unanswered(); err != nil {
		t.Errorf("where half of the tests failed: %v", err)
	}
}

package search

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// flaky fails at one setting and loses its peer after some points; 0: never.
type flaky struct {
	simulated
	lostAfter int
}

var errPeerLost = errors.New("the peer is lost")

func (d *flaky) Measure(ctx context.Context, p Point) (Figures, error) {
	f, err := d.simulated.Measure(ctx, p)
	if d.lostAfter > 0 && d.points > d.lostAfter {
		return Figures{}, errPeerLost
	}
	if p[d.space.Index("sges")] == 30 {
		return Figures{}, &PointError{errors.New("the driver refuses 30 SGEs")}
	}
	return f, err
}

func newFlaky(space *Space, lostAfter int) *flaky {
	rule := plants()[2]
	return &flaky{
		simulated{space: space, noise: rand.New(rand.NewPCG(1, 1)), sigma: 0.03, planted: rule.planted}, lostAfter,
	}
}

// TestASearchThatWasCutOffGoesOn: it takes its steps over, measures none of them
// again, and finds what a whole one finds.
func TestASearchThatWasCutOffGoesOn(t *testing.T) {
	space := simulatedSpace()
	whole := &Search{Space: space, Measure: newFlaky(&space, 0).Measure, Seed: 7, Most: 300}
	err := whole.Run(t.Context(), Anomalies)
	if !errors.Is(err, ErrPoints) || len(whole.Answer.Found) == 0 {
		t.Fatal(whole.Answer, err)
	}
	cut := &Search{Space: space, Measure: newFlaky(&space, 90).Measure, Seed: 7, Most: 300}
	if err := cut.Run(t.Context(), Anomalies); !errors.Is(err, errPeerLost) {
		t.Fatal(err)
	}
	rest := newFlaky(&space, 0)
	for range cut.Steps() { // its noise goes on where the other's ended
		rest.noise.NormFloat64()
	}
	again := &Search{Space: space, Measure: rest.Measure, Seed: 7, Most: 300, Known: cut.Steps()}
	if err := again.Run(t.Context(), Anomalies); !errors.Is(err, ErrPoints) {
		t.Fatal(err)
	}
	if rest.points+len(cut.Steps()) != 300 {
		t.Errorf("%d points measured after %d were known, want 300 in all", rest.points, len(cut.Steps()))
	}
	if !reflect.DeepEqual(again.Answer, whole.Answer) {
		t.Errorf("found %+v, want %+v", again.Answer, whole.Answer)
	}
}

// TestAPointThatFailsIsSkipped: the search goes on, and its steps say what failed.
func TestAPointThatFailsIsSkipped(t *testing.T) {
	space := simulatedSpace()
	s := &Search{Space: space, Measure: newFlaky(&space, 0).Measure, Seed: 1, Most: 400}
	err := s.Run(t.Context(), Anomalies)
	if !errors.Is(err, ErrPoints) || len(s.Answer.Found) != 1 || s.Answer.Found[0].Rule.String() != plants()[2].rule {
		t.Errorf("found %+v, %v", s.Answer.Found, err)
	}
	failed := 0
	for _, step := range s.Steps() {
		if step.Failure != "" {
			failed++
		}
	}
	if failed == 0 {
		t.Error("no step tells of the failure")
	}
}

// TestTheCounterThatMovesMostIsTold: of two that move for one cause.
func TestTheCounterThatMovesMostIsTold(t *testing.T) {
	space := simulatedSpace()
	dev := &simulated{
		space: &space, noise: rand.New(rand.NewPCG(1, 1)), sigma: 0.03,
		planted: func(v func(string) int) (float64, map[string]float64) {
			if v("direction") == 1 {
				return 1, map[string]float64{"few": 0.01, "many": 0.5}
			}
			return 1, map[string]float64{"few": 0, "many": 0.01}
		},
	}
	s := &Search{Space: space, Measure: dev.Measure, Seed: 1, Most: 300}
	err := s.Run(t.Context(), Anomalies)
	if !errors.Is(err, ErrPoints) || len(s.Answer.Found) != 1 || s.Answer.Found[0].Counter != "many" ||
		s.Answer.Found[0].Events != 0.5 {
		t.Errorf("found %+v, %v", s.Answer.Found, err)
	}
}

// TestInterruptedGivesWhatIsKnown: a best that is cut off still has a point.
func TestInterruptedGivesWhatIsKnown(t *testing.T) {
	space := settingsSpace()
	ctx, cancel := context.WithCancel(t.Context())
	s := &Search{
		Space: space,
		Measure: (&settings{
			noise: rand.New(rand.NewPCG(1, 1)), value: func(p Point) float64 { return float64(1 + p[2]) },
		}).Measure,
	}
	s.Tell = func(Step) {
		if len(s.Steps()) == 60 {
			cancel()
		}
	}
	err := s.Run(ctx, Best)
	found := s.Answer.Best
	if !errors.Is(err, context.Canceled) || found.Peak == nil || found.At == nil {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestNoiseIsNoGain: where settings bring nothing, no larger one is called better, however noisy the machine is.
func TestNoiseIsNoGain(t *testing.T) {
	space, wrong := settingsSpace(), 0
	for seed := range 40 {
		s := &Search{Space: space, Seed: uint64(seed), Measure: (&settings{
			noise: rand.New(rand.NewPCG(uint64(seed), 9)), sigma: 0.2, value: func(Point) float64 { return 1 },
		}).Measure}
		if err := s.Run(t.Context(), Best); err != nil {
			t.Fatal(err)
		}
		found := s.Answer.Best
		if slices.ContainsFunc(space.Dimensions,
			func(d Dimension) bool { i := space.Index(d.Name); return found.At[i] > found.Start[i] }) {
			wrong++
			t.Logf("seed %d: %s", seed, space.Text(found.At, found.Start))
		}
	}
	if wrong > 2 {
		t.Errorf("in %d of 40 searches noise was taken for a gain", wrong)
	}
}

// TestAGainAmongNoise: what brings a half is found where tests scatter by 30 %.
func TestAGainAmongNoise(t *testing.T) {
	space, found, points := settingsSpace(), 0, 0
	for seed := range 40 {
		s := &Search{
			Space: space, Seed: uint64(seed),
			Measure: (&settings{noise: rand.New(rand.NewPCG(uint64(seed), 9)), sigma: 0.3, value: func(p Point) float64 {
				if p[3] >= 16 {
					return 1.5
				}
				return 1
			}}).Measure,
		}
		if err := s.Run(t.Context(), Best); err != nil {
			t.Fatal(err)
		}
		b := s.Answer.Best
		if points += len(s.Steps()); b.At[3] >= 16 {
			found++
		}
	}
	if t.Logf("found in %d of 40, %d points", found, points/40); found < 20 {
		t.Error("want 20")
	}
}

package control

import (
	"testing"
	"time"

	"github.com/gobw/gobw/internal/plan"
)

// TestForPhase: a step may take as long as the messages in flight do on a slow path, and a
// hostile plan does not make that endless.
func TestForPhase(t *testing.T) {
	limits := Timeouts{}.WithDefaults()
	big := plan.Spec{Kind: plan.Bandwidth, Sizes: []int{8 << 20}, QPs: 4, TxDepth: 100}
	inFlight := (8 << 20) * 400 * time.Second / 20e6
	timed := big
	timed.Duration = time.Minute
	hostile := plan.Spec{Kind: plan.Bandwidth, Sizes: []int{1<<31 - 1}, QPs: 16384, TxDepth: 15000}
	for _, tt := range []struct {
		name  string
		phase Phase
		spec  *plan.Spec
		want  time.Duration
	}{
		{"no plan yet", PhaseListening, nil, 30 * time.Second},
		{"little in flight", PhaseReady, &plan.Spec{Kind: plan.Latency, Sizes: []int{64}}, 30 * time.Second},
		{"much in flight", PhaseReady, &big, 30*time.Second + inFlight},
		{"much in flight at the end of a time", PhaseDone, &timed, 90*time.Second + inFlight},
		{"without bounds", PhaseReady, &hostile, 30*time.Second + time.Hour},
	} {
		if got := limits.ForPhase(tt.phase, tt.spec); got < tt.want || got > tt.want+time.Second {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

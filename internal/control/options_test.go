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
	buffer := plan.Spec{Kind: plan.Latency, Sizes: []int{1 << 30}, QPs: 4}
	grid := func(layout string, footprint int) *plan.Spec {
		return &plan.Spec{Kind: plan.Bandwidth, Sizes: []int{64}, Noncontig: &plan.Noncontig{
			Strategy: "pack", Layout: layout, Window: 8, Footprint: footprint,
		}}
	}
	list := plan.Spec{Kind: plan.Bandwidth, Sizes: []int{64}, Noncontig: &plan.Noncontig{
		Strategy: "pack", Window: 1, Descriptors: &plan.Descriptors{LocalBytes: 1 << 30, RemoteBytes: 2 << 30},
	}}
	pieces := plan.Spec{Kind: plan.Bandwidth, Sizes: []int{64}, Noncontig: &plan.Noncontig{
		Strategy: "multi-wr", Window: 1,
		Descriptors: &plan.Descriptors{LocalBytes: 10_000_000, RemoteBytes: 10_000_000, Pieces: 10_000_000},
	}}
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
		{"a large buffer", PhaseJoined, &buffer, 30*time.Second + plan.DrainTime(4<<30)},
		{"a large footprint", PhaseConnected, grid("vector:block=64,num=2,stride=128", 40<<30), 30*time.Second +
			plan.DrainTime(40<<30)},
		{"a layout with wide gaps", PhaseConnected, grid("vector:block=64,num=16,stride=64M", 0), 30*time.Second +
			plan.DrainTime(16*15<<26)},
		{"a large list", PhaseConnected, &list, 30*time.Second + plan.DrainTime(3<<30)},
		{"without bounds", PhaseReady, &hostile, 30*time.Second + time.Hour},
	} {
		if got := limits.ForPhase(tt.phase, tt.spec); got < tt.want || got > tt.want+time.Second {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := limits.ForPhase(PhaseJoined, &pieces); got < 4*time.Minute || got > 10*time.Minute {
		t.Errorf("10^7 requests may take %v to prepare, want some minutes", got)
	}
}

package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// TestRails runs tests on two devices of each end at once: the record holds what each rail did, and the total.
func TestRails(t *testing.T) {
	needCPUs(t, 2)
	p := newPairOfRails(t, 2, 2, func(d verbs.Device) verbs.Device { return d })
	for _, tt := range append(
		partTests(),
		partTest{
			"write, both directions",
			plan.Spec{Operation: plan.Write, Iterations: 300, Verify: plan.VerifyAll, Bidirectional: true},
			true,
		},
		partTest{
			"margins after a warm-up", plan.Spec{
				Operation: plan.Write, Duration: 60 * time.Millisecond, Margin: 10 * time.Millisecond, WarmupSteady: true,
			}, false,
		},
	) {
		if testing.Short() && tt.name == "margins" {
			continue // those after a warm-up are margins, too
		}
		tt.spec.Rails = 2
		parts := func(r *report.Record) (here, there []report.Share) { return r.PerThread, r.PeerThreads }
		runParts(t, p, tt, parts, func(t *testing.T, r *report.Record, res *Result) {
			if r.Rails != 2 || r.Threads != 2 {
				t.Errorf("the record says %d rails and %d threads", r.Rails, r.Threads)
			}
			checkRails(t, r.PerThread, res.Here)
			if tt.remote {
				checkRails(t, r.PeerThreads, *res.Peer)
			}
		})
	}
}

// checkRails holds the rows against the devices of an end, of which the result
// tells; a reversed test's are the server's.
func checkRails(t *testing.T, shares []report.Share, e report.Environment) {
	t.Helper()
	if len(e.Rails) != 2 || e.Rails[0].GID == e.Rails[1].GID || e.Device != e.Rails[0].Device+","+e.Rails[1].Device {
		t.Fatalf("the environment tells of %q: %+v", e.Device, e.Rails)
	}
	if shares[0].Device == shares[1].Device || !strings.HasPrefix(shares[0].Device, "roce0@127.") {
		t.Errorf("rows of %q and %q", shares[0].Device, shares[1].Device)
	}
}

// TestRailsOfOneEnd: a server that has more devices than the test uses the first; one that has fewer refuses by name.
func TestRailsOfOneEnd(t *testing.T) {
	same := func(d verbs.Device) verbs.Device { return d }
	res, err := newPairOfRails(t, 1, 2, same).run(t,
		plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Iterations: 100, Verify: plan.VerifyAll})
	if err != nil {
		t.Fatal(err)
	}
	if r := res.Records[0]; r.Rails != 0 || r.PerThread != nil || res.Peer.Rails != nil || res.Peer.Device != "roce0" {
		t.Errorf("a test of one device tells of rails: %+v, server %q", r.PerThread, res.Peer.Device)
	}
	_, err = newPairOfRails(t, 2, 1, same).run(t, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, QPs: 2, Rails: 2})
	if err == nil || !strings.Contains(err.Error(), "the test runs on 2 devices at once, this end has 1") {
		t.Errorf("a server with one device: %v", err)
	}
}

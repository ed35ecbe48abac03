package serve

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSteps: the server is told of a step that takes longer than five seconds and what the test's memory needs, and its
// time where it measures by time; also that it is over.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan event, 8)
		o := &order{tell: func(e event) { told <- e }}
		said := func() (all []event) {
			for synctest.Wait(); len(told) > 0; {
				if e := <-told; e.Test == "" {
					all = append(all, e)
				}
			}
			return all
		}
		check := func(what string, measuring bool, most time.Duration, want string) { //nolint:revive // whether it measures
			t.Helper()
			over := o.waiting(measuring)
			time.Sleep(most - time.Millisecond)
			if got := said(); got != nil {
				t.Errorf("%s: too soon: %v", what, got)
			}
			time.Sleep(2 * time.Millisecond)
			over()
			if got := said(); want == "" && got != nil ||
				want != "" && (len(got) != 2 || !strings.Contains(got[0].Slow, want) || got[1] != event{}) {
				t.Errorf("%s: %v, want %q and that it is over", what, got, want)
			}
		}
		check("before a plan", false, 5*time.Second, "did nothing for 5s")
		p := proposed()
		p.Iterations, p.Duration = 0, time.Minute
		p.Sizes = []int{1 << 29}
		if err := o.admit(&p); err != nil {
			t.Fatal(err)
		}
		_ = said() // which test begins
		memory := time.Duration(o.granted.Memory.Total()>>20) * time.Millisecond
		if memory < time.Second/2 {
			t.Fatalf("%v for %v", memory, o.granted.Memory)
		}
		check("a step", false, 5*time.Second+memory, "did nothing for "+(5*time.Second+memory).Round(time.Second).String())
		check("by time", true, 65*time.Second+memory, "did nothing for 1m")
		p.Iterations, p.Duration = 5, 0
		if err := o.admit(&p); err != nil {
			t.Fatal(err)
		}
		_ = said() // which test begins
		check("by count", true, time.Hour, "")
	})
}

package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/testrun"
)

// What judging one plan may cost, whatever it says.
const (
	settleTime  = 10 * time.Millisecond
	settleBytes = 1 << 20
)

// costly are layouts whose text is short and what they stand for is not, and some
// whose text is as long as a plan may be.
func costly() []string {
	list := func(block, gap string, n int, tail string) string {
		var b strings.Builder
		for at := 0; b.Len() < n; at += 2 {
			fmt.Fprintf(&b, block, at)
			b.WriteString(gap)
		}
		return strings.TrimSuffix(b.String(), gap) + tail
	}
	const long = 60 << 10
	return []string{
		"struct:" + list("%d+1", ",", long, ",num=252644"), // once 220 MiB a second
		"struct:0+1,2+1,extent=3,num=1073741824",
		"struct:0+4,8+8,24+100,extent=200,num=1099511627",
		"indexed:" + list("%d+1", ",", long, ""),
		"indexed:" + strings.Repeat("+", long),
		"indexed:" + strings.Repeat("x,", long/2),
		"indexed:" + strings.Repeat("a=1,", long/4),
		"indexed:" + list("k%d=1", ",", long, ""),
		"vector:block=1,num=1099511627776,stride=2",
		"vector:block=" + strings.Repeat("9", long),
		"subarray:dims=2147483648x1048576,size=1x1048576,elem=1",
		"subarray:dims=1048576x1048576x1048576,face=x,elem=1",
		"subarray:dims=" + strings.Repeat("1x", long/2) + "1,face=x",
		strings.Repeat("[", long),
	}
}

// TestCostOfPlans: a plan is judged in 10 ms and 1 MiB, whatever it stands for, with a device and without.
func TestCostOfPlans(t *testing.T) {
	n := 0
	for _, layout := range costly() {
		for _, shape := range Shapes() {
			for _, s := range Strategies(shape) {
				for _, point := range []Noncontig{
					{Window: 1, Segment: 1},
					{Window: 1, Segment: 32768},
					{Window: 4096, Footprint: 1 << 46},
					{Window: 16, ListBytes: 3},
				} {
					point.Shape, point.Strategy, point.Layout = shape, s.Name, layout
					spec := Spec{Operation: s.Operation, Kind: Bandwidth, Iterations: 1, Noncontig: &point}
					for _, limits := range []Limits{{}, device()} {
						n++
						testrun.Within(t, settleTime, settleBytes,
							func() { _, _ = Settle(spec, limits, Peer{}, Policy{Bytes: 64 << 20}) })
						if t.Failed() {
							t.Fatalf("%s %s of %.60q, segment %d, list %d, device %q", shape, s.Name, layout, point.Segment, point.ListBytes,
								limits.Device.Name)
						}
					}
				}
			}
		}
	}
	t.Log(n, "plans")
}

// FuzzCost holds what is judged to its bounds.
func FuzzCost(f *testing.F) {
	for _, layout := range costly() {
		b, _ := json.Marshal(Spec{
			Operation: Write, Kind: Bandwidth,
			Noncontig: &Noncontig{Shape: "gather", Strategy: "pack-pipelined", Layout: layout, Window: 1, Segment: 32768},
		})
		f.Add(b)
	}
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		var spec Spec
		if len(b) > 64<<10 || json.Unmarshal(b, &spec) != nil {
			return
		}
		testrun.Within(t, 10*settleTime, settleBytes,
			func() { _, _ = Settle(spec, device(), Peer{}, Policy{Bytes: 64 << 20}) })
	})
}

package bench

import (
	"testing"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// TestMix: each queue pair's messages go round the mix, and the figures are of what was moved, not of the mean.
func TestMix(t *testing.T) {
	p := newPair(t, func(d verbs.Device) verbs.Device { return d })
	var mix, one plan.Mix
	for text, to := range map[string]*plan.Mix{"64,4K,64x4": &mix, "1000x3,1000": &one} {
		if err := to.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	const each = 34*64 + 33*4096 + 33*64
	for _, c := range []struct {
		name  string
		spec  plan.Spec
		bytes uint64 // 0: by time
	}{
		{"write", plan.Spec{Operation: plan.Write, Iterations: 100, QPs: 3}, 3 * each},
		{
			"send, both directions",
			plan.Spec{Operation: plan.Send, Iterations: 100, QPs: 2, Bidirectional: true, Runs: 2},
			4 * each,
		},
		{"read", plan.Spec{Operation: plan.Read, Iterations: 100}, each},
		{"flush", plan.Spec{Operation: plan.Flush, Iterations: 100}, each},
		{
			"reversed, in lists, with immediate",
			plan.Spec{Operation: plan.Write, Iterations: 100, PostList: 4, WriteImm: true, Reversed: true},
			each,
		},
		{"datagrams", plan.Spec{Operation: plan.Send, Transport: verbs.UD, Iterations: 100, TxDepth: 8}, each},
		{"inline in part", plan.Spec{Operation: plan.Write, Iterations: 100, InlineBytes: 64}, each},
		{"paced", plan.Spec{Operation: plan.Write, Iterations: 100, RateBits: 1e9}, each},
		{"by time", plan.Spec{Operation: plan.Send, Duration: 100 * time.Millisecond, Margin: 10 * time.Millisecond}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Kind, c.spec.Mix = plan.Bandwidth, mix
			res, err := p.run(t, c.spec)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range res.Records {
				mean := float64(r.Bytes) / float64(r.Messages)
				if r.SizeBytes != 1408 || r.Mix != mix.String() || c.bytes != 0 && r.Bytes != c.bytes || mean < 1300 ||
					mean > 1500 {
					t.Errorf("%d B, mix %s: %d bytes in %d messages, want %d", r.SizeBytes, r.Mix, r.Bytes, r.Messages, c.bytes)
				}
				if got := r.Bandwidth.AverageBitsPerS / 8 / r.MessagesPerS; c.bytes != 0 && (got < mean-1 || got > mean+1) {
					t.Errorf("%g bytes a message by the rates, %g by the counts", got, mean)
				}
				if rate := r.Bandwidth.AverageBitsPerS; c.spec.RateBits > 0 && rate > 1.2*c.spec.RateBits {
					t.Errorf("%g bits per second", rate)
				}
			}
		})
	}
	for _, op := range []plan.Operation{plan.Write, plan.Read, plan.Send} {
		for _, kind := range []plan.Kind{plan.Bandwidth, plan.Latency} {
			t.Run("entries of a "+string(op)+", "+string(kind), func(t *testing.T) {
				s := plan.Spec{Operation: op, Kind: kind, Iterations: 100, Mix: one, Verify: plan.VerifyEnds}
				res, err := p.run(t, s)
				if err != nil || len(res.Records) != 1 || res.Records[0].SizeBytes != 1000 {
					t.Errorf("%+v, %v", res, err)
				}
			})
		}
	}
}

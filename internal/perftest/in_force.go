package perftest

import (
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// Depths are the values that perftest prints and that are in force: they follow from the plan.
type Depths struct{ Tx, Rx, CQMod int }

// DepthsOf applies perftest's rules: 128 and 512 by default, never more than the iterations; moderation 100, but 1 for
// messages above 8 KiB.
func DepthsOf(p control.Plan) Depths {
	d := Depths{Tx: p.TxDepth, Rx: p.RxDepth, CQMod: p.CQMod}
	if d.Tx == 0 {
		d.Tx = 128
		if p.Kind == control.Latency {
			d.Tx = 1
		}
	}
	if p.Iterations > 0 {
		d.Tx = int(min(uint64(d.Tx), p.Iterations))
	}
	if d.Rx == 0 {
		d.Rx = 512
		if p.Transport != verbs.RC && p.Kind == control.Bandwidth && p.Iterations > 0 {
			d.Rx = int(min(max(p.Iterations, 512), 16000))
		}
	}
	if p.Iterations > 0 && uint64(d.Rx) > p.Iterations {
		d.Rx = int(p.Iterations)
		if !p.AllSizes {
			d.Rx += d.Rx % 2
		}
	}
	switch {
	case d.CQMod != 0:
	case p.PostList > 1:
		d.CQMod = p.PostList
	case p.LargestSize() > 8192 && p.Transport != verbs.UD && !p.AllSizes && !p.Events:
		d.CQMod = 1
	default:
		d.CQMod = 100
	}
	d.CQMod = min(d.CQMod, d.Tx)
	return d
}

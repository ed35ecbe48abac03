package text

import (
	"slices"
	"strconv"

	"github.com/gobw/gobw/report"
)

// samples writes the lists of -U (as they came) and -H (sorted).
func (t *Text) samples(s report.Samples) {
	scale, unit := t.times()
	scale *= s.Scale
	list := func(ticks []int64) {
		t.printf("#, %s\n", unit)
		for i, v := range ticks {
			t.printf("%d, %s\n", i+1, strconv.FormatFloat(float64(v)*scale, 'g', 6, 64))
		}
	}
	raw := s.Raw // perftest's samples are from post to post, one less than messages, and -H leaves out the two largest
	if n := t.plan.Iterations; n > 1 && uint64(len(raw)) >= n {
		raw = raw[uint64(len(raw))-n+1:]
	}
	if t.v.Unsorted {
		list(raw)
	}
	if t.v.Histogram {
		sorted := slices.Sorted(slices.Values(raw))
		list(sorted[:max(len(sorted)-2, 0)])
	}
	if n := s.N - uint64(len(s.Raw)); n > 0 {
		t.printf("# %d more samples were counted but not kept one by one\n", n)
	}
}

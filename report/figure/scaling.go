package figure

import (
	"slices"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/stats"
)

// Scaling judges tests that differ in their threads: a step for each size and number of threads, in that order. The knee
// of a size is its last step before one that was not shown to be faster than the step before it.
func Scaling(records []report.Record) []report.Step {
	type key struct {
		size    uint64
		threads int
	}
	rates := map[key][]float64{}
	var keys []key
	for i := range records {
		r := &records[i]
		k := key{r.SizeBytes, max(r.Threads, 1)}
		if rates[k] == nil {
			keys = append(keys, k)
		}
		rates[k] = append(rates[k], r.MessagesPerS)
	}
	slices.SortStableFunc(keys, func(a, b key) int {
		if a.size != b.size {
			return int(min(max(int64(a.size)-int64(b.size), -1), 1))
		}
		return a.threads - b.threads
	})
	steps := make([]report.Step, len(keys))
	var effects []stats.Effect
	for i, k := range keys {
		steps[i] = report.Step{SizeBytes: k.size, Threads: k.threads, MessagesPerS: stats.Summarize(rates[k], stats.DefaultConfidence).Median}
		if i > 0 && keys[i-1].size == k.size {
			effects = append(effects, stats.Unpaired(rates[keys[i-1]], rates[k], stats.DefaultConfidence, stats.HigherIsBetter))
		}
	}
	verdicts := stats.Conclude(effects, stats.Margins{})
	for i := range steps {
		if i > 0 && steps[i-1].SizeBytes == steps[i].SizeBytes {
			steps[i].Gain, steps[i].Verdict = 1+effects[0].Change, &verdicts[0]
			effects, verdicts = effects[1:], verdicts[1:]
		}
	}
	for i := 0; i < len(steps); {
		knee := i
		for i++; i < len(steps) && steps[i].SizeBytes == steps[knee].SizeBytes && steps[i].Verdict.Word == stats.Better; i++ {
			knee = i
		}
		steps[knee].Knee = true
		for i < len(steps) && steps[i].SizeBytes == steps[knee].SizeBytes {
			i++
		}
	}
	return steps
}

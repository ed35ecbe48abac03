package report

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Interval is a confidence interval.
type Interval struct {
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"` // the coverage reached, at least what was asked
}

// Summary is the median of some repetitions and, where there are enough, its confidence interval.
type Summary struct {
	N        int       `json:"n"`
	Median   float64   `json:"median"`
	Interval *Interval `json:"interval,omitempty"`
}

// DefaultConfidence is the confidence of intervals unless told otherwise.
const DefaultConfidence = 0.95

// Summarize gives the median of values and its confidence interval from order statistics: whatever the distribution, the
// median lies between the k-th smallest and the k-th largest with probability 1 - 2 P(B < k), B binomial (n, 1/2). The
// largest k that keeps the confidence is taken; below 6 values none keeps 0.95 and there is no interval. The median of
// an even number is the mean of the middle two.
func Summarize(values []float64, confidence float64) Summary {
	n := len(values)
	if n == 0 {
		return Summary{Median: math.NaN()}
	}
	sorted := slices.Sorted(slices.Values(values))
	s := Summary{N: n, Median: (sorted[(n-1)/2] + sorted[n/2]) / 2}
	tail := 0.0 // P(B < k)
	for k := 1; k <= n/2; k++ {
		tail += math.Exp(logChoose(n, k-1) - float64(n)*math.Ln2)
		if 1-2*tail < confidence {
			break
		}
		s.Interval = &Interval{Low: sorted[k-1], High: sorted[n-k], Confidence: 1 - 2*tail}
	}
	return s
}

func logChoose(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

// exactRanks is up to how many values together the rank test enumerates all orders; above, it uses the normal
// approximation, which is good to the third digit there.
const exactRanks = 60

// MannWhitney tests whether x and y come from the same distribution, against one lying above the other: p is two-sided.
// U counts the pairs in which x is the larger, ties as half. Ties share mid-ranks; up to 60 values p is exact (the
// permutation distribution of the ranks seen), above it is the normal approximation with the correction for ties.
func MannWhitney(x, y []float64) (u, p float64, err error) {
	if len(x) == 0 || len(y) == 0 {
		return 0, 0, errors.New("a rank test needs at least one value on each side")
	}
	all := slices.Concat(x, y)
	if slices.ContainsFunc(all, math.IsNaN) {
		return 0, 0, errors.New("a rank test cannot order NaN")
	}
	doubled, ties := doubledRanks(all)
	sum := 0
	for _, r := range doubled[:len(x)] {
		sum += r
	}
	n, m := float64(len(x)), float64(len(y))
	u = float64(sum)/2 - n*(n+1)/2
	if len(all) <= exactRanks {
		return u, exactRankP(doubled, len(x), sum), nil
	}
	total := n + m
	sigma := math.Sqrt(n * m / 12 * (total + 1 - ties/(total*(total-1))))
	if sigma == 0 {
		return u, 1, nil
	}
	z := max(0, math.Abs(u-n*m/2)-0.5) / sigma
	return u, math.Erfc(z / math.Sqrt2), nil
}

// doubledRanks gives twice the mid-rank of each value (an integer) and the sum of t³-t over groups of t ties.
func doubledRanks(values []float64) (doubled []int, ties float64) {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case values[a] < values[b]:
			return -1
		case values[a] > values[b]:
			return 1
		}
		return 0
	})
	doubled = make([]int, len(values))
	for i := 0; i < len(order); {
		j := i
		for j < len(order) && values[order[j]] == values[order[i]] {
			j++
		}
		for _, at := range order[i:j] {
			doubled[at] = i + 1 + j
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	return doubled, ties
}

// exactRankP is the share of all choices of n ranks whose sum lies at least as far from its mean as sum.
func exactRankP(doubled []int, n, sum int) float64 {
	total := 0
	for _, r := range doubled {
		total += r
	}
	ways := make([][]float64, n+1) // ways[k][s]: choices of k ranks with the sum s
	for k := range ways {
		ways[k] = make([]float64, total+1)
	}
	ways[0][0] = 1
	for seen, r := range doubled {
		for k := min(n, seen+1); k >= 1; k-- {
			for s := total; s >= r; s-- {
				ways[k][s] += ways[k-1][s-r]
			}
		}
	}
	// The mean is n/len of the total; compare in integers.
	far := func(s int) int { return max(s*len(doubled)-n*total, n*total-s*len(doubled)) }
	var extreme, all float64
	for s, w := range ways[n] {
		all += w
		if far(s) >= far(sum) {
			extreme += w
		}
	}
	return min(1, extreme/all)
}

// SmallestP is the smallest p that [MannWhitney] can give for n and m values: 2 of all orders. Where it is not below the
// level asked for there are too few values to tell anything.
func SmallestP(n, m int) float64 {
	return min(1, 2*math.Exp(-logChoose(n+m, n)))
}

// GeometricMean of positive values; NaN where one is not positive or there is none.
func GeometricMean(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range values {
		if !(v > 0) {
			return math.NaN()
		}
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}

// Conditions are the circumstances of a measurement, as plain numbers; zero fields were not observed and are not judged.
type Conditions struct {
	Seconds  float64 // measured time
	Messages uint64
	InFlight uint64 // messages in flight at once: the edges of a run this long are not negligible

	RunValues    []float64 // the figure, once per run
	SeriesValues []float64 // the rate, once per interval

	WatchedSeconds float64          // time over which the disturbances were counted
	WaitedSeconds  float64          // of it, the measuring thread was ready to run and had no CPU
	Waits          int64            // how often it got its CPU back, or first
	StealSeconds   float64          // time the hypervisor took from the measuring CPU, at least
	ThrottledCount int64            // thermal throttle events of the CPU
	QuotaStops     int64            // periods in which the process had used up its CPU quota
	QuotaSeconds   float64          // and how long it stood still for that
	ClockCostNs    float64          // cost of a time stamp
	MedianNs       float64          // median latency, to set the clock cost against
	Counters       map[string]int64 // counters of the device, after minus before; those of errors are judged
}

// Thresholds of the verdicts, in the units their names say.
const (
	shortSeconds     = 0.010 // below, one scheduling slice decides the figure
	shortInFlights   = 10    // fewer windows than this are mostly start and end
	noisyRelative    = 0.05  // half width of the 95 % interval, or (below 6 runs) half the range, over the median
	unsteadyRelative = 0.20  // quartile range of the interval rates over their median
	stealRelative    = 0.01
	waitedRelative   = 0.02 // below, it is this process's own housekeeping: some hundred times a second for a few us
	waitedSeconds    = 0.001
	clockRelative    = 0.05
)

// Warnings says in words what makes a measurement untrustworthy: each starts with one of "too short", "too noisy",
// "unsteady", "disturbed", "throttled", "clock", "counters moved", a colon, and the reason. None: nothing was found.
func (c Conditions) Warnings() []string {
	var out []string
	add := func(word, format string, args ...any) {
		out = append(out, word+": "+fmt.Sprintf(format, args...))
	}
	if c.Seconds > 0 && c.Seconds < shortSeconds {
		add("too short", "measured for %.3g ms; below %g ms a single interruption decides the figure (raise -n or -D)",
			c.Seconds*1e3, shortSeconds*1e3)
	} else if c.InFlight > 0 && c.Messages > 0 && c.Messages < shortInFlights*c.InFlight {
		add("too short", "%d messages are fewer than %d windows of %d (raise -n or -D)", c.Messages, shortInFlights, c.InFlight)
	}
	if len(c.RunValues) > 1 {
		s := Summarize(c.RunValues, DefaultConfidence)
		low, high, what := slices.Min(c.RunValues), slices.Max(c.RunValues), "range"
		if s.Interval != nil {
			low, high, what = s.Interval.Low, s.Interval.High, "95 % interval"
		}
		if half := (high - low) / 2; s.Median > 0 && half > noisyRelative*s.Median {
			add("too noisy", "the %s of %d runs is ±%.0f %% of their median", what, s.N, 100*half/s.Median)
		}
	}
	if n := len(c.SeriesValues); n >= 8 {
		sorted := slices.Sorted(slices.Values(c.SeriesValues))
		median := sorted[n/2]
		if spread := sorted[n*3/4] - sorted[n/4]; median > 0 && spread > unsteadyRelative*median {
			add("unsteady", "the rate moved within the run: half of its intervals lie further apart than %.0f %% of the median", 100*spread/median)
		}
	}
	if c.WatchedSeconds > 0 {
		if c.StealSeconds > stealRelative*c.WatchedSeconds {
			add("disturbed", "the hypervisor took at least %.0f ms, %.1f %% of the measuring CPU's time", c.StealSeconds*1e3, 100*c.StealSeconds/c.WatchedSeconds)
		}
		if share := c.WaitedSeconds / c.WatchedSeconds; share > waitedRelative && c.WaitedSeconds >= waitedSeconds {
			add("disturbed", "the measuring thread waited %.0f ms, %.0f %% of the time, for its CPU, on which other threads ran (%d times)",
				c.WaitedSeconds*1e3, 100*share, c.Waits)
		}
	}
	if c.ThrottledCount > 0 {
		add("throttled", "the CPU reported %d thermal throttle events", c.ThrottledCount)
	}
	if c.QuotaStops > 0 {
		add("throttled", "the CPU quota of this process's control group was used up %d times: its threads stood still for %.0f ms", c.QuotaStops, c.QuotaSeconds*1e3)
	}
	if c.MedianNs > 0 && c.ClockCostNs > clockRelative*c.MedianNs {
		add("clock", "a time stamp costs %.0f ns, %.0f %% of the median", c.ClockCostNs, 100*c.ClockCostNs/c.MedianNs)
	}
	for _, name := range slices.Sorted(keys(c.Counters)) {
		if meaning := counterMeaning(name); meaning != "" && c.Counters[name] > 0 {
			add("counters moved", "%s by %d: %s", name, c.Counters[name], meaning)
		}
	}
	return out
}

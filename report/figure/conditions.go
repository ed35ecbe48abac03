package figure

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// DisturbedRuns counts the runs of a document, and those during which something else had the CPU.
func DisturbedRuns(d *report.Document) (disturbed, runs int) {
	all := d.Measured()
	for i := range all {
		if Disturbed(all[i].Warnings) {
			disturbed++
		}
	}
	return disturbed, len(all)
}

// Calmer is what to try if something else had the CPU during a test.
func Calmer(d *report.Document) string {
	switch {
	case d.Client.Priority != "realtime":
		return plain.Realtime
	case d.Server != nil && d.Server.Priority != "realtime":
		return "'chrt -r 1 gobw serve' at the other end"
	}
	return fmt.Sprintf("tests of at most %g s, or a quieter machine", RealtimeSeconds)
}

// Conditions are the circumstances of a measurement, as plain numbers; zero fields were not observed and are not
// judged.
type Conditions struct {
	Seconds  float64 // measured time
	Messages uint64
	InFlight uint64 // messages in flight at once: the edges of a run this long are not negligible
	Count    uint64 // the length that was asked for, in messages per queue pair; 0: a time was

	RunValues    []float64 // the figure, once per run
	SeriesValues []float64 // the rate, once per interval

	// The rate that was asked for, and reached by what this end sent, in bits per second.
	AskedBits, ReachedBits float64

	Disturbance
	Realtime    bool             // it ran before all others: what it waited is the share that the kernel keeps for them
	ClockCostNs float64          // cost of a time stamp
	ClockDrift  float64          // by which share the cycle counter ran faster than before the test
	MedianNs    float64          // median latency, to set the clock cost against
	Counters    map[string]int64 // counters of the device, after minus before; those of errors are judged
}

// Disturbance is what happened to the measuring thread and the process while they were watched.
type Disturbance struct {
	Wall       time.Duration // over which the rest was counted
	Waited     time.Duration // the measuring thread was ready and had no CPU; of several the mean
	Shared     time.Duration // of that, what no other program had: this test's own threads, or its other end
	Steal      time.Duration // the hypervisor ran something else: at least, per CPU
	Throttles  int64         // a CPU slowed down because it was hot
	Stops      int64         // periods in which a control group of this process had used up its CPU quota
	Stopped    time.Duration // for that
	ProcessCPU time.Duration
}

// Plus adds what happened in another part of the measurement.
func (d Disturbance) Plus(e Disturbance) Disturbance {
	return Disturbance{
		Steal: d.Steal + e.Steal, Stops: d.Stops + e.Stops, Stopped: d.Stopped + e.Stopped,
		Throttles: d.Throttles + e.Throttles, Waited: d.Waited + e.Waited, Shared: d.Shared + e.Shared,
		ProcessCPU: d.ProcessCPU + e.ProcessCPU, Wall: d.Wall + e.Wall,
	}
}

// RealtimeSeconds is the longest run with realtime priority that the kernel does not pause: it keeps 5 % of each second
// for others.
const RealtimeSeconds = 0.9

// Thresholds of the verdicts, in the units their names say.
const (
	shortSeconds     = 0.010 // below, one scheduling slice decides the figure
	shortInFlights   = 10    // fewer windows than this are mostly start and end
	noisyRelative    = 0.05  // half width of the 95 % interval, or (below 6 runs) half the range, over the median
	unsteadyRelative = 0.20  // quartile range of the interval rates over their median
	stealRelative    = 0.01
	reachedRelative  = 0.98 // below, the pace that was asked for was not kept
	waitedRelative   = 0.02 // below, it is the kernel's own housekeeping: some hundred times a second for a few us
	waitedLeast      = time.Millisecond
	sharedRelative   = 0.20 // below, it is two ends on one host that meet on a CPU until the kernel parts them
	clockRelative    = 0.05
)

// Kinds of notes: too little was measured, the rate is below the one asked for, what was measured differs, something
// else had the processor.
const (
	Short  = "short"
	Behind = "behind"
	Noisy  = "noisy"
	Others = "disturbed"
)

// Warnings says in words what makes a measurement untrustworthy: each starts with its kind and a colon; then come the
// reason and, behind a dot, what to do. None: nothing was found.
func (c Conditions) Warnings() []string {
	var out []string
	add := func(is bool, kind, format string, args ...any) {
		if is {
			out = append(out, kind+": "+fmt.Sprintf(format, args...))
		}
	}
	others := max(c.Waited-c.Stopped-c.Shared, 0) // A thread that a quota stops waits, too, but for nobody else.
	watched, waited, steal := c.Wall.Seconds(), others.Seconds(), c.Steal.Seconds()
	disturbed := waited > waitedRelative*watched && others >= waitedLeast && watched > 0
	needed, why := shortSeconds, fmt.Sprintf("%s ms; a test needs %s ms", plain.Number(c.Seconds*1e3),
		plain.Number(shortSeconds*1e3))
	if c.InFlight > 0 && c.Messages > 0 {
		if windows := c.Seconds / float64(c.Messages) * float64(shortInFlights*c.InFlight); windows > needed {
			needed, why = windows, fmt.Sprintf("%s; a test needs %d (%d x messages in flight)",
				plain.Plural(int(c.Messages), "message"), shortInFlights*c.InFlight, shortInFlights)
		}
	}
	length := fmt.Sprintf("-D %.0f", math.Ceil(2*needed))
	if c.Count > 0 { // -n and -D exclude each other; a multiple of the count is one of --post-list, too
		length = fmt.Sprintf("-n %d", c.Count*uint64(math.Ceil(2*needed/c.Seconds)))
	}
	add(c.Seconds > 0 && c.Seconds < needed, Short, "%s; try %s", why, length)
	add(c.ReachedBits < reachedRelative*c.AskedBits, Behind, "%.3g %% of the --rate that was asked for was reached",
		100*c.ReachedBits/c.AskedBits)
	if len(c.RunValues) > 1 {
		s := stats.Summarize(c.RunValues, stats.DefaultConfidence)
		low, high, what := slices.Min(c.RunValues), slices.Max(c.RunValues), "range"
		if s.Interval != nil {
			low, high, what = s.Interval.Low, s.Interval.High, "95 % interval"
		}
		half := (high - low) / 2
		add(s.Median > 0 && half > noisyRelative*s.Median, Noisy,
			"the runs differ: ±%.0f %% (%s of %d runs); try --runs %d", 100*half/s.Median, what, s.N, 2*s.N)
	}
	change, trend := trendOf(c.SeriesValues)
	add(trend && change > 0, Noisy, "the rate rose by %.0f %% within the run; try --warmup %d", 100*change, c.Messages)
	add(trend && change <= 0, Noisy, "the rate fell by %.0f %% within the run", -100*change)
	if n := len(c.SeriesValues); n >= trendParts && !trend {
		sorted := slices.Sorted(slices.Values(c.SeriesValues))
		median, spread := sorted[n/2], sorted[n*3/4]-sorted[n/4]
		add(median > 0 && spread > unsteadyRelative*median, Noisy,
			"the rate varied by up to %.0f %% within a run (interquartile range)%s",
			100*spread/median, plain.When(!disturbed, "; try -D 10 --runs 6"))
	}
	add(c.Stops > 0, Others,
		"the CPU quota of this process's control group ran out %d times, for %.0f ms%s; raise the quota",
		c.Stops, c.Stopped.Seconds()*1e3, plain.When(watched > 0, " (%.0f %% of the time)", 100*c.Stopped.Seconds()/watched))
	add(watched > 0 && steal > stealRelative*watched, Others,
		"the hypervisor took %.1f %% of the measuring CPU's time, %.0f ms", 100*steal/watched, steal*1e3)
	shorter := c.Realtime || c.Seconds > RealtimeSeconds
	remedy := plain.When(shorter, " -D 500ms --runs 21") + plain.When(shorter && c.Count > 0, " without -n") +
		plain.When(shorter && !c.Realtime, ", and") + plain.When(!c.Realtime, " "+plain.Realtime)
	add(disturbed, Others, "other programs took %.0f %% of the measuring CPU; try%s", 100*waited/watched, remedy)
	add(watched > 0 && c.Shared.Seconds() > sharedRelative*watched, Others,
		"this test's own threads, or its other end, took %.0f %% of the measuring CPU; give each end a CPU of its own",
		100*c.Shared.Seconds()/watched)
	add(c.Throttles > 0, Others, "the CPU reported %d thermal throttle events", c.Throttles)
	add(c.MedianNs > 0 && c.ClockCostNs > clockRelative*c.MedianNs, Short,
		"a time stamp costs %.0f ns, %.0f %% of the median", c.ClockCostNs, 100*c.ClockCostNs/c.MedianNs)
	add(c.ClockDrift != 0, Impossible,
		"the rate of the cycle counter changed by %+.2g %%: the virtual machine was moved or suspended, or NTP corrects the "+
			"clock ('chronyc tracking'); measure again", 100*c.ClockDrift)
	for _, name := range slices.Sorted(maps.Keys(c.Counters)) {
		meaning, change := counterMeaning(name), c.Counters[name]
		add(meaning != "" && change < 0, Impossible, "%s", fell(name, change))
		add(meaning != "" && change > 0, Noisy, "%s by %d: %s", name, change, meaning)
	}
	return out
}

const (
	trendParts  = 8
	trendPairs  = 25   // of the 28 pairs of parts: by chance alone so many go one way once in 1000 times (Kendall's test)
	trendChange = 0.10 // between the first part and the last
)

// trendOf is the change of a rate from the first eighth of a run to the last, and whether it went one way.
func trendOf(rates []float64) (change float64, is bool) {
	if len(rates) < trendParts {
		return 0, false
	}
	var parts [trendParts]float64
	for i := range parts {
		part := rates[i*len(rates)/trendParts : (i+1)*len(rates)/trendParts]
		for _, v := range part {
			parts[i] += v / float64(len(part))
		}
	}
	up, down := 0, 0
	for i, a := range parts {
		for _, b := range parts[i+1:] {
			if b > a {
				up++
			} else if b < a {
				down++
			}
		}
	}
	change = parts[trendParts-1]/parts[0] - 1
	return change, max(up, down) >= trendPairs && math.Abs(change) > trendChange && !math.IsInf(change, 0)
}

// NoteOf splits a warning of either end into its kind and its text. Other warnings have no kind.
func NoteOf(warning string) (kind, text string) {
	warning = strings.TrimPrefix(warning, "peer: ")
	kind, text, _ = strings.Cut(warning, ": ")
	if kind == Short || kind == Behind || kind == Noisy || kind == Others || kind == Impossible {
		return kind, text
	}
	return "", warning
}

// Disturbed tells whether a run's warnings say that something else had its CPU.
func Disturbed(warnings []string) bool {
	return slices.ContainsFunc(warnings, func(w string) bool { kind, _ := NoteOf(w); return kind == Others })
}

package figure

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Dimension is what a figure is measured in, in words.
type Dimension string

// Dimensions of figures.
const (
	Plain     Dimension = ""
	Bandwidth Dimension = "a bandwidth (as 10 Gb/s)"
	Time      Dimension = "a time (as 3 us)"
	Rate      Dimension = "a rate (as 2 Mmsg/s)"
	Size      Dimension = "a size (as 64 KiB)"
)

func (d Dimension) String() string { return cmp.Or(string(d), "a plain number") }

// Figure is one figure of a record: how to name, read and judge it. Values are in bits, seconds and counts.
type Figure struct {
	Name      string
	aliases   []string
	Dimension Dimension
	Direction stats.Direction
	Unit      string  // for tables
	Scale     float64 // from base units to unit
	read      func(r *report.Record) (v float64, missing string)
	counter   func(r *report.Record) (impossible string) // of a counter: why its change cannot be true
}

// Get reads the figure. Where a record does not have it, or it cannot be true, missing says why.
func (f Figure) Get(r *report.Record) (v float64, missing string) {
	if why := f.Impossible(r); why != "" {
		return 0, why
	}
	return f.read(r)
}

// New is a figure without a name.
func New(scale float64, read func(r *report.Record) (v float64, missing string)) Figure {
	return Figure{Scale: scale, read: read}
}

// All are the figures of a record that have a name of their own; counters are named by the device.
func All() []Figure {
	const ofLatency = "a latency test has p50, p99, ...; gobw measures bandwidth"
	ofBandwidth := func(name string, get func(*report.Record) (float64, string), aliases ...string) Figure {
		return Figure{
			Name: name, aliases: aliases, Dimension: Bandwidth, Direction: stats.HigherIsBetter, Unit: "Gb/s",
			Scale: 1e-9, read: func(r *report.Record) (float64, string) {
				if r.IsLatency() {
					return 0, ofLatency
				}
				return get(r)
			},
		}
	}
	// A rate of 0 is a figure only if the share that arrived was counted; else it is missing.
	counted := func(r *report.Record, v float64) (float64, string) {
		switch {
		case v != 0 || r.Delivered != nil:
			return v, ""
		case r.IsLatency():
			return 0, ofLatency
		}
		return 0, "nobody counted what arrived; try --verify=all or --imm"
	}
	out := []Figure{
		ofBandwidth("bw", func(r *report.Record) (float64, string) { return counted(r, r.Bandwidth.AverageBitsPerS) },
			"bandwidth"),
		ofBandwidth("peak", func(r *report.Record) (float64, string) {
			if r.Bandwidth.PeakBitsPerS > 0 {
				return r.Bandwidth.PeakBitsPerS, ""
			}
			return 0, "the peak was not measured (it is not with -N or -D)"
		}),
		{
			Name: "lowest", Dimension: Bandwidth, Direction: stats.HigherIsBetter, Unit: "Gb/s", Scale: 1e-9,
			read: lowestInterval,
		},
		{
			Name: "msgrate", aliases: []string{"rate"}, Dimension: Rate, Direction: stats.HigherIsBetter, Unit: "Mmsg/s",
			Scale: 1e-6, read: func(r *report.Record) (float64, string) {
				return counted(r, r.MessagesPerS) // of a test of calls, too: how many a second
			},
		},
	}
	for _, f := range report.LatencyFigures() {
		out = append(out, latency(f))
	}
	return append(out, []Figure{
		{
			Name: "delivered", Direction: stats.HigherIsBetter, Unit: "%", Scale: 100,
			read: func(r *report.Record) (float64, string) {
				if r.Delivered == nil {
					return 0, r.Transport + " delivers every message or fails; the share is counted for UC and UD"
				}
				return *r.Delivered, ""
			},
		},
		{Name: "messages", Scale: 1, read: func(r *report.Record) (float64, string) { return float64(r.Messages), "" }},
		{Name: "samples", Scale: 1, read: func(r *report.Record) (float64, string) {
			if r.Latency == nil {
				return 0, noSamples
			}
			return float64(r.Latency.Samples), ""
		}},
		{
			Name: "seconds", Dimension: Time, Unit: "s", Scale: 1,
			read: func(r *report.Record) (float64, string) { return r.Seconds, "" },
		},
		{
			Name: "size", Dimension: Size, Unit: "B", Scale: 1.0 / 8,
			read: func(r *report.Record) (float64, string) { return 8 * float64(r.SizeBytes), "" },
		},
		{Name: "ratio", Scale: 1, read: func(r *report.Record) (float64, string) {
			return r.Ratio, cmp.Or(noted(r),
				plain.When(r.Ratio == 0, "only 'gobw noncontig' has it, with a list and a packing strategy"))
		}},
		{Name: "crossover", Dimension: Size, Unit: "B", Scale: 1.0 / 8, read: func(r *report.Record) (float64, string) {
			return 8 * r.Crossover,
				plain.When(r.Crossover == 0, "there is no block size from which lists are faster than packing")
		}},
		{Name: "qps", Scale: 1, read: func(r *report.Record) (float64, string) { return float64(r.QPs), "" }},
		{Name: "cpu", Direction: stats.LowerIsBetter, Unit: "%", Scale: 100, read: func(r *report.Record) (float64, string) {
			if r.Strategy != "" {
				return 0, "a grid has CPU time, not CPU use: see CPU ns/KiB in 'gobw report'"
			}
			if r.CPU == nil || r.CPU.SystemUtilization == 0 {
				return 0, "CPU use was not measured (--cpu-time)"
			}
			return r.CPU.SystemUtilization, ""
		}},
	}...)
}

const noSamples = "the test took no time samples (raise -n or -D)"

// latency is a figure of the time samples.
func latency(f report.LatencyFigure) Figure {
	return Figure{
		Name: f.Name, aliases: f.Aliases, Dimension: Time, Direction: stats.LowerIsBetter, Unit: "us", Scale: 1e6,
		read: func(r *report.Record) (float64, string) {
			if r.Latency == nil || r.Latency.Samples == 0 {
				return 0, noSamples
			}
			if ns, has := f.Ns(r.Latency); has {
				return ns / 1e9, ""
			}
			if p, _ := f.Percentile(); !f.Supported(r.Latency.Samples) {
				return 0, fmt.Sprintf("%d samples, %.0f needed (raise -n or -D)", r.Latency.Samples, 10/(1-p))
			}
			return 0, "the record holds no " + f.Name
		},
	}
}

// Of is the figure of a name that is known to be one.
func Of(name string) Figure {
	f, known := Named(name)
	if !known {
		panic("no figure " + name)
	}
	return f
}

// lowestInterval is the lowest rate of a time series, its first and last interval left out, which are partial.
func lowestInterval(r *report.Record) (float64, string) {
	s := r.Rates()
	if s == nil || len(s.Bytes) < 3 {
		return 0, "the test kept no time series, or was too short for one"
	}
	return 8 * slices.Min(s.Bytes[1:len(s.Bytes)-1]) / s.IntervalS, ""
}

// Named finds a figure; a word that is none may be a counter.
func Named(name string) (Figure, bool) {
	for _, f := range All() {
		if f.Name == name || slices.Contains(f.aliases, name) {
			return f, true
		}
	}
	return Figure{}, false
}

// Words are all words that name a figure.
func Words() []string {
	var out []string
	for _, f := range All() {
		out = append(append(out, f.Name), f.aliases...)
	}
	return append(out, CounterNames()...)
}

// InUnit writes a value of the figure for people, with the unit that fits it.
func (f Figure) InUnit(v float64) string {
	if units := map[Dimension][]plain.Unit{
		Bandwidth: plain.BitsPerS, Time: plain.Seconds, Rate: plain.MessagesPerS,
	}[f.Dimension]; units != nil {
		return plain.WithUnit(v, units)
	}
	s := plain.Number(v * f.Scale)
	if f.Scale == 1 && v == float64(int64(v)) {
		s = strconv.FormatInt(int64(v), 10)
	}
	if f.Unit == "" {
		return s
	}
	return s + " " + f.Unit
}

// WorstOf tells whether the worst run counts, not the median: of counters and shares.
func (f Figure) WorstOf() bool {
	return f.Dimension == Plain && f.Direction != stats.Neither && f.Name != "cpu"
}

// Over is the figure over the runs of a row: the median, and for counters and shares the worst. Each run must have it:
// those without it may be the slow ones.
func (f Figure) Over(r Row) (float64, error) {
	for _, rec := range r.Runs {
		if why := f.Impossible(rec); why != "" {
			return 0, &MissingError{f.Name, why, true}
		}
	}
	vs, missing := r.Values(f), "it was not measured"
	for _, rec := range r.Runs {
		if _, why := f.Get(rec); why != "" {
			missing = plain.When(len(vs) > 0, "%d of %d runs do not have it: ", len(r.Runs)-len(vs), len(r.Runs)) + why
			break
		}
	}
	if len(vs) < max(len(r.Runs), 1) {
		return 0, &MissingError{f.Name, missing, false}
	}
	return f.OverRuns(vs), nil
}

// OverRuns is one value for those of several runs: the median, and for counters and shares the worst.
func (f Figure) OverRuns(values []float64) float64 {
	switch {
	case f.WorstOf() && f.Direction == stats.HigherIsBetter:
		return slices.Min(values)
	case f.WorstOf():
		return slices.Max(values)
	}
	return stats.Median(values)
}

// MissingError is a figure that a record does not have, or that cannot be true.
type MissingError struct {
	Figure, Reason string
	Impossible     bool
}

func (e *MissingError) Error() string {
	if e.Impossible {
		return fmt.Sprintf("%s cannot be true: %s", e.Figure, e.Reason)
	}
	return fmt.Sprintf("no %s here: %s", e.Figure, e.Reason)
}

package sample

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/stats"
)

// Latency is the figures of plain samples in nanoseconds, all exact.
func Latency(ns []float64) report.Latency { return report.NewLatency(samples(ns)) }

// samples are plain samples in nanoseconds.
func samples(ns []float64) report.Samples {
	s := report.Samples{N: uint64(len(ns)), Scale: 1e-3}
	for _, v := range ns {
		s.Raw = append(s.Raw, int64(math.Round(v*1000)))
	}
	s.Min, s.Max, s.Shift = slices.Min(s.Raw), slices.Max(s.Raw), s.Raw[0]
	for _, v := range s.Raw {
		s.Sum += float64(v)
		s.SumSq += float64(v-s.Shift) * float64(v-s.Shift)
	}
	return s
}

// Document is a document as a run makes it, the same on every call: bandwidth and latency over sizes, with
// histograms, series, warnings and text that every format must escape.
func Document() *report.Document {
	rng := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	env := report.Environment{
		Host: "alpha", OS: "Linux 6.1.0", Arch: "amd64", CPU: "AMD EPYC <test> & co", CPUs: 2, NUMANodes: 1, PinnedCPU: 1,
		GoVersion: "go1.26", Version: "v0.1.0", Device: "roce0", Provider: "roce", Software: true, Port: 1,
		LinkLayer: "Ethernet", MTU: 4096, GIDIndex: 1, GID: "::ffff:127.0.0.1", GIDType: "RoCE v2", TicksPerNs: 2.45, ClockCostNs: 9.5,
		GOMAXPROCS: 4,
	}
	server := env
	server.Host = "beta"
	d := &report.Document{
		Schema: report.SchemaVersion, Tool: "gobw", Version: "v0.1.0", Command: []string{"gobw", "write", "--loopback", "-a"},
		Started: start, Finished: start.Add(12 * time.Second), Complete: true, Label: "software device, not a NIC",
		Client: env, Server: &server,
		Warnings: []string{"the governor is powersave | 50_% slower"},
	}
	for _, size := range []uint64{2, 64, 1024, 8192, 65536, 1 << 20} {
		bits := 40e9 / (1 + 9000/float64(size)) * (1 + 0.01*rng.NormFloat64())
		r := report.Record{
			Plan:       report.Plan{Operation: "write", Kind: "bandwidth", Transport: "RC", Direction: "out", SizeBytes: size, QPs: 1, TxDepth: 128, CQMod: 100, PostList: 1, MTU: 4096},
			Run:        1,
			Iterations: 5000, Messages: 5000, Bytes: 5000 * size,
			Seconds: 5000 * float64(size) * 8 / bits, Bandwidth: report.Bandwidth{AverageBitsPerS: bits, PeakBitsPerS: bits * 1.1}, MessagesPerS: bits / 8 / float64(size),
		}
		if size <= 64 {
			r.Warnings = []string{fmt.Sprintf("too short: measured for %.3g ms", r.Seconds*1e3)}
		}
		if size == 65536 {
			r.Series = &report.Series{IntervalS: 0.1}
			for i := range 60 {
				v := bits / 8 * 0.1 * (1 + 0.03*rng.NormFloat64())
				if i == 30 || i == 31 {
					v *= 0.4
				}
				r.Series.Bytes = append(r.Series.Bytes, v)
				r.Series.Messages = append(r.Series.Messages, v/65536)
			}
			r.CPU = &report.CPU{PostNsPerMessage: 850, PollNsPerMessage: 120}
			r.Counters = map[string]int64{"retransmits": 0, "out_of_sequence": 3}
		}
		d.Records = append(d.Records, r)
	}
	for _, size := range []uint64{2, 64, 1024, 8192} {
		ns := make([]float64, 20000)
		for i := range ns {
			ns[i] = 5200 + float64(size)/3 + 400*math.Exp(rng.NormFloat64())
			if rng.Float64() < 0.002 {
				ns[i] += 30000 * rng.Float64()
			}
		}
		l := Latency(ns)
		h, err := report.NewHistogram(samples(ns))
		if err != nil {
			panic(err)
		}
		d.Records = append(d.Records, report.Record{
			Plan: report.Plan{Operation: "send", Kind: "latency", Transport: "RC", Direction: "both", SizeBytes: size, QPs: 1, TxDepth: 1, CQMod: 1, PostList: 1, MTU: 4096, RoundTripHalf: true},
			Run:  1, Iterations: 20000, Messages: 20000, Bytes: 20000 * size, Seconds: 0.22,
			MessagesPerS: 90909, Latency: &l, Histogram: h,
		})
	}
	d.Checks = []report.Check{
		{Expression: "bw >= 10 Gb/s", Point: "write bandwidth RC 65536 B", Actual: "35.2 Gb/s", Verdict: stats.Verdict{Word: stats.Pass}},
		{Expression: "p99 <= 3us", Point: "send latency RC 2 B", Actual: "7.1 us", Verdict: stats.Failure("", "", "2.4 times what is allowed")},
	}
	return d
}

// Repeated has six runs of one point, for medians and intervals; factor scales its rate.
func Repeated(factor float64) *report.Document {
	d := Document()
	base := d.Records[4]
	base.Series, base.Counters, base.CPU = nil, nil, nil
	d.Records, d.Checks, d.Warnings = nil, nil, nil
	share := 0.997
	for run := 1; run <= 6; run++ {
		for _, transport := range []string{"RC", "UD"} {
			r := base
			r.Run, r.Transport = run, transport
			if transport == "UD" {
				r.SizeBytes, r.Delivered, r.Operation = 4096, &share, "send"
			}
			r.Bandwidth.AverageBitsPerS *= factor * (1 + 0.01*float64(run*5%7))
			r.Bandwidth.PeakBitsPerS *= factor * 1.01
			d.Records = append(d.Records, r)
		}
	}
	return d
}

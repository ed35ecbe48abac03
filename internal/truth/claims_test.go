//go:build linux && cgo

package truth_test

import (
	"math"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/figure"
	"github.com/gobw/gobw/report/stats"
)

// claims are the rows of the table. What they plant is chosen so that the answer follows by hand: a device of 1000 ns a
// request makes a million messages a second.
func claims() []claim {
	messages := named("messages")
	// of a record: by how much its rates differ from counts and seconds
	contradicts := first(func(r *report.Record) float64 {
		return max(math.Abs(8*float64(r.Bytes)/r.Seconds/r.Bandwidth.AverageBitsPerS-1),
			math.Abs(float64(r.Messages)/r.Seconds/r.MessagesPerS-1))
	})
	out := slicesOf(
		countClaims(),
		[]claim{
			{
				what: "rates are counts over seconds", run: "gobw write -s 512 -n 20000", told: contradicts, low: 0, high: 1,
				truth: 1e-9, sample: true,
			},
			{
				what: "the same in both directions", run: "gobw write -s 512 -n 3000 -q 4 -b", told: contradicts, low: 0, high: 1,
				truth: 1e-9, sample: true,
			},
			{
				what: "seconds of 100,000 requests of 2 us", planted: "REQUEST_NS=2000", run: "gobw write -s 64 -n 100000",
				told: named("seconds"), truth: 0.2, low: 0.999, high: 1.02,
			},
			{
				what: "message rate at 1 us a request", planted: "REQUEST_NS=1000", run: "gobw write -s 64 -n 200000",
				told: named("msgrate"), truth: 1, low: 0.97, high: 1.001,
			},
			{
				what: "bandwidth at 0.1 ns a byte", planted: "BYTE_NS=0.1 MOVE=0", run: "gobw write -s 64K -D 500ms",
				told: named("bw"), truth: 80, low: 0.97, high: 1.001,
			},
			{
				what: "time of -D 300ms", planted: "REQUEST_NS=1000", run: "gobw write -s 64 -D 300ms", told: named("seconds"),
				truth: 0.3, low: 0.999, high: 1.01,
			},
			{
				what: "peak over the rate, steady", planted: "REQUEST_NS=1000", run: "gobw write -s 64 -n 200000",
				told: func(r *result) float64 {
					return named("peak")(r) / named("bw")(r)
				}, truth: 1, low: 1, high: 1.05,
			},
			{
				what: "median of a READ, 10 us away", planted: away, run: "golat read -s 64 -n 20000", told: named("p50"),
				truth: 10, low: 1, high: 1.05,
			},
			{
				what: "the same with --cpu-time", planted: away, run: "golat read -s 64 -n 20000 --cpu-time", told: named("p50"),
				truth: 10, low: 1, high: 1.05,
			},
			{
				what: "p90 of 60 % 2 us, 35 % 5 us, 4.5 % 20 us, rest 100 us", planted: mixed, run: "golat read -s 64 -n 20000",
				told: named("p90"), truth: 5, low: 1, high: 1.05,
			},
			{
				what: "p99 of the same", planted: mixed, run: "golat read -s 64 -n 20000", told: named("p99"), truth: 20, low: 1,
				high: 1.05,
			},
			{
				what: "p99.9 of the same", planted: mixed, run: "golat read -s 64 -n 20000", told: named("p99.9"), truth: 100,
				low: 1, high: 1.1,
			},
			{
				what: "mean of the same", planted: mixed, run: "golat read -s 64 -n 20000", told: named("mean"),
				truth: 0.6*2 + 0.35*5 + 0.045*20 + 0.005*100, low: 0.97, high: 1.1,
			},
			{
				what: "WRITE latency is one way: 10 us", planted: away, run: "golat write -s 64 -n 20000", told: named("p50"),
				truth: 10, low: 1, high: 1.1,
			},
			{
				what: "SEND latency is one way: 10 us", planted: away, run: "golat send -s 64 -n 20000", told: named("p50"),
				truth: 10, low: 1, high: 1.1,
			},
			{
				what: "WRITE latency with --gap 100us", planted: away, run: "golat write -s 64 -n 900 --gap 100us",
				told: named("p50"), truth: 10, low: 1, high: 1.2,
			},
			{
				what: "ib_read_lat: t_typical", planted: away, run: "ib_read_lat -s 64 -n 20000 -F",
				told: number(`\n\s*64\s+\d+\s+[\d.]+\s+[\d.]+`), truth: 10, low: 1, high: 1.05,
			},
			{
				what: "the saved histogram's p99 over the told one", planted: mixed, run: "golat read -s 64 -n 20000",
				told: histogram, truth: 1, low: 0.998, high: 1.002,
			},
			{
				what: "series: its sum over the bytes", planted: "REQUEST_NS=1000", run: "gobw write -s 512 -D 300ms",
				told: seriesSum, truth: 1,
			},
			{
				what: "series in both directions: its sum over the bytes", planted: "REQUEST_NS=1000",
				run: "gobw write -s 512 -D 300ms -b", told: seriesSum, truth: 1, low: 0.99, high: 1.01,
			},
			{
				what: "lowest interval over the rate, both directions, steady: median of 5 runs", planted: "REQUEST_NS=2000",
				run: "gobw write -s 512 -D 100ms --runs 5 -b", told: lowest, truth: 1, low: 0.9, high: 1.01,
			},
			{
				what: "--rate 1G of 512 B", planted: "REQUEST_NS=10", run: "gobw write -s 512 -D 500ms --rate 1G",
				told: named("bw"), truth: 1, low: 0.98, high: 1.01,
			},
			{
				what: "--rate 20G of 64 KiB", planted: "REQUEST_NS=10 MOVE=0", run: "gobw write -s 64K -D 500ms --rate 20G",
				told: named("bw"), truth: 20, low: 0.98, high: 1.01,
			},
			{
				what: "--rate 1G in both directions", planted: "REQUEST_NS=10", run: "gobw write -s 512 -D 200ms --rate 1G -b",
				told: named("bw"), truth: 2, low: 0.98, high: 1.01,
			},
			{
				what: "--rate 1G over 4 queue pairs", planted: "REQUEST_NS=10", run: "gobw write -s 512 -D 200ms --rate 1G -q 4",
				told: named("bw"), truth: 1, low: 0.98, high: 1.01,
			},
			{
				what: "--rate 1G of two sizes in lists of 16", planted: "REQUEST_NS=10",
				run: "gobw write --mix 64,4K -l 16 -D 200ms --rate 1G", told: named("bw"), truth: 1, low: 0.98, high: 1.01,
			},
			{
				what: "CPU time of a post: 500 ns planted", planted: "POST_NS=500 REQUEST_NS=2000",
				run: "gobw write -s 64 -n 50000 -Q 1 -t 1 --cpu-time", told: first(func(r *report.Record) float64 {
					return r.CPU.PostNsPerMessage
				}), truth: 500, low: 1, high: 1.3,
			},
			{
				what: "--rate 20G where the CPU stands still for 50 ms", planted: "REQUEST_NS=10 MOVE=0 HALT_MS=50 HALT_AT=5000",
				run: "gobw write -s 64K -D 500ms --rate 20G --warmup 0", told: named("bw"), truth: 20, low: 0.98, high: 1.01,
				sample: true,
			},
		},
		peakClaims(),
		gridClaims(),
		verdictClaims(),
		[]claim{
			{
				what: "warm-up of a device at its speed after 50 ms", planted: "REQUEST_NS=1000 DRIFT_MS=50 DRIFT_X=3",
				run: "gobw write -s 64 -n 200000", told: named("msgrate"), truth: 1, low: 0.95, high: 1.001,
			},
			{
				what: "after 200 ms", planted: "REQUEST_NS=1000 DRIFT_MS=200 DRIFT_X=3", run: "gobw write -s 64 -n 200000",
				told: named("msgrate"), truth: 1, low: 0.95, high: 1.001,
			},
			{
				what: "after 500 ms", planted: "REQUEST_NS=1000 DRIFT_MS=500 DRIFT_X=3", run: "gobw write -s 64 -n 200000",
				told: named("msgrate"), truth: 1, low: 0.95, high: 1.001,
			},
			{
				what: "after 1 s", planted: "REQUEST_NS=1000 DRIFT_MS=1000 DRIFT_X=3", run: "gobw write -s 64 -n 200000",
				told: named("msgrate"), truth: 1, low: 0.95, high: 1.001,
			},
			{
				what: "after 2 s", planted: "REQUEST_NS=1000 DRIFT_MS=2000 DRIFT_X=3", run: "gobw write -s 64 -n 200000",
				told: named("msgrate"), truth: 1, low: 0.95, high: 1.001,
			},
			{
				what: "a rate that rises by 46 % in the run has a note", planted: "REQUEST_NS=1000 DRIFT_MS=1000 DRIFT_X=3",
				run: "gobw write -s 64 -n 200000 --warmup 0", told: says("the rate rose by"), truth: 1,
			},
			{
				what: "a steady rate has none", planted: "REQUEST_NS=1000", run: "gobw write -s 64 -n 200000",
				told: says("the rate rose by"), truth: 0,
			},
			{
				what: "UD: delivered of 20 % loss", run: "gobw send -c UD -s 512 -n 20000 -d roce0 --emulate loss=20%",
				told: named("delivered"), truth: 80, low: 0.98, high: 1.02,
			},
			{
				what: "UD: messages are those delivered, both directions",
				run:  "gobw send -c UD -s 512 -n 20000 -b -d roce0 --emulate loss=20%", told: messages, truth: 32000, low: 0.98,
				high: 1.02,
			},
			{
				what: "UD: rates are counts over seconds, both directions",
				run:  "gobw send -c UD -s 512 -n 20000 -b -d roce0 --emulate loss=20%", told: contradicts, truth: 1e-9,
				low: 0, high: 1,
			},
			{
				what: "a wrong byte in message 15,320 of 20,000", planted: "CORRUPT=15321",
				run: "gobw write -s 64 -n 20000 --warmup 0 --verify=all", exit: 5, told: number("queue pair 0, message"),
				truth: 15320, sample: true,
			},
			{
				what: "a wrong byte in the first WRITE is exit code 5", planted: "CORRUPT=1",
				run: "gobw write -s 64 -n 2000 --warmup 0 --verify", exit: 5, told: code, truth: 5, sample: true,
			},
			{
				what: "a wrong byte in the first SEND is exit code 5", planted: "CORRUPT=1",
				run: "gobw send -s 64 -n 2000 --warmup 0 --verify", exit: 5, told: code, truth: 5,
			},
			{
				what: "a failed request is exit code 6", planted: "FAIL=776", run: "gobw write -s 64 -n 2000", exit: 6,
				told: code, truth: 6,
			},
			{
				what: "a lost completion is exit code 6", planted: "LOSE=776", run: "gobw write -s 64 -n 2000 -Q 1", exit: 6,
				told: code, truth: 6,
			},
			{
				what: "a lost completion in a grid is exit code 6", planted: "LOSE=1500 REQUEST_NS=300 MOVE=0",
				run: "gobw noncontig --blocks 1K -s 16K --runs 2 -D 5ms --verify none --only gather-write", exit: 6,
				told: code, truth: 6, sample: true,
			},
			{
				what: "a counter of 16 bits that wraps", planted: wraps, run: "gobw write -s 64 -n 5000 --warmup 0",
				told: first(func(r *report.Record) float64 {
					return float64(r.Counters["port_xmit_discards"])
				}), truth: 10, sample: true,
			},
			{
				what: "a counter of 32 bits that wraps", planted: wraps, run: "gobw write -s 64 -n 5000 --warmup 0",
				told: first(func(r *report.Record) float64 {
					return float64(r.Counters["out_of_sequence"])
				}), truth: 11,
			},
			{
				what: "--expect 'discards <= 0' at +10 is exit code 1", planted: wraps,
				run: "gobw write -s 64 -n 5000 --warmup 0 --expect discards<=0", exit: 1, told: code, truth: 1, sample: true,
			},
			{
				what:    "the same of a counter that was reset: cannot tell",
				planted: "COUNTERS=counters/port_xmit_discards:3000:2 COUNTED=1000",
				run:     "gobw write -s 64 -n 5000 --warmup 0 --expect discards<=0", exit: 7, told: code, truth: 7,
			},
			{
				what: "an expectation that is missed is exit code 1", planted: "REQUEST_NS=1000",
				run: "gobw write -s 64 -n 20000 --expect bw>=1Gb/s", exit: 1, told: code, truth: 1,
			},
			{
				what:    "search dips: sizes 3000 to 3100 take 3 us more; first slow size",
				planted: "MOVE=0 REQUEST_NS=1000 SLOW=3000-3100:3000", run: dips, told: number("sizes"), truth: 3000,
			},
			{
				what: "the same: last slow size", planted: "MOVE=0 REQUEST_NS=1000 SLOW=3000-3100:3000", run: dips,
				told: number(`sizes \d+ to`), truth: 3100,
			},
			{
				what: "sizes 6000 to 7000 take 1.5 us more: last slow size", planted: "MOVE=0 REQUEST_NS=1000 SLOW=6000-7000:1500",
				run: dips, told: number(`sizes \d+ to`), truth: 7000,
			},
		},
	)
	return out
}

const (
	away  = "LATENCY_NS=10000"
	mixed = "LATENCY_NS=2000@0.6,5000@0.35,20000@0.045,100000@0.005"
	wraps = "COUNTERS=counters/port_xmit_discards:65530:4,hw_counters/out_of_sequence:4294967290:5 COUNTED=1000"
	dips  = "gobw search dips write~--loopback~-d~fake0 -s 1K:8K"
)

func slicesOf(groups ...[]claim) (out []claim) {
	for _, g := range groups {
		out = append(out, g...)
	}
	return out
}

// countClaims hold the messages of every operation against the command line, with
// numbers that do not divide each other.
func countClaims() (out []claim) {
	for _, row := range []struct {
		run   string
		truth float64
	}{
		{"gobw write -s 64 -n 1000", 1000},
		{"gobw write -s 64 -n 999 -q 4 -Q 7 -l 3", 999 * 4}, // neither divides the other
		{"gobw write -s 64 -n 1003 -b", 2006},
		{"gobw read -s 64 -n 1001 -q 3", 3003},
		{"gobw read -s 64 -n 1001 -b", 2002},
		{"gobw send -s 64 -n 1001 -Q 7", 1001},
		{"gobw send -c UC -s 64 -n 1001", 1001},
		{"gobw send -c UD -s 64 -n 1001 -q 2", 2002},
		{"gobw send -s 64 -n 1001 -b -q 2", 4004},
		{"gobw atomic -n 1001 -q 2", 2002},
		{"gobw flush -s 64 -n 500", 500},
		{"gobw write -n 1001 --mix 64,4K", 1001},
		{"golat read -s 64 -n 1001", 1001},
		{"golat send -s 64 -n 1001", 1001},
	} {
		out = append(out, claim{
			what: "messages of " + row.run[5:], run: row.run, told: named("messages"), truth: row.truth,
			sample: row.run == "gobw write -s 64 -n 1003 -b",
		})
	}
	return out
}

// Of a grid: 300 ns a request, 30 an entry, 0.01 a byte, and lists of 16 entries. A message of 64 KiB is one request of
// 985.36 ns where it is contiguous; with blocks of 4 KiB one list of 16 entries.
const (
	gridPlanted = "REQUEST_NS=300 ENTRY_NS=30 BYTE_NS=0.01 MOVE=0"
	gridRun     = "gobw noncontig --blocks 1K:8K -s 64K --runs 12 -D 5ms --verify none --only gather-write,pack,contiguous"
	messageBits = 64 * 1024 * 8
	messageNs   = 64 * 1024 * 0.01
)

func gridClaims() []claim {
	at := func(strategy string, block int64) func(r *result) float64 {
		return func(r *result) float64 {
			for _, c := range r.Noncontig.Cells {
				if f := c.Find(strategy); f != nil && c.BlockBytes == block {
					return f.Goodput.Median / 1e9
				}
			}
			return math.NaN()
		}
	}
	gather := func(block float64) float64 { // Gb/s
		entries := 65536 / block
		return messageBits / (300*math.Ceil(entries/16) + 30*entries + messageNs)
	}
	const list = "gobw noncontig --preset iov-256 --threshold=false -t 4 --runs 12 -D 5ms --verify none"
	const listBits, listNs = 8 * 256 * 1024, 0.01 * 256 * 1024
	return []claim{
		{
			what: "list: contiguous", planted: gridPlanted, run: list,
			told: at("contiguous", 1024), truth: listBits / (300 + 30 + listNs), low: 0.95, high: 1.01,
		},
		{
			what: "list: lists of 256 pieces of 1 KiB", planted: gridPlanted, run: list,
			told: at("lists", 1024), truth: listBits / (300*16 + 30*256 + listNs), low: 0.95, high: 1.01,
		},
		{
			what: "list: multi-wr", planted: gridPlanted, run: list,
			told: at("multi-wr", 1024), truth: listBits / (300*256 + 30*256 + listNs), low: 0.95, high: 1.01,
		},
		{
			what: "grid: contiguous", planted: gridPlanted, run: gridRun, told: at("contiguous", 4096),
			truth: messageBits / (300 + 30 + messageNs), low: 0.95, high: 1.01,
		},
		{
			what: "grid: gather-write, blocks of 8 KiB", planted: gridPlanted, run: gridRun, told: at("gather-write", 8192),
			truth: gather(8192), low: 0.95, high: 1.01,
		},
		{
			what: "grid: gather-write, blocks of 4 KiB", planted: gridPlanted, run: gridRun, told: at("gather-write", 4096),
			truth: gather(4096), low: 0.95, high: 1.01,
		},
		{
			what: "grid: gather-write, blocks of 1 KiB", planted: gridPlanted, run: gridRun, told: at("gather-write", 1024),
			truth: gather(1024), low: 0.95, high: 1.01,
		},
		{what: "grid: cells that cannot be", planted: gridPlanted, run: gridRun, told: func(r *result) (n float64) {
			for _, c := range r.Noncontig.Cells {
				if c.Impossible != "" {
					n++
				}
			}
			return n
		}, truth: 0},
	}
}

// seriesSum is the bytes of the series over those of the record.
var seriesSum = first(func(r *report.Record) (share float64) {
	if r.Series == nil {
		return math.NaN()
	}
	for _, v := range r.Series.Bytes {
		share += v / float64(r.Bytes)
	}
	return math.Round(share*1e9) / 1e9
})

// lowest is the lowest interval over the rate, the median of all runs: the kernel may pause a thread that runs ahead of
// all others for 50 ms of each second, and the lowest interval is where it did.
func lowest(r *result) float64 {
	var shares []float64
	for i := range r.Records {
		rec := &r.Records[i]
		v, missing := figure.Of("lowest").Get(rec)
		if missing != "" {
			return math.NaN()
		}
		shares = append(shares, v/rec.Bandwidth.AverageBitsPerS)
	}
	return stats.Summarize(shares, stats.DefaultConfidence).Median
}

// histogram is the p99 of the saved histogram over the one that is told.
func histogram(r *result) float64 {
	return first(func(rec *report.Record) float64 {
		d, err := report.Decode(rec.Histogram)
		if err != nil {
			return math.NaN()
		}
		return d.QuantileNs(0.99) / *rec.Latency.P99Ns
	})(r)
}

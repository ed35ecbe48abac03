package report

import (
	"time"

	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/stats"
)

// Schemas of what is saved: a [Document], and a qualification, which holds documents.
const (
	SchemaVersion       = "gobw.result/1"
	QualificationSchema = "gobw.qualification/1"
)

// Document is one run of one command: what was asked, where it ran, what came out.
type Document struct {
	Schema   string    `json:"schema"`
	Tool     string    `json:"tool"` // "gobw", "golat"
	Version  string    `json:"version"`
	Command  []string  `json:"command"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Complete bool      `json:"complete"` // false: interrupted or failed; the records are what was measured before
	Failure  string    `json:"failure,omitempty"`
	// of the failure: "set-up failed", "peer lost", "data corrupt", "test failed", "stopped", "usage"
	Cause string `json:"cause,omitempty"`
	// what every rendering must say, e.g. "software device, not a NIC"
	Label       string          `json:"label,omitempty"`
	Client      Environment     `json:"client"`
	Server      *Environment    `json:"server,omitempty"`
	Records     []Record        `json:"records"`
	Noncontig   *noncontig.Grid `json:"noncontig,omitempty"`
	Fabric      *matrix.Matrix  `json:"fabric,omitempty"` // of a test of many hosts
	Program     *Program        `json:"program,omitempty"`
	Checks      []Check         `json:"checks,omitempty"` // expectations and their verdicts
	Warnings    []string        `json:"warnings,omitempty"`
	Description string          `json:"description,omitempty"`
}

// Program is how a program that a plan has started ended.
type Program struct {
	ExitCode int            `json:"exit_code"`        // as of a shell: 128 and a signal; 127, 126: it was not started
	Said     map[string]any `json:"said,omitempty"`   // the last line of its output that is a JSON object
	Output   string         `json:"output,omitempty"` // the last line that it wrote besides
	// what the software devices of both ends have sent
	SentBytes uint64 `json:"sent_bytes,omitempty"`

	NotStarted bool `json:"not_started,omitempty"` // there is no such program, or it is none; Output says why
}

// Nothing tells a test of which nothing arrived.
func (r *Record) Nothing() bool { return r.Delivered != nil && *r.Delivered == 0 }

// Environment is one end of a run.
type Environment struct {
	Host      string `json:"host" fact:"host,changed"`
	OS        string `json:"os" fact:"system,changed"` // "Linux 6.1.0"
	Arch      string `json:"arch" fact:"architecture,unlike"`
	CPU       string `json:"cpu" fact:"CPU,unlike"`
	CPUs      int    `json:"cpus" fact:"number of CPUs,unlike"`
	NUMANodes int    `json:"numa_nodes" fact:"NUMA nodes"`
	// CPUs that its control groups grant; 0: no limit
	CPUQuota float64 `json:"cpu_quota,omitempty" fact:"CPU quota,changed"`
	// limit of locked memory; -1: none; 0: unknown
	LockedBytes int64  `json:"locked_bytes,omitempty"`
	Governor    string `json:"governor,omitempty" fact:"governor,changed"`
	LLCBytes    int    `json:"llc_bytes,omitempty" fact:"last-level cache"`
	PinnedCPU   int    `json:"pinned_cpu" fact:"pinned CPU,changed" usual:"-1"` // -1: not pinned
	// of the measuring threads: "normal", "realtime"
	Priority     string  `json:"priority,omitempty" fact:"priority,changed" usual:"normal"`
	GoVersion    string  `json:"go_version" fact:"Go,changed"`
	Version      string  `json:"version" fact:"gobw,changed"`
	Device       string  `json:"device" fact:"device,unlike"`
	Provider     string  `json:"provider" fact:"provider,unlike"`
	Software     bool    `json:"software" fact:"software device"`
	Driver       string  `json:"driver,omitempty" fact:"driver,changed"`
	Firmware     string  `json:"firmware,omitempty" fact:"firmware,changed"`
	Port         int     `json:"port" fact:"port"`
	LinkLayer    string  `json:"link_layer" fact:"link layer,unlike"`
	LinkBitsPerS float64 `json:"link_bits_per_s" fact:"link rate,unlike"` // 0: no link rate (software device)
	LinkState    string  `json:"link_state,omitempty" fact:"link state"`
	MTU          int     `json:"mtu" fact:"path MTU"` // path MTU in force, bytes
	GIDIndex     int     `json:"gid_index" fact:"GID index"`
	GID          string  `json:"gid" fact:"GID"`
	GIDType      string  `json:"gid_type,omitempty" fact:"GID type"`
	// how send requests reach a device of libibverbs: "post_send", "wr"
	PostAPI      string  `json:"post_api,omitempty" fact:"posting interface"`
	PCILinkSpeed string  `json:"pci_link_speed,omitempty" fact:"PCIe speed"`
	PCILinkWidth int     `json:"pci_link_width,omitempty" fact:"PCIe width,unlike"`
	NUMANode     int     `json:"numa_node"`
	TicksPerNs   float64 `json:"ticks_per_ns" fact:"clock ticks a ns,anew"`
	ClockCostNs  float64 `json:"clock_cost_ns" fact:"cost of a stamp,anew"`
	// network that the software device emulates
	Fabric        string `json:"fabric,omitempty" fact:"emulated network,unlike"`
	GOMAXPROCS    int    `json:"gomaxprocs" fact:"GOMAXPROCS"`
	PreemptSignal bool   `json:"preempt_signals"` // Go's preemption signals could reach the measuring thread
	// each device, where the end ran several at once: what stands above is the first's
	Rails []Rail `json:"rails,omitempty"`
}

// Rail is one of several devices that an end ran at once.
type Rail struct {
	Device       string  `json:"device"`
	Firmware     string  `json:"firmware,omitempty"`
	Port         int     `json:"port"`
	LinkBitsPerS float64 `json:"link_bits_per_s"` // 0: no link rate (software device)
	MTU          int     `json:"mtu"`             // active, bytes
	GID          string  `json:"gid"`             // empty: LIDs
	NUMANode     int     `json:"numa_node"`
}

// Record is one measured point: one size, one direction, one repetition.
type Record struct {
	Plan `csv:""`

	Run          int  `json:"run"` // from 1
	DurationTest bool `json:"duration_test,omitempty"`

	Iterations   uint64    `json:"iterations"` // as perftest counts: messages, both directions apart
	Messages     uint64    `json:"messages"`
	Bytes        uint64    `json:"bytes"`
	Seconds      float64   `json:"seconds"`
	Bandwidth    Bandwidth `json:"bandwidth,omitzero" csv:""` // none where nobody counts what arrives
	MessagesPerS float64   `json:"messages_per_s,omitzero"`
	Latency      *Latency  `json:"latency,omitempty" csv:""` // latency tests: per step; bandwidth tests: completion time
	// Delivered is the share of messages sent that the receiver counted (UC, UD); nil where it is certain.
	Delivered *float64 `json:"delivered,omitempty"`

	Histogram *Histogram `json:"histogram,omitempty"`
	Series    *Series    `json:"series,omitempty"`
	CPU       *CPU       `json:"cpu,omitempty"`
	PeerCPU   *CPU       `json:"peer_cpu,omitempty"`
	// device counters, after minus before; below 0: nobody knows
	Counters     map[string]int64 `json:"counters,omitempty"`
	PeerCounters map[string]int64 `json:"peer_counters,omitempty"` // the other end's
	Clock        *Clock           `json:"clock,omitempty"`         // with Timestamps
	Local        *Bandwidth       `json:"local,omitempty"`         // -b: this end's share
	Remote       *Bandwidth       `json:"remote,omitempty"`
	PerThread    []Share          `json:"per_thread,omitempty"`      // of the end that sends, or with -b the client
	PeerThreads  []Share          `json:"peer_per_thread,omitempty"` // the other end's
	Warnings     []string         `json:"warnings,omitempty"`

	// Of a point of a grid, see [Document.Measured]: the device's own way over packing, and the block size
	// from which it is faster; 0: not known.
	Ratio     float64 `json:"-"`
	Crossover float64 `json:"-"`
}

// CounterFull is the change of a counter that is at its highest value and counts no more. Another negative change is
// that of a counter that was reset.
const CounterFull = -1

// Clock is a device's, in ticks a second: by the stamps of its completions a latency was timed.
type Clock struct {
	StatedHz float64 `json:"stated_hz"` // what the device says
	// against the host's clock, from the first sample's begin to the last one's end
	MeasuredHz  float64 `json:"measured_hz"`
	Uncertainty float64 `json:"uncertainty"` // of MeasuredHz, as a share of it
	// Hz is in force: what was measured, where that is uncertain by no more than a ten-thousandth, else what is stated.
	Hz float64 `json:"hz"`
}

// Share is what one of several threads or devices did, in its own time.
type Share struct {
	// where there are several: its name, with its address where that is not enough
	Device          string  `json:"device,omitempty"`
	CPU             int     `json:"cpu"` // -1: not pinned, or of several threads
	QPs             int     `json:"qps"`
	Messages        uint64  `json:"messages"`
	Bytes           uint64  `json:"bytes"`
	Seconds         float64 `json:"seconds"`
	AverageBitsPerS float64 `json:"average_bits_per_s"`
	MessagesPerS    float64 `json:"messages_per_s"`
}

// Bandwidth is in decimal bits per second; without a peak none was measured.
type Bandwidth struct {
	AverageBitsPerS float64 `json:"average_bits_per_s"`
	PeakBitsPerS    float64 `json:"peak_bits_per_s,omitzero"`
}

// Latency is in nanoseconds. A percentile is the smallest sample such that at least that share of all samples is not
// above it; it is nil where the count does not support it (fewer than 10/(1-p) samples). StdevNs divides by n.
type Latency struct {
	Samples uint64   `json:"samples"`
	MinNs   float64  `json:"min_ns" figure:"min"`
	P50Ns   float64  `json:"p50_ns" figure:"p50,median,typical"`
	P90Ns   *float64 `json:"p90_ns,omitempty" figure:"p90"`
	P99Ns   *float64 `json:"p99_ns,omitempty" figure:"p99"`
	P999Ns  *float64 `json:"p999_ns,omitempty" figure:"p99.9,p999"`
	P9999Ns *float64 `json:"p9999_ns,omitempty" figure:"p99.99,p9999"`
	MaxNs   float64  `json:"max_ns" figure:"max"`
	MeanNs  float64  `json:"mean_ns" figure:"mean"`
	StdevNs float64  `json:"stdev_ns" figure:"stdev"`
}

// Histogram is an HdrHistogram of picoseconds, V2-compressed and in base64 as the HdrHistogram libraries exchange it.
type Histogram struct {
	Unit    string `json:"unit"` // "ps"
	Encoded string `json:"encoded"`
}

// Series is bytes and messages completed per interval.
type Series struct {
	IntervalS float64   `json:"interval_s"`
	Bytes     []float64 `json:"bytes"`
	Messages  []float64 `json:"messages"`
}

// CPU is what one end's processor spent. The ticks come from the measuring loop; the process time from the kernel.
type CPU struct {
	PackNsPerMessage   float64 `json:"pack_ns_per_message,omitempty"`
	UnpackNsPerMessage float64 `json:"unpack_ns_per_message,omitempty"`
	PostNsPerMessage   float64 `json:"post_ns_per_message,omitempty"`
	PollNsPerMessage   float64 `json:"poll_ns_per_message,omitempty"` // polls that found something
	ProcessSeconds     float64 `json:"process_seconds,omitempty"`
	SystemUtilization  float64 `json:"system_utilization,omitempty"` // share of all CPUs, 0…1
}

// Check is an expectation and its verdict.
type Check struct {
	Expression string `json:"expression"`
	Point      string `json:"point"`
	Actual     string `json:"actual"`
	Limit      string `json:"limit,omitempty"` // of what the figure may be
	// Margin is by which share of the limit the figure is on its good side; negative where it was missed.
	Margin *float64 `json:"margin,omitempty"`
	stats.Verdict
}

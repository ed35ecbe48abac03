package fabric

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/report/plain"
)

// Format and Version identify the document.
const (
	Format  = "gobw-fabric"
	Version = 1
)

// Document is one run.
type Document struct {
	Format   string    `json:"format"`
	Version  int       `json:"version"`
	Program  string    `json:"program"`
	Command  string    `json:"command"`
	Began    time.Time `json:"began"`
	Seconds  float64   `json:"seconds"`
	Software bool      `json:"software,omitempty"` // the figures are of a software device, not of NICs
	Stopped  string    `json:"stopped,omitempty"`  // why the run ended before its end

	Test     Test       `json:"test"`
	Pattern  string     `json:"pattern"`
	Planned  int        `json:"planned_rounds"`
	Rounds   []Round    `json:"rounds"`
	Rails    []string   `json:"rails"`
	Leaves   []string   `json:"leaves,omitempty"`
	Hosts    []Host     `json:"hosts"` // by rank
	Cells    Cells      `json:"cells"`
	Classes  []Class    `json:"classes"`
	Findings []Finding  `json:"findings"`
	Judged   Judged     `json:"judged"`
	Incast   []Incast   `json:"incast,omitempty"`
	Scatter  []Quantile `json:"distribution"`
}

// Test is what ran between two hosts.
type Test struct {
	Operation string  `json:"operation"`
	Kind      string  `json:"kind"` // "bandwidth", "latency"
	Transport string  `json:"transport"`
	SizeBytes int     `json:"size_bytes"`
	QPs       int     `json:"qps"`
	Seconds   float64 `json:"seconds_per_round"`
	OneWay    bool    `json:"one_way,omitempty"`
}

func (t Test) String() string {
	s := fmt.Sprintf("%s of %s over %s, %d bytes, %s", t.Kind, t.Operation, t.Transport, t.SizeBytes, plain.Plural(t.QPs, "queue pair"))
	s += plain.When(t.OneWay, ", one way")
	return s
}

// Latency tells a test of which less is better.
func (t Test) Latency() bool { return t.Kind == "latency" }

// Round is what ran at one time.
type Round struct {
	Label  string `json:"label"`
	Flows  int    `json:"flows"`
	Failed int    `json:"failed,omitempty"`
	FanIn  int    `json:"fan_in,omitempty"`
	Retest bool   `json:"retest,omitempty"`
	Alone  bool   `json:"alone,omitempty"`
}

// Host is one rank.
type Host struct {
	Rank    int      `json:"rank"`
	Name    string   `json:"host"`
	Leaf    string   `json:"leaf,omitempty"`
	Address string   `json:"address,omitempty"`
	State   string   `json:"state"` // "took part", "absent", "unfit", "lost"
	Reason  string   `json:"reason,omitempty"`
	Remedy  string   `json:"remedy,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	CPUs    int      `json:"cpus,omitempty"`
	Devices []string `json:"devices,omitempty"`
}

// tookPart tells whether a host was measured to the end.
func (h Host) tookPart() bool { return h.State == "took part" }

// took counts those hosts.
func (d *Document) took() int {
	return len(slices.DeleteFunc(slices.Clone(d.Hosts), func(h Host) bool { return !h.tookPart() }))
}

// called is what a host is called where it has not said its name.
func (h Host) called() string { return cmp.Or(h.Name, fmt.Sprintf("rank %d", h.Rank)) }

// States of a cell.
const (
	Measured     = 0
	notConnected = 1
	wrongData    = 2
	void         = 3
)

// Cells are all flows of all rounds, one array per field. Hosts are ranks.
type Cells struct {
	From  []int     `json:"from"`
	To    []int     `json:"to"`
	Round []int     `json:"round"`
	Rail  []int     `json:"rail"`
	State []int     `json:"state"`
	Value []float64 `json:"value"` // bits/s, or the median latency in ns
	Share []float64 `json:"share"` // of what is expected of the cell's class; more is better
	Left  int       `json:"left_out,omitempty"`
}

// Len is their number.
func (c Cells) Len() int { return len(c.From) }

// Class is what cells must share to be compared, and what was learnt of them: what a later run is held to by --baseline.
type Class struct {
	Rail     int     `json:"rail"`
	Hops     string  `json:"hops"` // "same leaf", "between leaves"
	FanIn    int     `json:"fan_in,omitempty"`
	OneWay   bool    `json:"one_way,omitempty"`
	Expected float64 `json:"expected"` // bits/s, or the median latency in ns
	// Percentiles of a latency in ns: the 5th, 25th, 50th, 75th and 95th.
	Percentiles []float64 `json:"percentiles_ns,omitempty"`
	Hosts       []float64 `json:"host_shares,omitempty"` // median share of it that each host has, in order
}

// Finding is one verdict.
type Finding struct {
	Kind      string   `json:"kind"`
	Bad       bool     `json:"bad"`
	Subject   string   `json:"subject"` // "host", "sender", "receiver", "link", "trunk", "class" (all paths of one)
	Rail      int      `json:"rail"`
	From      string   `json:"from"` // host or leaf
	To        string   `json:"to,omitempty"`
	FromRank  int      `json:"from_rank"` // -1: a leaf
	ToRank    int      `json:"to_rank"`
	Leaves    string   `json:"leaves,omitempty"`
	Screened  float64  `json:"screened_share,omitempty"`
	Busy      Evidence `json:"busy"`
	Alone     Evidence `json:"alone"`
	Reason    string   `json:"reason,omitempty"`
	Reproduce string   `json:"reproduce,omitempty"`
}

// Evidence is the median share of some re-tests with its 95 % interval.
type Evidence struct {
	N     int     `json:"n"`
	Share float64 `json:"share,omitempty"`
	Low   float64 `json:"low,omitempty"`
	High  float64 `json:"high,omitempty"`
}

// ofHost tells a finding of one host from those of paths.
func (f Finding) ofHost() bool {
	return f.Subject != "link" && f.Subject != "trunk" && f.Subject != "class"
}

// where is the finding's subject in words.
func (f Finding) where() string {
	switch f.Subject {
	case "link", "trunk":
		return f.From + " -> " + f.To
	case "sender":
		return f.From + ", sending"
	case "receiver":
		return f.From + ", receiving"
	case "class":
		return "all paths, " + f.From
	}
	return f.From
}

// share is the worst share that was measured for it.
func (f Finding) share() float64 {
	if f.Busy.N > 0 {
		return f.Busy.Share
	}
	return f.Screened
}

// Judged says how far the verdict can be trusted.
type Judged struct {
	Sigma         float64 `json:"sigma"`                   // noise of one cell
	Slow          float64 `json:"slow"`                    // the drop that was looked for
	HostPower     float64 `json:"host_power"`              // the least drop of a host that is found with 95 %; 0: none is
	LinkPower     float64 `json:"link_power"`              // of a tested link
	Tested        int     `json:"tested_pairs"`            // ordered, on all rails
	Untimed       int     `json:"untimed_pairs,omitempty"` // of the tested, whose speed nobody judged: several senders met at a receiver
	Pairs         int     `json:"pairs"`                   // that there are
	Retests       int     `json:"retest_rounds"`
	Undecided     int     `json:"undecided"`                // subjects
	NotReproduced int     `json:"not_reproduced_links"`     // suspected from one cell alone, not listed
	Untried       int     `json:"untried_links"`            // suspected, beyond the most that are tried
	KnownGood     int     `json:"known_good_hosts"`         // that could serve as partners, on the rail with fewest
	Baseline      string  `json:"baseline,omitempty"`       // what the run was held to
	BaselinePower float64 `json:"baseline_power,omitempty"` // the least drop of all paths of a class against it that is found with 95 %; 0: none is
}

// Incast is what receivers got from so many senders.
type Incast struct {
	FanIn     int     `json:"fan_in"`
	Receivers int     `json:"receivers"`
	Receiver  float64 `json:"receiver_bits_per_s"` // median over receivers of the sum
	Least     float64 `json:"least_sender_bits_per_s"`
	Failed    int     `json:"failed,omitempty"`
}

// Quantile is the distribution of one class's cells.
type Quantile struct {
	Rail                    int    `json:"rail"`
	Hops                    string `json:"hops"`
	N                       int    `json:"n"`
	Min, P1, P50, P99, Most float64
}

// Verdict is the run's in one word.
type Verdict string

// Verdicts.
const (
	Pass         Verdict = "PASS"
	Fail         Verdict = "FAIL"
	Corrupt      Verdict = "WRONG DATA"
	CannotTell   Verdict = "CANNOT TELL"
	HostsMissing Verdict = "HOSTS MISSING"
)

// Verdict is the gravest of what was found. A run that cannot tell does not pass.
func (d *Document) Verdict() Verdict {
	bad, open := false, false
	for _, f := range d.Findings {
		if strings.HasPrefix(f.Kind, "wrong data") {
			return Corrupt
		}
		bad = bad || f.Bad
		open = open || f.Kind == "cannot tell"
	}
	switch {
	case bad:
		return Fail
	case slices.ContainsFunc(d.Hosts, func(h Host) bool { return !h.tookPart() }):
		return HostsMissing
	case open || d.Stopped != "" || d.Judged.HostPower == 0 || d.Cells.Len() == 0:
		return CannotTell
	}
	return Pass
}

// badHosts are the names of hosts to leave out: slow, unreachable, unfit or lost ones.
func (d *Document) badHosts() []string {
	var out []string
	add := func(name string) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, f := range d.Findings {
		if f.Bad && f.ofHost() {
			add(f.From)
		}
	}
	for _, h := range d.Hosts {
		again := slices.ContainsFunc(d.Hosts, func(o Host) bool { return o.tookPart() && o.Name == h.Name }) // a rank too many on a good host
		if !h.tookPart() && !again {
			add(h.Name)
		}
	}
	return out
}

// goodHosts are the rest.
func (d *Document) goodHosts() []string {
	bad := d.badHosts()
	var out []string
	for _, h := range d.Hosts {
		if h.tookPart() && !slices.Contains(bad, h.Name) {
			out = append(out, h.Name)
		}
	}
	return out
}

// Write writes the document as JSON.
func (d *Document) Write(w io.Writer) error {
	return json.NewEncoder(w).Encode(d)
}

const mostBytes = 1 << 30

// Read reads a document and checks that its parts fit each other.
func Read(r io.Reader) (*Document, error) {
	d := &Document{}
	if err := json.NewDecoder(io.LimitReader(r, mostBytes)).Decode(d); err != nil {
		return nil, fmt.Errorf("fabric document: %w", err)
	}
	if d.Format != Format {
		return nil, fmt.Errorf("fabric document: format %.40q, want %q", d.Format, Format)
	}
	if d.Version < 1 || d.Version > Version {
		return nil, fmt.Errorf("fabric document: version %d; this program reads 1 to %d", d.Version, Version)
	}
	return d, d.check()
}

func (d *Document) check() error {
	c := d.Cells
	n := c.Len()
	for _, length := range []int{len(c.To), len(c.Round), len(c.Rail), len(c.State), len(c.Value), len(c.Share)} {
		if length != n {
			return errors.New("fabric document: its cells' fields have different lengths")
		}
	}
	for i := range n {
		ok := c.From[i] >= 0 && c.From[i] < len(d.Hosts) && c.To[i] >= 0 && c.To[i] < len(d.Hosts) && c.From[i] != c.To[i] &&
			c.Round[i] >= 0 && c.Round[i] < len(d.Rounds) && c.Rail[i] >= 0 && c.Rail[i] < len(d.Rails) && c.State[i] >= Measured && c.State[i] <= void
		if !ok || math.IsNaN(c.Share[i]) || math.IsInf(c.Share[i], 0) || c.Value[i] < 0 {
			return fmt.Errorf("fabric document: cell %d points at what is not there", i)
		}
	}
	for i, h := range d.Hosts {
		if h.Rank != i {
			return fmt.Errorf("fabric document: host %d has rank %d", i, h.Rank)
		}
	}
	for _, f := range d.Findings {
		if f.Rail < 0 || f.Rail >= max(len(d.Rails), 1) {
			return fmt.Errorf("fabric document: a finding on rail %d of %d", f.Rail, len(d.Rails))
		}
	}
	return nil
}

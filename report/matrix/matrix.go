package matrix

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Matrix is what a test of many hosts adds to a document: its hosts, rounds and cells, and what follows from them.
type Matrix struct {
	Latency  bool     `json:"latency,omitempty"` // cells are latencies: less is better
	Pattern  string   `json:"pattern"`
	Planned  int      `json:"planned_rounds"`
	Rounds   []Round  `json:"rounds"`
	Launcher string   `json:"launcher,omitempty"` // what started the ranks: "Slurm step 7.0"; empty: a list of hosts
	Rails    []string `json:"rails"`              // devices; rail k of a host meets rail k of the others
	Leaves   []string `json:"leaves,omitempty"`   // leaf switches; none: all hosts share one
	// those that took part first, leaf by leaf: cells and findings name them by their place
	Hosts    []Host    `json:"hosts"`
	Cells    Cells     `json:"cells"`
	Findings []Finding `json:"findings"`
	Judged   Judged    `json:"judged"`
}

// Round is what ran at one time.
type Round struct {
	Label  string `json:"label"`
	FanIn  int    `json:"fan_in,omitempty"` // senders to one receiver, where that is the pattern's point
	Retest bool   `json:"retest,omitempty"`
	Alone  bool   `json:"alone,omitempty"` // a re-test in which only suspects and a few controls ran
}

// Causes for which a host, a link or a trunk fails.
const (
	Slow          stats.Cause = "slow"
	SlowUnderLoad stats.Cause = "slow-under-load"
	NotConnected  stats.Cause = "not-connected"
	WrongData     stats.Cause = "wrong-data"
	Absent        stats.Cause = "absent" // a host that never came
	Unfit         stats.Cause = "unfit"  // one that came and could not take part, or was refused
	Lost          stats.Cause = "lost"   // one that took part and went away
)

// OfTheDataPath are the causes that a host's own device, link or slot has: it is not fit for work.
func OfTheDataPath() []stats.Cause {
	return []stats.Cause{Slow, SlowUnderLoad, NotConnected, WrongData}
}

// Host is one rank. Its verdict is about taking part to the end; what is wrong with its speed is a finding.
type Host struct {
	Rank    int      `json:"rank"`
	Name    string   `json:"host"`
	Leaf    string   `json:"leaf,omitempty"`
	Address string   `json:"address,omitempty"`
	CPUs    int      `json:"cpus,omitempty"` // that its process may run on
	Devices []string `json:"devices,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	stats.Verdict
}

// Called is the host's name, or its rank where it has not said one.
func (h Host) Called() string { return cmp.Or(h.Name, fmt.Sprintf("rank %d", h.Rank)) }

// RunSees is the expectation of the run itself, and Run its point.
const (
	RunSees = "the run can detect a slow host"
	Run     = "run"
)

// State of a cell.
type State uint8

// States of a cell.
const (
	Measured  State = iota
	Missing         // both ends lived, and no connection came about or nothing moved
	Corrupted       // what arrived is not what was sent
	Void            // an end died: the cell says nothing of the other
)

// Cells are all flows of all rounds, one array per field.
type Cells struct {
	From  []int     `json:"from"` // place among the hosts
	To    []int     `json:"to"`
	Round []int     `json:"round"`
	Rail  []int     `json:"rail"`
	State []int     `json:"state"` // 0 measured, 1 missing, 2 corrupted, 3 void: an end died
	Value []float64 `json:"value"` // bits/s, or the median latency in ns
	Share []float64 `json:"share"` // of what is expected of the cell's class; more is better
	Left  int       `json:"left_out,omitempty"`
}

// Len is their number.
func (c *Cells) Len() int { return len(c.From) }

// Add appends a cell.
func (c *Cells) Add(from, to, round, rail int, state State, value, share float64) {
	c.From, c.To, c.Round, c.Rail = append(c.From, from), append(c.To, to), append(c.Round, round), append(c.Rail, rail)
	c.State, c.Value, c.Share = append(c.State, int(state)), append(c.Value, value), append(c.Share, share)
}

// Subject is what a finding is about.
type Subject string

// Subjects.
const (
	Sender   Subject = "sender"   // a host, as far as it sends
	Receiver Subject = "receiver" // a host, as far as it receives
	WholeOf  Subject = "host"     // both
	Link     Subject = "link"     // from a host to another
	Trunk    Subject = "trunk"    // from a leaf to another
)

const good = " is good"

// Good is the expectation of a subject, and [SubjectOf] the subject of such an expectation.
func (s Subject) Good() string { return "the " + string(s) + good }

// SubjectOf is what an expectation is about; none where a user has given it.
func SubjectOf(expectation string) Subject {
	subject, is := strings.CutSuffix(strings.TrimPrefix(expectation, "the "), good)
	return Subject(plain.When(is, "%s", subject))
}

// Finding is the verdict on a host's speed, a link or a trunk, with its evidence.
type Finding struct {
	Subject  Subject       `json:"subject"`
	Rail     int           `json:"rail"`
	From     int           `json:"from"`                     // place of a host; of a trunk's leaf, -1: all others
	To       int           `json:"to"`                       // as From; of a host the same
	Screened float64       `json:"screened_share,omitempty"` // median share in the scheduled rounds; 0: unknown
	Busy     stats.Summary `json:"busy"`                     // shares in re-tests beside other flows
	Alone    stats.Summary `json:"alone"`                    // shares in re-tests without them
	stats.Verdict
}

// OfHost tells a finding of one host from those of paths.
func (f Finding) OfHost() bool { return f.Subject != Link && f.Subject != Trunk }

// Share is the worst share that was measured for it.
func (f Finding) Share() float64 {
	if f.Busy.N > 0 {
		return f.Busy.Median
	}
	return f.Screened
}

// Judged says how far the findings can be trusted.
type Judged struct {
	Sigma     float64 `json:"sigma"`            // noise of one cell
	Slow      float64 `json:"slow"`             // the drop that was looked for
	HostPower float64 `json:"host_power"`       // the least drop of a host that is found with 95 %; 0: none is
	LinkPower float64 `json:"link_power"`       // of a tested link
	Settle    string  `json:"settle,omitempty"` // what lets the run find a host, where it finds none
	Tested    int     `json:"tested_pairs"`     // ordered, on all rails, with one sender to a receiver
	Pairs     int     `json:"pairs"`            // that there are
	Retests   int     `json:"retest_rounds"`
	Untried   int     `json:"untried_links"`    // suspected, beyond the most that are tried
	KnownGood int     `json:"known_good_hosts"` // that could serve as partners, on the rail with fewest
}

// Check tells whether the parts fit each other, as whoever reads them relies on.
func (m *Matrix) Check() error {
	c := &m.Cells
	n := c.Len()
	for _, length := range []int{len(c.To), len(c.Round), len(c.Rail), len(c.State), len(c.Value), len(c.Share)} {
		if length != n {
			return errors.New("matrix: its cells' fields have different lengths")
		}
	}
	within := func(i, n int) bool { return i >= 0 && i < n }
	for i := range n {
		ok := within(c.From[i], len(m.Hosts)) && within(c.To[i], len(m.Hosts)) && c.From[i] != c.To[i] &&
			within(c.Round[i], len(m.Rounds)) &&
			within(c.Rail[i], len(m.Rails)) && within(c.State[i], int(Void)+1)
		if !ok || math.IsNaN(c.Share[i]) || math.IsInf(c.Share[i], 0) || !(c.Value[i] >= 0) {
			return fmt.Errorf("matrix: cell %d points at what is not there", i)
		}
	}
	for i, f := range m.Findings {
		places := len(m.Hosts)
		least := 0
		if f.Subject == Trunk {
			places, least = len(m.Leaves), -1
		}
		if !within(f.Rail, len(m.Rails)) || f.From < least || f.From >= places || f.To < least || f.To >= places {
			return fmt.Errorf("matrix: finding %d points at what is not there", i)
		}
	}
	return nil
}

// Rail is the name of a rail.
func (m *Matrix) Rail(i int) string {
	return cmp.Or(m.Rails[i], fmt.Sprint(i))
}

// Where is the finding's subject in words.
func (m *Matrix) Where(f Finding) string {
	of := func(i int) string { return m.Hosts[i].Called() }
	if f.Subject == Trunk {
		of = func(i int) string { return append([]string{"all leaves"}, m.Leaves...)[i+1] }
	}
	switch f.Subject {
	case Trunk, Link:
		return of(f.From) + " -> " + of(f.To)
	case Sender:
		return of(f.From) + ", sending"
	case Receiver:
		return of(f.From) + ", receiving"
	case WholeOf:
	}
	return of(f.From)
}

// Path says how far two hosts are apart, as far as the leaves are known.
func (m *Matrix) Path(from, to int) string {
	switch {
	case len(m.Leaves) < 2:
		return "all paths"
	case m.Hosts[from].Leaf == m.Hosts[to].Leaf:
		return "same leaf"
	}
	return "between leaves"
}

// Scheduled tells whether a cell was measured at its turn: no re-test.
func (m *Matrix) Scheduled(cell int) bool {
	return m.Cells.State[cell] == int(Measured) && !m.Rounds[m.Cells.Round[cell]].Retest
}

// Retests is how many rounds tested suspects again.
func (m *Matrix) Retests() int {
	return len(slices.DeleteFunc(slices.Clone(m.Rounds), func(r Round) bool { return !r.Retest }))
}

// Took is how many hosts took part to the end.
func (m *Matrix) Took() int {
	return len(slices.DeleteFunc(slices.Clone(m.Hosts), func(h Host) bool { return h.Word != stats.Pass }))
}

// Incast is what receivers got from so many senders.
type Incast struct {
	FanIn, Receivers int
	Receiver         float64 // median over receivers of the sum, bits/s
}

// Incast sums the flows of each receiver in the rounds whose point that is. What failed has brought nothing.
func (m *Matrix) Incast() []Incast {
	type place struct{ round, rail, to int }
	sums := map[place]float64{}
	c := &m.Cells
	for i := range c.Len() {
		if r := m.Rounds[c.Round[i]]; r.FanIn > 0 && !r.Retest {
			sums[place{c.Round[i], c.Rail[i], c.To[i]}] += c.Value[i]
		}
	}
	totals := map[int][]float64{}
	for at, sum := range sums {
		fan := m.Rounds[at.round].FanIn
		totals[fan] = append(totals[fan], sum)
	}
	var out []Incast
	for _, fan := range slices.Sorted(maps.Keys(totals)) {
		out = append(out, Incast{FanIn: fan, Receivers: len(totals[fan]), Receiver: stats.Median(totals[fan])})
	}
	return out
}

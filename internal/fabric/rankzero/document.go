package rankzero

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// mostCells bounds the cells inside a document.
const mostCells = 4 << 20

// document is what there is now; stopped is why the run ended before its end.
func (c *coordinator) document(stopped error) *report.Document {
	d := &report.Document{
		Schema: report.SchemaVersion, Tool: c.tool(), Version: c.cfg.Version, Started: c.begun, Finished: time.Now(),
		Complete: stopped == nil,
		Fabric: &matrix.Matrix{
			Latency: c.cfg.Judge.Latency, Pattern: string(c.schedule.Pattern), Planned: c.schedule.Rounds,
			Rails: slices.Clone(c.cfg.Rails), Launcher: c.cfg.Launcher,
		},
	}
	if stopped != nil {
		d.Failure = stopped.Error()
	}
	m := d.Fabric
	c.addHosts(d)
	if len(c.leaves) > 1 {
		m.Leaves = c.leaves
	}
	if c.judge != nil {
		Conclude(d, c.judge, c.cfg.Plan, c.cfg.Measure)
		for i := range m.Findings {
			c.explain(m, &m.Findings[i])
		}
	}
	d.Checks = Checks(d)
	d.Client.Device = strings.Join(m.Rails, ", ")
	return d
}

// tool is the program of this run.
func (c *coordinator) tool() string {
	if c.cfg.Plan.Kind == plan.Latency {
		return "golat"
	}
	return "gobw"
}

// addHosts lists those that take part in the order of the cells, and then the others.
func (c *coordinator) addHosts(d *report.Document) {
	m := d.Fabric
	for _, h := range c.members {
		for i, device := range h.Devices {
			m.Rails[i] = cmp.Or(m.Rails[i], device)
		}
	}
	if c.cfg.Software {
		d.Client.Software, d.Label = true, "software device, not a NIC"
	}
	others := which(c.hosts, func(h *host) bool { return !slices.Contains(c.members, h) })
	for _, h := range slices.Concat(c.members, others) {
		out := h.Host
		if out.Notes = slices.Clone(h.Notes); h.Word == "" {
			why := "the host had not come when the run ended"
			if h.here() {
				why = "the host came, but the run did not start"
			}
			out.Verdict = stats.Unknown(stats.Incomplete, "", "%s", why)
		}
		m.Hosts = append(m.Hosts, out)
	}
}

// Conclude adds to a document, whose hosts and rails are known, what a judge has seen and
// found: rounds, cells, findings and records.
func Conclude(d *report.Document, j *judge.Judge, spec plan.Spec, measure time.Duration) {
	m := d.Fabric
	m.Rounds = j.Rounds()
	m.Findings, m.Judged = j.Conclude()
	cells := j.Cells
	m.Cells.Left = max(0, len(cells)-mostCells)
	for _, x := range cells[:len(cells)-m.Cells.Left] {
		share := 0.0
		if x.State == matrix.Measured {
			share = math.Round(min(j.Share(x), 1e3)*1e4) / 1e4
		}
		m.Cells.Add(int(x.From), int(x.To), int(x.Round), int(x.Rail), x.State, float64(x.Value), share)
	}
	d.Records = records(m, spec, measure)
}

// explain says why a flow of a finding failed, and how to see it alone.
func (c *coordinator) explain(m *matrix.Matrix, f *matrix.Finding) {
	if f.Word != stats.Fail || f.Subject == matrix.Trunk {
		return
	}
	// equal runs say the same
	pairs := slices.SortedFunc(maps.Keys(c.reasons), func(a, b [2]int) int { return slices.Compare(a[:], b[:]) })
	if own := [2]int{f.From, f.To}; c.reasons[own] != "" {
		pairs = [][2]int{own}
	}
	for _, pair := range pairs {
		reason := c.reasons[pair]
		if pair == [2]int{f.From, f.To} || f.OfHost() && f.Cause == matrix.NotConnected &&
			(pair[0] == f.From || pair[1] == f.From) {
			f.Reason = strings.Trim(f.Reason+"; "+reason, "; ")
			break
		}
	}
	f.Settle = c.reproduce(m, *f)
	if f.Cause == matrix.NotConnected && f.OfHost() {
		f.Settle = "run 'gobw doctor' there. Look for a firewall that drops UDP port 4791 (RoCE)." +
			plain.When(f.Settle != "", " Then %s", f.Settle)
	}
}

// reproduce is the test of two hosts that shows a finding; for a host, with one that is known to be good. It is to be
// pasted: a host whose name is none has no command, and each has a line, indented.
func (c *coordinator) reproduce(m *matrix.Matrix, f matrix.Finding) string {
	from, to := f.From, f.To
	if from == to {
		to = 0
		for to == from || slices.ContainsFunc(m.Findings, func(g matrix.Finding) bool { return g.From == to || g.To == to }) {
			to++
		}
		if f.Subject == matrix.Receiver {
			from, to = to, from
		}
	}
	if max(from, to) >= len(c.members) || !matrix.Pasteable(m.Hosts[from].Name) || !matrix.Pasteable(m.Hosts[to].Name) {
		return ""
	}
	p := c.cfg.Plan
	words := []string{c.tool(), string(p.Operation), m.Hosts[to].Name, "-s", fmt.Sprint(p.Sizes[0]), "-D", "5"}
	if p.QPs > 1 {
		words = append(words, "-q", fmt.Sprint(p.QPs))
	}
	if rail := m.Rails[f.Rail]; rail != "" {
		words = append(words, "-d", plain.Text(rail))
	}
	return fmt.Sprintf("test it alone. Type at %s:\n  gobw serve\nthen at %s:\n  %s", m.Hosts[to].Name, m.Hosts[from].Name,
		plain.JoinWords(words))
}

// Checks are the verdicts on each host, on the paths that are not good, and on what the run could see.
func Checks(d *report.Document) []report.Check {
	m := d.Fabric
	var out []report.Check
	shares := func(f matrix.Finding) string {
		s := "-"
		if f.Busy.N > 0 {
			s = fmt.Sprintf("%s busy (%d)", stats.Percent(f.Busy.Median), f.Busy.N)
		}
		return s + plain.When(f.Alone.N > 0, ", %s alone (%d)", stats.Percent(f.Alone.Median), f.Alone.N)
	}
	for i, h := range m.Hosts {
		c := report.Check{Expression: matrix.WholeOf.Good(), Point: h.Called(), Actual: "-", Verdict: h.Verdict}
		namesakes := slices.DeleteFunc(slices.Clone(m.Hosts), func(o matrix.Host) bool { return o.Name != h.Name })
		if h.Name != "" && len(namesakes) > 1 {
			c.Point += fmt.Sprintf(" (rank %d)", h.Rank)
		}
		for _, f := range m.Findings {
			if f.OfHost() && f.From == i && (c.Word == stats.Pass || c.Word == stats.CannotTell && f.Word == stats.Fail) {
				c.Actual, c.Verdict = shares(f), f.Verdict
			}
		}
		out = append(out, c)
	}
	for _, f := range m.Findings {
		if !f.OfHost() {
			out = append(out,
				report.Check{Expression: f.Subject.Good(), Point: m.Where(f), Actual: shares(f), Verdict: f.Verdict})
		}
	}
	seen := report.Check{
		Expression: matrix.RunSees, Point: matrix.Run, Actual: "-", Verdict: stats.Verdict{Word: stats.Pass},
	}
	switch p := m.Judged.HostPower; {
	case !d.Complete:
		seen.Verdict = stats.Unknown(stats.Incomplete, "", "the run is incomplete: %s", plain.Text(d.Failure))
	case p > 0 && m.Cells.Len() > 0:
		seen.Actual = "slower by " + stats.Percent(p)
	default:
		seen.Verdict = stats.Unknown(stats.Unclear, m.Judged.Settle, "too noisy: no host is known to be good")
	}
	return append(out, seen)
}

// Records of one run.
const (
	mostRuns   = 10      // of each series: the scheduled rounds are divided into so many blocks of time
	mostSeries = 100_000 // records of hosts and links: of more hosts there are fewer runs
	// rounds in which a link must have been measured to be a series: with fewer a gate has no interval
	leastForALink = 6
)

// series are cells whose figures belong together: of a class of paths, of a host as
// a sender or a receiver, or of a link.
type series struct {
	side       string // "", "sending", "receiving" or "link"
	rail, fan  int
	path, node string
}

// records are the figures that comparisons, gates and trends work on, as of any other test: the median of what each
// series has moved in a block of rounds. A block is a run: rounds are repetitions in time, hosts are none.
func records(m *matrix.Matrix, spec plan.Spec, measure time.Duration) []report.Record {
	scheduled := len(m.Rounds) - m.Retests()
	runs := max(1, min(mostRuns, scheduled, mostSeries/max(2*len(m.Hosts)*len(m.Rails), 1)))
	values := map[series][][]float64{}
	c := &m.Cells
	for i := range c.Len() {
		if !m.Scheduled(i) {
			continue
		}
		rail, fan := c.Rail[i], m.Rounds[c.Round[i]].FanIn
		from, to := m.Hosts[c.From[i]].Called(), m.Hosts[c.To[i]].Called()
		of := []series{{rail: rail, fan: fan, path: m.Path(c.From[i], c.To[i])}}
		if fan <= 1 {
			of = append(of, series{side: "sending", rail: rail, node: from}, series{side: "receiving", rail: rail, node: to},
				series{side: "link", rail: rail, node: from + " -> " + to})
		}
		for _, s := range of {
			if values[s] == nil {
				values[s] = make([][]float64, runs)
			}
			run := c.Round[i] * runs / scheduled
			values[s][run] = append(values[s][run], c.Value[i])
		}
	}
	maps.DeleteFunc(values, func(s series, blocks [][]float64) bool {
		return s.side == "link" && len(slices.Concat(blocks...)) < leastForALink
	})
	var out []report.Record
	for _, s := range slices.SortedFunc(maps.Keys(values), series.compare) {
		for run, block := range slices.DeleteFunc(values[s], func(block []float64) bool { return len(block) == 0 }) {
			r := report.Record{DurationTest: true, Seconds: measure.Seconds(), Run: run + 1, Plan: report.Plan{
				Operation: string(spec.Operation), Kind: string(spec.Kind), Transport: spec.Transport.String(), Direction: "both",
				SizeBytes: uint64(spec.Sizes[0]),
				QPs:       max(spec.QPs, 1), Pattern: m.Pattern, Rail: m.Rail(s.rail), Path: s.path, Node: s.node, Side: s.side,
				FanIn: s.fan,
			}}
			v := stats.Median(block)
			if m.Latency { // the median of the cells' medians, and no more
				r.Latency = &report.Latency{Samples: uint64(len(block)), MinNs: v, P50Ns: v, MaxNs: v, MeanNs: v}
			} else {
				r.Bandwidth.AverageBitsPerS = v
			}
			out = append(out, r)
		}
	}
	return out
}

// compare orders series: paths first, then hosts, then links.
func (s series) compare(o series) int {
	sides := []string{"", "sending", "receiving", "link"}
	return cmp.Or(cmp.Compare(slices.Index(sides, s.side), slices.Index(sides, o.side)), cmp.Compare(s.rail, o.rail),
		cmp.Compare(s.fan, o.fan),
		cmp.Compare(s.path, o.path), cmp.Compare(s.node, o.node))
}

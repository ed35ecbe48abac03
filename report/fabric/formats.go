package fabric

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// StateName is a cell's state in words.
func StateName(s int) string {
	return [...]string{"measured", "not connected", "wrong data", "void"}[s]
}

// CellRecord is one cell with names.
type CellRecord struct {
	Round  int     `json:"round"`
	Label  string  `json:"label"`
	From   string  `json:"from"`
	To     string  `json:"to"`
	Rail   string  `json:"rail"`
	State  string  `json:"state"`
	Bits   float64 `json:"bits_per_s,omitempty"`
	P50Ns  float64 `json:"p50_ns,omitempty"`
	Share  float64 `json:"share,omitempty"`
	FanIn  int     `json:"fan_in,omitempty"`
	Retest bool    `json:"retest,omitempty"`
	Alone  bool    `json:"alone,omitempty"`
}

func (d *Document) record(i int) CellRecord {
	c := d.Cells
	r := d.Rounds[c.Round[i]]
	out := CellRecord{
		Round: c.Round[i] + 1, Label: r.Label, From: d.Hosts[c.From[i]].Name, To: d.Hosts[c.To[i]].Name, Rail: d.rail(c.Rail[i]),
		State: StateName(c.State[i]), Share: c.Share[i], FanIn: r.FanIn, Retest: r.Retest, Alone: r.Alone,
	}
	if d.Test.Latency() {
		out.P50Ns = c.Value[i]
	} else {
		out.Bits = c.Value[i]
	}
	return out
}

// JSONLines writes a record per cell.
func (d *Document) JSONLines(w io.Writer) error {
	e := json.NewEncoder(w)
	for i := range d.Cells.Len() {
		if err := e.Encode(d.record(i)); err != nil {
			return err
		}
	}
	return nil
}

// CSV writes a row per cell.
func (d *Document) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	value := "bits_per_s"
	if d.Test.Latency() {
		value = "p50_ns"
	}
	if err := c.Write([]string{"round", "label", "from", "to", "rail", "state", value, "share", "fan_in", "retest", "alone"}); err != nil {
		return err
	}
	for i := range d.Cells.Len() {
		r := d.record(i)
		if err := c.Write([]string{
			fmt.Sprint(r.Round), cell(r.Label), cell(r.From), cell(r.To), cell(r.Rail), r.State, fmt.Sprintf("%.6g", d.Cells.Value[i]),
			fmt.Sprintf("%.4f", r.Share), fmt.Sprint(r.FanIn), fmt.Sprint(r.Retest), fmt.Sprint(r.Alone),
		}); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// cell keeps a spreadsheet from taking a name for a formula.
func cell(s string) string {
	s = plain(s)
	if s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
		return "'" + s
	}
	return s
}

// Nodes writes a line per good host, for mpirun and others.
func (d *Document) Nodes(w io.Writer) error {
	for _, h := range d.GoodHosts() {
		if _, err := fmt.Fprintln(w, plain(h)); err != nil {
			return err
		}
	}
	return nil
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
	Out      string      `xml:"system-out"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Time    string     `xml:"time,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Error   *junitText `xml:"error,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes a case per host, one per bad link or trunk, and one for the run.
func (d *Document) JUnit(w io.Writer) error {
	s := junitSuite{Name: "gobw fabric", Time: fmt.Sprintf("%.3f", d.Seconds), Out: d.Line() + "\n" + d.Tested()}
	add := func(class, name string, failure, failed *junitText) {
		s.Cases = append(s.Cases, junitCase{Name: plain(name), Class: class, Time: "0", Failure: failure, Error: failed})
		s.Tests++
		if failure != nil {
			s.Failures++
		}
		if failed != nil {
			s.Errors++
		}
	}
	text := func(f Finding) *junitText {
		m := fmt.Sprintf("%s: %s, busy %s, alone %s", f.Kind, f.Where(), f.Busy, f.Alone)
		return &junitText{Message: plain(m), Text: plain(f.Reason + "\n" + f.Reproduce)}
	}
	for _, h := range d.Hosts {
		var failure, failed *junitText
		if !h.TookPart() {
			failed = &junitText{Message: plain(h.State + ": " + h.Reason), Text: plain(h.Remedy)}
		}
		for _, f := range d.Findings {
			if f.Subject != "link" && f.Subject != "trunk" && f.FromRank == h.Rank && failure == nil {
				if f.Bad {
					failure = text(f)
				} else if f.Kind == "cannot tell" {
					failed = text(f)
				}
			}
		}
		name := h.Name
		if name == "" {
			name = fmt.Sprintf("rank %d", h.Rank)
		}
		add("fabric.host", name, failure, failed)
	}
	for _, f := range d.Findings {
		if f.Subject != "link" && f.Subject != "trunk" {
			continue
		}
		if f.Bad {
			add("fabric."+f.Subject, f.Where(), text(f), nil)
		} else if f.Kind == "cannot tell" {
			add("fabric."+f.Subject, f.Where(), nil, text(f))
		}
	}
	var run *junitText
	if v := d.Verdict(); v == CannotTell {
		run = &junitText{Message: d.Line()}
	}
	add("fabric", "run", nil, run)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", "  ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// OpenMetrics writes gauges for a scrape or a textfile collector.
func (d *Document) OpenMetrics(out io.Writer) error {
	w := bufio.NewWriter(out)
	label := func(s string) string {
		return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(plain(s))
	}
	gauge := func(name, help string) {
		fmt.Fprintf(w, "# TYPE gobw_fabric_%s gauge\n# HELP gobw_fabric_%s %s\n", name, name, help)
	}
	gauge("pass", "1 if nothing was found and everything was seen.")
	pass := 0
	if d.Verdict() == Pass {
		pass = 1
	}
	fmt.Fprintf(w, "gobw_fabric_pass %d\n", pass)
	gauge("tested_share", "Share of ordered pairs that were tested.")
	fmt.Fprintf(w, "gobw_fabric_tested_share %g\n", float64(d.Judged.Tested)/float64(max(d.Judged.Pairs, 1)))
	gauge("noise", "Standard deviation of one cell, as a share.")
	fmt.Fprintf(w, "gobw_fabric_noise %g\n", d.Judged.Sigma)
	gauge("host_up", "1 if the host took part to the end.")
	for _, h := range d.Hosts {
		up := 0
		if h.TookPart() {
			up = 1
		}
		fmt.Fprintf(w, "gobw_fabric_host_up{rank=\"%d\",host=\"%s\"} %d\n", h.Rank, label(h.Name), up)
	}
	gauge("finding_share", "Share of what is expected that a slow host, link or trunk reaches.")
	for _, f := range d.Findings {
		if f.Bad {
			fmt.Fprintf(w, "gobw_fabric_finding_share{kind=\"%s\",subject=\"%s\",from=\"%s\",to=\"%s\",rail=\"%s\"} %g\n",
				label(f.Kind), label(f.Subject), label(f.From), label(f.To), label(d.rail(f.Rail)), f.Share())
		}
	}
	unit, name := 1.0, "bandwidth_bits_per_second"
	if d.Test.Latency() {
		unit, name = 1e-9, "latency_seconds"
	}
	gauge(name, "Median over the cells of a class.")
	for _, q := range d.Scatter {
		fmt.Fprintf(w, "gobw_fabric_%s{rail=\"%s\",path=\"%s\"} %g\n", name, label(d.rail(q.Rail)), label(q.Hops), q.P50*unit)
	}
	fmt.Fprintln(w, "# EOF")
	return w.Flush()
}

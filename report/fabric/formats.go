package fabric

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"

	"github.com/gobw/gobw/report/internal/junit"
	"github.com/gobw/gobw/report/internal/openmetrics"
	"github.com/gobw/gobw/report/plain"
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
			fmt.Sprint(r.Round), plain.CSV(r.Label), plain.CSV(r.From), plain.CSV(r.To), plain.CSV(r.Rail), r.State, fmt.Sprintf("%.6g", d.Cells.Value[i]),
			fmt.Sprintf("%.4f", r.Share), fmt.Sprint(r.FanIn), fmt.Sprint(r.Retest), fmt.Sprint(r.Alone),
		}); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// Nodes writes a line per good host, for mpirun and others.
func (d *Document) Nodes(w io.Writer) error {
	for _, h := range d.goodHosts() {
		if _, err := fmt.Fprintln(w, plain.Text(h)); err != nil {
			return err
		}
	}
	return nil
}

// JUnit writes a case per host, one per bad link or trunk, and one for the run.
func (d *Document) JUnit(w io.Writer) error {
	s := junit.Suite{Name: "gobw fabric", Time: fmt.Sprintf("%.3f", d.Seconds), SystemOut: d.Line() + "\n" + d.tested()}
	add := func(class, name string, failure, failed *junit.Reason) {
		s.Cases = append(s.Cases, junit.Case{Name: plain.Text(name), Classname: class, Time: "0", Failure: failure, Error: failed})
	}
	text := func(f Finding) *junit.Reason {
		m := fmt.Sprintf("%s: %s, busy %s, alone %s", f.Kind, f.where(), f.Busy, f.Alone)
		return &junit.Reason{Message: plain.Text(m), Text: plain.Text(f.Reason + "\n" + f.Reproduce)}
	}
	for _, h := range d.Hosts {
		var failure, failed *junit.Reason
		if !h.tookPart() {
			failed = &junit.Reason{Message: plain.Text(h.State + ": " + h.Reason), Text: plain.Text(h.Remedy)}
		}
		for _, f := range d.Findings {
			if f.ofHost() && f.FromRank == h.Rank && failure == nil {
				if f.Bad {
					failure = text(f)
				} else if f.Kind == "cannot tell" {
					failed = text(f)
				}
			}
		}
		add("fabric.host", h.called(), failure, failed)
	}
	for _, f := range d.Findings {
		if f.ofHost() {
			continue
		}
		if f.Bad {
			add("fabric."+f.Subject, f.where(), text(f), nil)
		} else if f.Kind == "cannot tell" {
			add("fabric."+f.Subject, f.where(), nil, text(f))
		}
	}
	var run *junit.Reason
	if v := d.Verdict(); v == CannotTell {
		run = &junit.Reason{Message: d.Line()}
	}
	add("fabric", "run", nil, run)
	s.Count()
	return junit.Write(w, s)
}

// OpenMetrics writes gauges in base units, for a scrape or for node_exporter's textfile collector.
func (d *Document) OpenMetrics(out io.Writer) error {
	pass := &openmetrics.Family{Name: "gobw_fabric_pass", Help: "1 if nothing was found and everything was seen."}
	tested := &openmetrics.Family{Name: "gobw_fabric_tested_ratio", Unit: "ratio", Help: "Share of ordered pairs that were tested."}
	noise := &openmetrics.Family{Name: "gobw_fabric_noise_ratio", Unit: "ratio", Help: "Standard deviation of one cell, as a share."}
	up := &openmetrics.Family{Name: "gobw_fabric_host_up", Help: "1 if the host took part to the end."}
	found := &openmetrics.Family{Name: "gobw_fabric_finding_ratio", Unit: "ratio", Help: "Share of what is expected that a slow host, link or trunk reaches."}
	figure := &openmetrics.Family{Name: "gobw_fabric_bandwidth_bytes_per_second", Unit: "bytes_per_second", Help: "Median over the cells of a class."}
	scale := 1.0 / 8
	if d.Test.Latency() {
		figure.Name, figure.Unit, scale = "gobw_fabric_latency_seconds", "seconds", 1e-9
	}
	pass.Add(openmetrics.Flag(d.Verdict() == Pass))
	tested.Add(float64(d.Judged.Tested) / float64(max(d.Judged.Pairs, 1)))
	noise.Add(d.Judged.Sigma)
	for _, h := range d.Hosts {
		up.Add(openmetrics.Flag(h.tookPart()), openmetrics.Tag("rank", fmt.Sprint(h.Rank)), openmetrics.Tag("host", h.Name))
	}
	for _, f := range d.Findings {
		if f.Bad {
			found.Add(f.share(), openmetrics.Tag("kind", f.Kind), openmetrics.Tag("subject", f.Subject), openmetrics.Tag("from", f.From),
				openmetrics.Tag("to", f.To), openmetrics.Tag("rail", d.rail(f.Rail)))
		}
	}
	for _, q := range d.Scatter {
		figure.Add(q.P50*scale, openmetrics.Tag("rail", d.rail(q.Rail)), openmetrics.Tag("path", q.Hops))
	}
	return openmetrics.Write(out, pass, tested, noise, up, found, figure)
}

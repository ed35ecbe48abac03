package fabric

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/render"
)

func percent(share float64) string { return fmt.Sprintf("%.1f%%", share*100) }

// figure is a value with its unit.
func (t Test) figure(v float64) string {
	if t.Latency() {
		return fmt.Sprintf("%.2f us", v/1e3)
	}
	if v < 1e9 {
		return fmt.Sprintf("%.2f Mb/s", v/1e6)
	}
	return fmt.Sprintf("%.2f Gb/s", v/1e9)
}

// Line is the verdict in one line.
func (d *Document) Line() string {
	took, retests := d.took(), 0
	for _, r := range d.Rounds {
		if r.Retest {
			retests++
		}
	}
	var parts []string
	counts := map[string]int{}
	var kinds []string
	for _, f := range d.Findings {
		if f.Bad || f.Kind == "cannot tell" {
			if counts[f.Kind] == 0 {
				kinds = append(kinds, f.Kind)
			}
			counts[f.Kind]++
		}
	}
	for _, k := range kinds {
		if strings.HasPrefix(k, "slow ") && !strings.Contains(k, "only") {
			parts = append(parts, plain.Plural(counts[k], k)) // slow hosts
		} else {
			parts = append(parts, fmt.Sprintf("%d %s", counts[k], k))
		}
	}
	if missing := len(d.Hosts) - took; missing > 0 {
		parts = append(parts, plain.Plural(missing, "host")+" missing")
	}
	if d.Stopped != "" {
		why, _, _ := strings.Cut(d.Stopped, "\n") // hosts are listed below
		parts = append(parts, "stopped: "+plain.Text(why))
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing slow found")
	}
	return fmt.Sprintf("%s: %s. %d of %s, %s, %s and %s in %s.", d.Verdict(), strings.Join(parts, ", "), took,
		plain.Plural(len(d.Hosts), "host"), plain.Plural(len(d.Rails), "rail"), plain.Plural(len(d.Rounds)-retests, "round"), plain.Plural(retests, "re-test"),
		time.Duration(d.Seconds*float64(time.Second)).Round(time.Second/10))
}

// Text writes the report for a person: the verdict first, then what is bad, worst first, then what was and was not seen.
func (d *Document) Text(w io.Writer) error {
	p := &printer{w: w}
	p.text(d.Line())
	p.text(d.tested())
	d.textBody(p)
	return p.err
}

// textBody is the report below its first two paragraphs.
func (d *Document) textBody(p *printer) {
	if d.Software {
		p.text("The devices are software: the figures are those of the hosts' processors, not of NICs.")
	}
	d.textFindings(p)
	d.textHosts(p)
	d.textIncast(p)
	d.textDistribution(p)
	d.textAdvice(p)
}

// tested says what the run could have seen.
func (d *Document) tested() string {
	j := d.Judged
	if len(d.Rounds) == 0 && j.Pairs == 0 {
		return "No round was run: nothing was tested."
	}
	s := fmt.Sprintf("Tested %d of %d ordered pairs (%s), pattern %s; noise of one cell %s.", j.Tested, j.Pairs,
		percent(float64(j.Tested)/float64(max(j.Pairs, 1))), plain.Text(d.Pattern), percent(j.Sigma))
	if j.HostPower == 0 {
		return s + " Too noisy, or too few hosts known to be good: this run can tell nothing."
	}
	if j.Untimed > 0 && j.Untimed >= j.Tested {
		return s + " Several senders met at each receiver: connections and data are judged here, speeds are not." + j.against()
	}
	s += plain.When(j.Untimed > 0, " Speeds are judged of %d of them, where one host alone sends to another.", j.Tested-j.Untimed)
	s += fmt.Sprintf(" Found with 95 %%: a host slower by %s, a tested link slower by %s.", percent(j.HostPower), percent(j.LinkPower)) + j.against()
	s += plain.When(j.Tested < j.Pairs, " Links that were not tested can be anything.")
	return s
}

// against says what a baseline could have shown.
func (j Judged) against() string {
	switch {
	case j.Baseline == "":
		return ""
	case j.BaselinePower == 0:
		return fmt.Sprintf(" All paths together cannot be compared with %s: too few hosts, or no flow that was measured alone.", plain.Text(j.Baseline))
	}
	return fmt.Sprintf(" Against %s: all paths slower by %s.", plain.Text(j.Baseline), percent(j.BaselinePower))
}

type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// text writes a paragraph.
func (p *printer) text(s string) {
	if p.err == nil {
		p.err = render.WriteText(p.w, s)
	}
}

// table writes rows, the first of which is their header, under a title; nothing where there are no others.
func (p *printer) table(title string, rows [][]string) {
	if len(rows) < 2 {
		return
	}
	p.line("")
	p.text(title)
	if p.err == nil {
		p.err = render.WriteTable(p.w, rows[0], rows[1:])
	}
}

func (e Evidence) String() string {
	if e.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%s (%d)", percent(e.Share), e.N)
}

// mostRows bounds the tables on a terminal; files have all.
const mostRows = 40

func (d *Document) textFindings(p *printer) {
	hosts := [][]string{{"host", "verdict", "rail", "screened", "busy (n)", "alone (n)", "reason"}}
	links := [][]string{{"from -> to", "verdict", "rail", "leaves", "screened", "busy (n)", "alone (n)", "reason"}}
	var reproduce []string
	left := 0
	for _, f := range d.Findings {
		screened := "-"
		if f.Screened > 0 {
			screened = percent(f.Screened)
		}
		if len(hosts)+len(links) > mostRows {
			left++
			continue
		}
		if !f.ofHost() {
			links = append(links, []string{f.where(), f.Kind, d.rail(f.Rail), f.Leaves, screened, f.Busy.String(), f.Alone.String(), f.Reason})
		} else {
			hosts = append(hosts, []string{f.where(), f.Kind, d.rail(f.Rail), screened, f.Busy.String(), f.Alone.String(), f.Reason})
		}
		if f.Bad && f.Reproduce != "" && len(reproduce) < 5 {
			reproduce = append(reproduce, fmt.Sprintf("  %s: %s", plain.Text(f.where()), plain.Text(f.Reproduce)))
		}
	}
	p.table("Hosts (shares of what is expected; re-tests with partners known to be good)", hosts)
	p.table("Links, trunks and all paths", links)
	if left > 0 {
		p.line("and %d more, in the files", left)
	}
	if n := d.Judged.NotReproduced; n > 0 {
		p.text(plain.Plural(n, "link") + " looked slow once and did not when tested again.")
	}
	if n := d.Judged.Untried; n > 0 {
		p.text("Looked slow and not tested again, as there were too many: " + plain.Plural(n, "link") + ".")
	}
	if len(reproduce) > 0 {
		p.line("\nTo see it alone ('gobw serve' at the second host, the command at the first):\n%s", strings.Join(reproduce, "\n"))
	}
}

func (d *Document) rail(i int) string {
	if i < len(d.Rails) && d.Rails[i] != "" {
		return d.Rails[i]
	}
	return fmt.Sprint(i)
}

func (d *Document) textHosts(p *printer) {
	missing := [][]string{{"host", "rank", "state", "reason"}}
	notes := [][]string{{"host", "reason"}}
	for _, h := range d.Hosts {
		if !h.tookPart() {
			missing = append(missing, []string{h.Name, fmt.Sprint(h.Rank), h.State, strings.TrimSuffix(h.Reason+"; "+h.Remedy, "; ")})
		}
		for _, n := range h.Notes {
			notes = append(notes, []string{h.Name, n})
		}
	}
	if len(missing) > mostRows {
		missing = missing[:mostRows]
	}
	p.table("Hosts that were not measured to the end", missing)
	if len(notes) > mostRows {
		notes = notes[:mostRows]
	}
	p.table("Noted", notes)
}

func (d *Document) textIncast(p *printer) {
	rows := [][]string{{"senders", "receivers", "receiver gets", "of one sender", "least sender", "failed flows"}}
	for _, i := range d.Incast {
		rows = append(rows, []string{
			fmt.Sprint(i.FanIn), fmt.Sprint(i.Receivers), d.Test.figure(i.Receiver), percent(i.Receiver / max(d.Incast[0].Receiver, 1)), d.Test.figure(i.Least), fmt.Sprint(i.Failed),
		})
	}
	p.table("Incast", rows)
	if k := d.knee(); k > 0 {
		p.text(fmt.Sprintf("The knee: from %d senders on a receiver gets less than 90 %% of the best.", k))
	}
}

// knee is the fan-in from which on a receiver gets less than nine tenths of the best; 0: none.
func (d *Document) knee() int {
	best := 0.0
	for _, i := range d.Incast {
		best = max(best, i.Receiver)
	}
	knee := 0
	for _, i := range slices.Backward(d.Incast) {
		if i.Receiver >= 0.9*best {
			break
		}
		knee = i.FanIn
	}
	return knee
}

func (d *Document) textDistribution(p *printer) {
	rows := [][]string{{"path", "rail", "cells", "least", "1 %", "median", "99 %", "most"}}
	for _, q := range d.Scatter {
		rows = append(rows, []string{
			q.Hops, d.rail(q.Rail), fmt.Sprint(q.N), d.Test.figure(q.Min), d.Test.figure(q.P1), d.Test.figure(q.P50), d.Test.figure(q.P99), d.Test.figure(q.Most),
		})
	}
	title := "Bandwidth of a flow"
	if d.Test.Latency() {
		title = "Median latency of a pair"
	}
	p.table(title, rows)
}

// textAdvice prints what an operator does next. Nothing of it is run.
func (d *Document) textAdvice(p *printer) {
	bad := d.badHosts()
	if len(bad) == 0 || len(d.Rounds) == 0 { // where nothing was run, nothing is held against a host
		return
	}
	if list := Fold(bad); list != "" {
		if strings.Contains(list, "[") { // which shells read as a pattern of file names
			list = "'" + list + "'"
		}
		p.line("\nFor the next job:    --exclude=%s", list)
		p.line("To drain (not run):  scontrol update nodename=%s state=drain reason=\"gobw fabric %s\"", list, d.Began.Format("2006-01-02"))
	}
	if odd := slices.DeleteFunc(bad, pasteable); len(odd) > 0 {
		p.text(fmt.Sprintf("Not in a list for commands, as their names are none for a host: %q", odd))
	}
}

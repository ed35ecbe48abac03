package search

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/plan"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// schema is the version of the document of a search.
const schema = "gobw.search/1"

// result is what a search found.
type result struct {
	Schema     string             `json:"schema"`
	Tool       string             `json:"tool"`
	Version    string             `json:"version"`
	Command    []string           `json:"command"`
	Question   string             `json:"question"`
	Test       string             `json:"test"`
	By         string             `json:"by,omitempty"`
	Started    time.Time          `json:"started"`
	Seconds    float64            `json:"seconds"`
	Before     float64            `json:"seconds_before,omitempty"` // of the runs that --resume went on with
	Complete   bool               `json:"complete"`
	Failure    string             `json:"failure,omitempty"`
	Label      string             `json:"label,omitempty"`
	Device     string             `json:"device"`
	Seed       uint64             `json:"seed"`
	Dimensions []engine.Dimension `json:"dimensions"`
	Best       *engine.Best       `json:"best,omitempty"`
	Dips       *engine.Dips       `json:"dips,omitempty"`
	Anomalies  *engine.Anomalies  `json:"anomalies,omitempty"`
	Failures   []failure          `json:"failures,omitempty"` // points whose test failed
	Refused    int                `json:"refused,omitempty"`  // points that the device or this end does not do
	Empty      int                `json:"empty,omitempty"`    // points at which nothing came through in the time of a test
	Steps      []engine.Step      `json:"steps"`

	base         plan.Spec
	words        []string
	host, device string
}

// failure is what made the tests of some points fail.
type failure struct {
	What    string `json:"what"`
	Points  int    `json:"points"`
	Command string `json:"command"` // of the first
}

// finish takes over what was measured.
func (r *result) finish(s *engine.Search, m *meter, failed error) {
	r.Steps, r.Seconds, r.Complete, r.Failure = s.Steps(), time.Since(r.Started).Seconds()+r.Before, failed == nil, ""
	if failed != nil {
		r.Failure = failed.Error()
	}
	r.Failures, r.Refused, r.Empty = nil, 0, 0
	for _, step := range r.Steps {
		if step.Failure == "" {
			continue
		}
		switch {
		case m.refused[step.Failure]:
			r.Refused++
			continue
		case step.Failure == engine.Nothing:
			r.Empty++
			continue
		}
		what, _, _ := strings.Cut(step.Failure, "\n")
		i := slices.IndexFunc(r.Failures, func(f failure) bool { return f.What == what })
		if i < 0 {
			i = len(r.Failures)
			r.Failures = append(r.Failures, failure{What: what, Command: r.command(step.Point)})
		}
		r.Failures[i].Points++
	}
}

// findings is how many there are.
func (r *result) findings() int {
	n := len(r.Failures)
	if r.Dips != nil {
		n += len(r.Dips.Found)
	}
	if r.Anomalies != nil {
		n += len(r.Anomalies.Found)
	}
	return n
}

// command is the command line that runs a point's test.
func (r *result) command(p engine.Point) string {
	words := slices.Clone(r.words)
	for i, d := range r.Dimensions {
		if d.Name == "operation" {
			words[1] = d.Word(p[i])
		}
	}
	line := plain.JoinWords(words)
	if f := flags(r.Dimensions, p); f != "" {
		line += " " + f
	}
	if r.base.Sizes != nil && !slices.ContainsFunc(r.Dimensions, func(d engine.Dimension) bool {
		return d.Name == "size" && d.Base != p[slices.IndexFunc(r.Dimensions, func(e engine.Dimension) bool { return e.Name == "size" })]
	}) &&
		!slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, "-s") || strings.HasPrefix(w, "--size") }) && r.base.Operation != plan.Atomic {
		line += fmt.Sprintf(" -s %d", r.base.Sizes[0])
	}
	return line
}

// commands are a point's command lines, ours first.
func (r *result) commands(p engine.Point) []string {
	lines := []string{r.command(p)}
	spec := apply(r.Dimensions, p, r.base)
	if line := perftestLine(&spec, r.device, r.host); line != "" && !strings.HasPrefix(r.Device, "roce") {
		lines = append(lines, line)
	}
	return lines
}

func formats() []string { return []string{"table", "json", "junit", "svg"} }

// write writes the result in one of its formats.
func (r *result) write(w io.Writer, format string) error {
	switch format {
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(r)
	case "junit":
		return render.Qualification(w, format, r.suites())
	case "svg":
		return plot.WriteSVG(w, r.picture())
	}
	return r.table(w)
}

// suites are the findings as failed tests.
func (r *result) suites() *qualify.Qualification {
	q := &qualify.Qualification{Plan: "search " + r.Question, Version: r.Version, Command: r.Command, Started: r.Started, Label: r.Label}
	add := func(name, command, reason string) {
		q.Tests = append(q.Tests, qualify.Result{Name: name, Command: command, Outcome: qualify.Broken, Reason: reason})
	}
	for _, f := range r.found() {
		add(f.what, f.command, f.how)
	}
	if r.Failure != "" {
		add("the search is through", plain.JoinWords(r.Command), r.Failure)
	}
	if len(q.Tests) == 0 {
		q.Tests = []qualify.Result{{Name: "nothing found", Command: plain.JoinWords(r.Command), Outcome: stats.Pass, Seconds: r.Seconds}}
	}
	return q
}

// finding is a line of the table and the command that shows it.
type finding struct{ what, how, command, beside string }

func (r *result) found() (out []finding) {
	if r.Dips != nil {
		for _, d := range r.Dips.Found {
			until := ""
			if d.Until > 0 {
				until = fmt.Sprintf("; at %d bytes the bandwidth is back", d.Until)
			}
			size := func(n int) string { return r.command(engine.Point{n}) }
			out = append(out, finding{
				what: fmt.Sprintf("from %d bytes on", d.From), command: size(d.From), beside: size(d.Before),
				how: fmt.Sprintf("%s messages a second than at %d%s", change(d.Slower), d.Before, until),
			})
		}
	}
	if r.Anomalies != nil {
		for _, a := range r.Anomalies.Found {
			how := fmt.Sprintf("%.0f %% of the rate that its settings explain; %s beside its neighbour, in 3 of 3 pairs", 100*a.Share, change(a.Pairs))
			if a.Counter != "" {
				how = fmt.Sprintf("%.3g %s a message, none beside it, in 3 of 3 pairs", a.Share, a.Counter)
			}
			out = append(out, finding{what: a.Rule.String(), how: how, command: r.command(a.Bad), beside: r.command(a.Good)})
		}
	}
	for _, f := range r.Failures {
		out = append(out, finding{what: f.What, how: plain.Plural(f.Points, "test") + " failed", command: f.Command})
	}
	return out
}

// change is an effect in words.
func change(e stats.Effect) string {
	s := fmt.Sprintf("%+.1f %%", 100*e.Change)
	if e.Interval != nil {
		s += fmt.Sprintf(" (%+.1f to %+.1f %%)", 100*e.Interval.Low, 100*e.Interval.High)
	}
	return s
}

func (r *result) table(w io.Writer) error {
	b := &strings.Builder{}
	say := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	if r.Label != "" {
		say("%s", r.Label)
	}
	if !r.Complete {
		say("INCOMPLETE: %s", r.Failure)
	}
	if r.Best != nil {
		if err := r.bestTable(b, say); err != nil {
			return err
		}
	}
	found := r.found()
	for i, f := range found {
		say("%d. %s", i+1, f.what)
		say("   %s", f.how)
		say("   slow:   %s", f.command)
		if f.beside != "" {
			say("   beside: %s", f.beside)
		}
		if p := r.point(i); p != nil {
			for _, line := range r.commands(p)[1:] {
				say("   perftest: %s", line)
			}
		}
	}
	if r.Anomalies != nil {
		for _, a := range r.Anomalies.Unproven {
			say("not confirmed, so noise or rare: %s", a.Rule)
		}
	}
	if r.Question != best && len(found) == 0 && r.Complete {
		say("nothing found: no %s", map[string]string{dips: "size is slower than its neighbours promise", anomalies: "settings were slow together that are not slow alone"}[r.Question])
	}
	perMinute := float64(len(r.Steps)) / max(r.Seconds, 1e-9) * 60
	line := fmt.Sprintf("%d tests in %s, %.0f a minute; --seed %d", len(r.Steps), time.Duration(r.Seconds*1e9).Round(time.Second/10), perMinute, r.Seed)
	if r.Refused > 0 {
		line += fmt.Sprintf("; %d points left out that %s does not do", r.Refused, r.Device)
	}
	if r.Empty > 0 {
		line += fmt.Sprintf("; in %d nothing came through: a longer --test-time shows them", r.Empty)
	}
	say("%s", line)
	_, err := io.WriteString(w, plain.Terminal(b.String()))
	return err
}

// point is the one that finding i is about; nil: it has no other command.
func (r *result) point(i int) engine.Point {
	switch {
	case r.Dips != nil && i < len(r.Dips.Found):
		return engine.Point{r.Dips.Found[i].From}
	case r.Anomalies != nil && i < len(r.Anomalies.Found):
		return r.Anomalies.Found[i].Bad
	}
	return nil
}

// bestTable is the answer, and what each setting is worth.
func (r *result) bestTable(b *strings.Builder, say func(string, ...any)) error {
	a := r.Best
	if a.At == nil {
		a.At = a.Peak
	}
	value := map[string]func(v float64) string{
		byLatency: func(v float64) string { return fmt.Sprintf("%.2f us", 1/v/1e3) },
		byCPU:     func(v float64) string { return fmt.Sprintf("%.0f ns of processors a message", 1e9/v) },
	}[r.By]
	if value == nil {
		value = func(v float64) string { return plain.Number(v) + " messages a second" }
	}
	for i, line := range r.commands(a.At) {
		say("%s %s", []string{"best:    ", "perftest:"}[min(i, 1)], line)
	}
	if a.Value > 0 {
		say("          %s, %s against the defaults in %s; %s against the fastest found", value(a.Value), change(a.Gain), plain.Plural(a.Gain.N, "pair"), change(a.Behind))
		if in := a.Gain.Interval; !slices.Equal(a.Start, a.At) && (in == nil || in.Low <= 0) {
			say("          this may be noise: the interval holds 0; a quieter machine or a longer --test-time would tell")
		}
	}
	if !slices.Equal(a.Peak, a.At) {
		say("fastest:  %s", r.command(a.Peak))
	}
	rows := make([][]string, 0, len(r.Dimensions))
	for i, d := range r.Dimensions {
		row := []string{d.Name, d.Word(a.Start[i]), d.Word(a.At[i]), ""}
		for _, worth := range a.Worth {
			if worth.Dimension == d.Name {
				row[3] = change(worth.Without)
			}
		}
		rows = append(rows, row)
	}
	return render.WriteTable(b, []string{"setting", "default", "best", "with the default again"}, rows)
}

// picture is the path of the search: what each test gave, as a share of the first.
func (r *result) picture() *plot.Chart {
	c := &plot.Chart{
		Title: "search " + r.Question + ": " + r.Test, Subtitle: strings.TrimPrefix(r.Label+", "+r.Device, ", "),
		X: plot.Axis{Label: "test"}, Y: plot.Axis{Label: "rate beside the first test", Scale: plot.Log10},
	}
	all, best := plot.Series{Name: "test", Shape: plot.Dots}, plot.Series{Name: "best so far", Shape: plot.Steps}
	if r.Question == dips && r.Dips != nil {
		c.X, c.Y = plot.Axis{Label: "size (bytes)", Scale: plot.Log2, Format: plot.Bytes}, plot.Axis{Label: "messages a second", Scale: plot.Log10}
		all.Shape = plot.Line
		for _, s := range r.Dips.Sizes {
			all.X, all.Y = append(all.X, float64(s.Size)), append(all.Y, s.Value)
		}
		for _, d := range r.Dips.Found {
			c.Marks = append(c.Marks, plot.Mark{Label: fmt.Sprintf("%d bytes", d.From), X: float64(d.From)})
		}
		c.Series = []plot.Series{all}
		return c
	}
	first, top := 0.0, 0.0
	for i, s := range r.Steps {
		if s.Failure != "" {
			continue
		}
		if first == 0 {
			first = s.Figures.Value
		}
		top = max(top, s.Figures.Value)
		all.X, all.Y = append(all.X, float64(i+1)), append(all.Y, s.Figures.Value/first)
		best.X, best.Y = append(best.X, float64(i+1)), append(best.Y, top/first)
	}
	c.Series = []plot.Series{all, best}
	return c
}

package search

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/cli/exit"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/plot"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// schema is the version of the document of a search.
const schema = "gobw.search/1"

// Result is what a search found.
type Result struct {
	Schema     string             `json:"schema"`
	Tool       string             `json:"tool"`
	Version    string             `json:"version"`
	Command    []string           `json:"command"`
	Question   string             `json:"question"`
	Test       string             `json:"test"`
	By         string             `json:"by,omitempty"`
	Started    time.Time          `json:"started"`
	Seconds    float64            `json:"seconds"` // with those of the runs that --resume went on with
	Complete   bool               `json:"complete"`
	Failure    string             `json:"failure,omitempty"`
	Label      string             `json:"label,omitempty"`
	Device     string             `json:"device"`
	Seed       uint64             `json:"seed"`
	Dimensions []engine.Dimension `json:"dimensions"`
	Best       *engine.Best       `json:"best,omitempty"`
	Commands   []string           `json:"commands,omitempty"` // of the best setting, ours first
	Dips       *engine.Dips       `json:"dips,omitempty"`
	Anomalies  *engine.Anomalies  `json:"anomalies,omitempty"`
	Findings   []finding          `json:"findings,omitempty"`
	Empty      int                `json:"empty,omitempty"` // points at which nothing came through in the time of a test
	Steps      []engine.Step      `json:"steps"`
}

// finding is what is wrong with a device, and the commands that show it.
type finding struct {
	What     string `json:"what"`
	How      string `json:"how"`
	Command  string `json:"command"`
	Beside   string `json:"beside,omitempty"`   // a test that is well
	Perftest string `json:"perftest,omitempty"` // where perftest can say it
}

// Load reads a saved result; nil without an error: the file holds something else.
func Load(path string) (*Result, error) {
	b, err := report.ReadFile(path, report.MostBytes)
	if err != nil {
		return nil, err
	}
	r := &Result{}
	if err := json.Unmarshal(b, r); err != nil || r.Schema != schema {
		return nil, nil //nolint:nilerr // whoever reads it as something else tells
	}
	return r, nil
}

// finish takes over what was measured, and puts it in words.
func (r *Result) finish(s *engine.Search, m *meter, failed error) {
	r.Steps, r.Complete, r.Failure, r.Empty, r.Findings = s.Steps(), failed == nil, "", 0, nil
	if failed != nil {
		r.Failure = failed.Error()
	}
	add := func(what, how string, bad, good engine.Point) {
		f := finding{What: what, How: how, Command: m.command(bad), Perftest: m.perftest(bad)}
		if good != nil {
			f.Beside = m.command(good)
		}
		r.Findings = append(r.Findings, f)
	}
	if r.Best != nil {
		r.Commands = slices.DeleteFunc([]string{m.command(r.Best.At), m.perftest(r.Best.At)}, func(c string) bool { return c == "" })
	}
	if r.Dips != nil {
		for _, d := range r.Dips.Found {
			add(fmt.Sprintf("from %d bytes on", d.From), fmt.Sprintf("%s messages a second than at %d", change(d.Slower), d.Before)+
				plain.When(d.Until > 0, "; at %d bytes the bandwidth is back", d.Until), engine.Point{d.From}, engine.Point{d.Before})
		}
	}
	if r.Anomalies != nil {
		for _, a := range r.Anomalies.Found {
			how := fmt.Sprintf("%.0f %% of the rate that its settings explain; %s beside its neighbour, in 3 of 3 pairs", 100*a.Share, change(a.Pairs))
			if a.Counter != "" {
				how = fmt.Sprintf("%.3g %s a message, none beside it, in 3 of 3 pairs", a.Share, a.Counter)
			}
			add(a.Rule.String(), how, a.Bad, a.Good)
		}
	}
	failures := map[string]int{}
	for _, step := range r.Steps {
		switch what, _, _ := strings.Cut(step.Failure, "\n"); what {
		case "":
		case engine.Nothing:
			r.Empty++
		default:
			if failures[what]++; failures[what] == 1 {
				add(what, "the test failed", step.Point, nil)
			}
		}
	}
	for i, f := range r.Findings {
		if n := failures[f.What]; n > 1 {
			r.Findings[i].How = fmt.Sprintf("%d tests failed so", n)
		}
	}
}

func formats() []string { return []string{"table", "json", "junit", "svg"} }

// Write writes the result in one of its formats.
func (r *Result) Write(w io.Writer, format string) error {
	switch format {
	case "table":
		_, err := io.WriteString(w, plain.Terminal(r.table()))
		return err
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(r)
	case "junit":
		return render.Qualification(w, format, r.suites())
	case "svg":
		return plot.WriteSVG(w, r.picture())
	}
	return exit.UsageError{Err: fmt.Errorf("what a search found is shown as %s, not as %s", strings.Join(formats(), ", "), format)}
}

// suites are the findings as failed tests.
func (r *Result) suites() *qualify.Qualification {
	q := &qualify.Qualification{Plan: "search " + r.Question, Version: r.Version, Command: r.Command, Started: r.Started, Label: r.Label}
	for _, f := range r.Findings {
		q.Tests = append(q.Tests, qualify.Result{Name: f.What, Command: f.Command, Outcome: qualify.Broken, Reason: f.How})
	}
	through := qualify.Result{Name: "the search is through", Command: plain.JoinWords(r.Command), Outcome: stats.Pass, Seconds: r.Seconds}
	if r.Failure != "" {
		through.Outcome, through.Reason = qualify.Broken, r.Failure
	}
	q.Tests = append(q.Tests, through)
	return q
}

// change is an effect in words.
func change(e stats.Effect) string {
	s := fmt.Sprintf("%+.1f %%", 100*e.Change)
	if e.Interval != nil {
		s += fmt.Sprintf(" (%+.1f to %+.1f %%)", 100*e.Interval.Low, 100*e.Interval.High)
	}
	return s
}

func (r *Result) table() string {
	b := &strings.Builder{}
	say := func(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }
	if r.Label != "" {
		say("%s", r.Label)
	}
	if !r.Complete {
		say("INCOMPLETE: %s", r.Failure)
	}
	if r.Best != nil {
		r.bestTable(b)
	}
	for i, f := range r.Findings {
		say("%d. %s\n   %s\n   slow:   %s", i+1, f.What, f.How, f.Command)
		if f.Beside != "" {
			say("   beside: %s", f.Beside)
		}
		if f.Perftest != "" {
			say("   perftest: %s", f.Perftest)
		}
	}
	if r.Anomalies != nil {
		for _, a := range r.Anomalies.Unproven {
			say("not confirmed, so noise or rare: %s", a.Rule)
		}
	}
	if r.Question != best && len(r.Findings) == 0 && r.Complete {
		say("nothing found: no %s", map[string]string{dips: "size is slower than its neighbours promise", anomalies: "settings were slow together that are not slow alone"}[r.Question])
	}
	say("%d tests in %s, %.0f a minute; --seed %d%s", len(r.Steps), time.Duration(r.Seconds*1e9).Round(time.Second/10), float64(len(r.Steps))/max(r.Seconds, 1e-9)*60, r.Seed,
		plain.When(r.Empty > 0, "; in %d nothing came through: a longer --test-time shows them", r.Empty))
	return b.String()
}

// bestTable is the answer, and what each setting is worth.
func (r *Result) bestTable(b *strings.Builder) {
	a := r.Best
	names := []string{"best:    ", "perftest:"}
	if !r.Complete {
		names[0] = "so far:  "
	}
	for i, line := range r.Commands {
		fmt.Fprintln(b, names[min(i, 1)], line)
	}
	if a.Value > 0 {
		value := plain.Number(a.Value) + " messages a second"
		switch r.By {
		case byLatency:
			value = fmt.Sprintf("%.2f us", 1/a.Value/1e3)
		case byCPU:
			value = fmt.Sprintf("%.0f ns of processors a message", 1e9/a.Value)
		}
		against := "; nothing is better beyond noise"
		if a.Gain.N > 0 {
			against = fmt.Sprintf(", %s against the defaults in %s", change(a.Gain), plain.Plural(a.Gain.N, "pair"))
		}
		fmt.Fprintf(b, "          %s%s%s\n", value, against, plain.When(a.Behind.N > 0, "; %s against the fastest found", change(a.Behind)))
	}
	rows := make([][]string, len(r.Dimensions))
	for i, d := range r.Dimensions {
		rows[i] = []string{d.Name, d.Word(a.Start[i]), d.Word(a.At[i]), ""}
		for _, worth := range a.Worth {
			if worth.Dimension == d.Name {
				rows[i][3] = change(worth.Without)
			}
		}
	}
	_ = render.WriteTable(b, []string{"setting", "default", "best", "with the default again"}, rows) // a Builder takes all
}

// picture is the path of the search: what each test gave, as a share of the first; of dips, the sizes.
func (r *Result) picture() *plot.Chart {
	c := &plot.Chart{
		Title: "search " + r.Question + ": " + r.Test, Subtitle: strings.TrimPrefix(r.Label+", "+r.Device, ", "),
		X: plot.Axis{Label: "test"}, Y: plot.Axis{Label: "rate beside the first test", Scale: plot.Log10},
	}
	all := plot.Series{Name: "test", Shape: plot.Dots}
	if r.Dips != nil {
		c.X, c.Y = plot.Axis{Label: "size", Scale: plot.Log2, Format: plain.Bytes}, plot.Axis{Label: "messages", Units: plain.MessagesPerS, Scale: plot.Log10}
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
	top, first := plot.Series{Name: "best so far", Shape: plot.Steps}, 0.0
	for i, s := range r.Steps {
		if s.Failure != "" {
			continue
		}
		if first == 0 {
			first = s.Figures.Value
		}
		all.X, all.Y = append(all.X, float64(i+1)), append(all.Y, s.Figures.Value/first)
		top.X, top.Y = all.X, append(top.Y, slices.Max(all.Y))
	}
	c.Series = []plot.Series{all, top}
	return c
}

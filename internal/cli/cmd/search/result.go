package search

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
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
	TestTime   time.Duration      `json:"test_time_ns"`
	// where the search starts; it limits what may be in flight
	StartBytesPerS float64       `json:"start_bytes_per_s,omitempty"`
	Answer         engine.Answer `json:"answer"`
	Commands       []string      `json:"commands,omitempty"` // of the best setting, ours first
	Gives          string        `json:"gives,omitempty"`    // what it gives
	// name, default, best, and the effect of the default in the best
	Settings [][4]string `json:"settings,omitempty"`
	Findings []finding   `json:"findings,omitempty"` // the answer's, and tests that failed, in words
	// points at which nothing came through in the time of a test
	Empty int           `json:"empty,omitempty"`
	Steps []engine.Step `json:"steps"`
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
func Load(path string) (*Result, error) { return report.LoadAs[Result](path, schema) }

// finish takes over what was measured, and puts it in words.
func (r *Result) finish(s *engine.Search, m *meter, failed error) {
	r.Answer, r.Steps, r.Complete, r.Failure, r.Empty, r.Findings = s.Answer, s.Steps(), failed == nil, "", 0, nil
	if failed != nil {
		r.Failure = failed.Error()
	}
	if b := r.Answer.Best; b != nil && b.At != nil {
		r.best(b, m)
	}
	for _, f := range r.Answer.Found {
		how := change(f.Pairs) + " messages a second"
		if f.Counter != "" {
			how = fmt.Sprintf("%.3g %s a message", f.Events, f.Counter)
		}
		how += fmt.Sprintf(" compared with %s, in %d pairs", s.Space.Text(f.Good, f.Bad), f.Pairs.N) +
			plain.When(f.Until > 0, "; at %d bytes the bandwidth is normal again", f.Until)
		what := f.Rule.String()
		if f.Until > 0 { // of dips
			what = fmt.Sprintf("sizes %d to %d", f.Bad[0], f.Until-1)
		}
		r.Findings = append(r.Findings,
			finding{What: what, How: how, Command: m.command(f.Bad), Beside: m.command(f.Good), Perftest: m.perftest(f.Bad)})
	}
	r.failures(m)
}

// failures makes a finding of each cause for which tests failed, with the first of them.
func (r *Result) failures(m *meter) {
	count, first := map[string]int{}, map[string]int{}
	for _, step := range r.Steps {
		what, _, _ := strings.Cut(step.Failure, "\n")
		if what == "" {
			continue
		}
		if what == engine.Nothing {
			r.Empty++
			continue
		}
		cause := plain.WithoutNumbers(what) // they differ between tests that fail for one cause
		if count[cause] == 0 {
			first[cause] = len(r.Findings)
			r.Findings = append(r.Findings,
				finding{What: what, Command: m.command(step.Point), Perftest: m.perftest(step.Point)})
		}
		count[cause]++
	}
	for cause, i := range first {
		r.Findings[i].How = plain.Plural(count[cause], "test") + " failed like this"
	}
}

// unanswered is an error where most tests failed: what the others say may be chance.
func (r *Result) unanswered() error {
	failed := 0
	for _, step := range r.Steps {
		if step.Failure != "" && step.Failure != engine.Nothing {
			failed++
		}
	}
	if 2*failed <= len(r.Steps) {
		return nil
	}
	return exit.With(exit.Undecided,
		fmt.Errorf("%d of %d tests failed, so the answer may be chance: mend the causes told above", failed, len(r.Steps)))
}

// best puts the best setting in words.
func (r *Result) best(b *engine.BestSettings, m *meter) {
	r.Commands = slices.DeleteFunc([]string{m.command(b.At), m.perftest(b.At)}, func(c string) bool { return c == "" })
	r.Gives, r.Settings = "", nil
	if b.Value > 0 {
		against := plain.When(r.Complete, "; no other setting is significantly better")
		if b.Gain.N > 0 {
			against = fmt.Sprintf(", %s against the defaults in %s", change(b.Gain), plain.Plural(b.Gain.N, "pair"))
		}
		r.Gives = goals()[r.By].text(b.Value) + against +
			plain.When(b.Behind.N > 0, "; %s against the fastest found", change(b.Behind))
	}
	for i, e := range b.Without {
		d := &m.dims[i]
		r.Settings = append(r.Settings,
			[4]string{d.Name, d.Word(b.Start[i]), d.Word(b.At[i]), plain.When(e.N > 0, "%s", change(e))})
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
	return exit.With(exit.Usage, fmt.Errorf("a search has the formats %s, not %s", strings.Join(formats(), ", "), format))
}

// suites are the findings as failed tests.
func (r *Result) suites() *qualify.Qualification {
	q := &qualify.Qualification{
		Plan: "search " + r.Question, Version: r.Version, Command: r.Command, Started: r.Started, Label: r.Label,
	}
	for _, f := range r.Findings {
		q.Tests = append(q.Tests, qualify.Result{Name: f.What, Command: f.Command, Outcome: qualify.Broken, Reason: f.How})
	}
	through := qualify.Result{
		Name: "the search is through", Command: plain.JoinWords(r.Command), Outcome: stats.Pass, Seconds: r.Seconds,
	}
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
	say := func(given bool, format string, args ...any) { b.WriteString(plain.When(given, format+"\n", args...)) }
	say(r.Label != "", "%s", r.Label)
	say(!r.Complete, "INCOMPLETE: %s", r.Failure)
	names := []string{"best:    ", "perftest:"}
	if !r.Complete {
		names[0] = "so far:  "
	}
	for i, line := range r.Commands {
		say(true, "%s %s", names[min(i, 1)], line)
	}
	say(r.Gives != "", "          %s", r.Gives)
	if len(r.Settings) > 0 {
		rows := plain.Each(r.Settings, func(s [4]string) []string { return s[:] })
		_ = render.WriteTable(b, []string{"setting", "default", "best", "loss with default"}, rows) // a Builder takes all
	}
	for i, f := range r.Findings {
		say(true, "%d. %s\n   %s\n   slow:   %s", i+1, f.What, f.How, f.Command)
		say(f.Beside != "", "   good:   %s", f.Beside)
		say(f.Perftest != "", "   perftest: %s", f.Perftest)
	}
	if len(r.Findings) == 0 && r.Complete {
		if r.Question == dips {
			sizes, gap := r.sizes()
			say(true, "nothing found: none of %d sizes is slower than the sizes next to it. A range of sizes narrower than "+
				"%.0f %% may lie\n"+
				"between them: give a smaller --size, as 2K:4K", sizes, math.Ceil(100*gap))
		}
		ordered := slices.ContainsFunc(r.Dimensions, func(d engine.Dimension) bool { return !d.AnyCost })
		say(r.Question == anomalies && ordered, "nothing found: no combination of settings is slow")
		counters := "the device has no counters"
		if slices.ContainsFunc(r.Steps, func(s engine.Step) bool { return len(s.Figures.Counters) > 0 }) {
			counters = "no counter moved"
		}
		say(r.Question == anomalies && !ordered,
			"nothing found: %s. Slow tests were not looked for, because nobody knows which value of\n"+
				"these settings should be faster. Also try a setting such as qp.", counters)
	}
	say(true, "%d tests in %s, %.0f a minute; --seed %d%s", len(r.Steps),
		time.Duration(r.Seconds*1e9).Round(time.Second/10), float64(len(r.Steps))/max(r.Seconds, 1e-9)*60, r.Seed,
		plain.When(r.Empty > 0, "; in %d no message arrived: give a longer --test-time", r.Empty))
	return b.String()
}

// sizes is how many sizes dips measured, and the widest gap between two of them as a share of the smaller one.
func (r *Result) sizes() (n int, gap float64) {
	var all []int
	for _, s := range r.Steps {
		all = plain.AddNew(all, s.Point[0])
	}
	slices.Sort(all)
	for i := range len(all) - 1 {
		if all[i+1]-all[i] > 1 {
			gap = max(gap, float64(all[i+1]-all[i])/float64(all[i]))
		}
	}
	return len(all), gap
}

// picture is what each test gave, as a share of the first: in their order, or, of dips, over the size.
func (r *Result) picture() *plot.Chart {
	c := &plot.Chart{
		Title: "search " + r.Question + ": " + r.Test, Subtitle: strings.TrimPrefix(r.Label+", "+r.Device, ", "),
		X: plot.Axis{Label: "test"}, Y: plot.Axis{Label: "rate / rate of the first test", Scale: plot.Log10},
	}
	all, top, first := plot.Series{Name: "test", Shape: plot.Dots}, plot.Series{
		Name: "best so far", Shape: plot.Steps,
	}, 0.0
	for i, s := range r.Steps {
		if s.Failure != "" || len(s.Point) == 0 {
			continue
		}
		if first == 0 {
			first = s.Figures.Value
		}
		x := float64(i + 1)
		if r.Question == dips {
			x = float64(s.Point[0])
		}
		all.X, all.Y = append(all.X, x), append(all.Y, s.Figures.Value/first)
		top.X, top.Y = all.X, append(top.Y, slices.Max(all.Y))
	}
	c.Series = []plot.Series{all, top}
	if r.Question == dips {
		c.X, c.Series = plot.Axis{Label: "size", Scale: plot.Log2, Format: plain.Bytes}, c.Series[:1]
		for _, f := range r.Answer.Found {
			if len(f.Bad) > 0 {
				c.Marks = append(c.Marks, plot.Mark{Label: f.Rule.String(), X: float64(f.Bad[0])})
			}
		}
	}
	return c
}

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// grids of a comparison: one for each set-up and figure.
func (c *Comparison) grids() []grid {
	var out []grid
	at := map[string]int{}
	intervals := map[int]bool{}
	for _, p := range c.Points {
		title := fmt.Sprintf("%s: %s in %s", p.Group, p.Figure, p.Unit)
		i, ok := at[title]
		if !ok {
			i = len(out)
			at[title] = i
			out = append(out, grid{title: title, header: []string{"point", "old", "95 % interval", "new", "95 % interval", "change", "p", "runs", "verdict"}})
		}
		intervals[i] = intervals[i] || p.Old.Interval != nil || p.New.Interval != nil
		out[i].rows = append(out[i].rows, []string{
			p.Row, number(p.Old.Median), interval(p.Old), number(p.New.Median), interval(p.New),
			percent(p.Change), pValue(p.P), fmt.Sprintf("%d+%d", p.Old.N, p.New.N), string(p.Verdict),
		})
	}
	for i := range out {
		if intervals[i] {
			continue
		}
		drop := func(cells []string) []string {
			return append(append(append([]string{}, cells[:2]...), cells[3]), cells[5:]...)
		}
		out[i].header = drop(out[i].header)
		for j := range out[i].rows {
			out[i].rows[j] = drop(out[i].rows[j])
		}
	}
	return out
}

func interval(s Summary) string {
	if s.Interval == nil {
		return "-"
	}
	return number(s.Interval.Low) + "…" + number(s.Interval.High)
}

func percent(v float64) string { return fmt.Sprintf("%+.1f%%", 100*v) }

func pValue(p float64) string {
	if p < 0.001 {
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", p)
}

// closing lines below the tables: means, what has no partner, what changed around.
func (c *Comparison) closing() []string {
	var out []string
	for _, g := range c.Geomeans {
		out = append(out, fmt.Sprintf("geometric mean of new/old %s over %d points: %.3f (%s)", g.Figure, g.Points, g.Ratio, percent(g.Ratio-1)))
	}
	few := 0
	for _, p := range c.Points {
		if p.Verdict == TooFewRuns {
			few++
		}
	}
	if few > 0 {
		out = append(out, fmt.Sprintf("%d of %d figures have too few runs to tell a difference at the level %g: measure with --runs 5 or more on both sides", few, len(c.Points), c.Alpha))
	}
	for _, s := range c.OnlyOld {
		out = append(out, "only in old: "+s)
	}
	for _, s := range c.OnlyNew {
		out = append(out, "only in new: "+s)
	}
	for _, s := range c.Incomplete {
		out = append(out, "INCOMPLETE: "+s)
	}
	for _, d := range c.Unlike {
		out = append(out, "NOT ALIKE: "+d.String())
	}
	for _, d := range c.Changed {
		out = append(out, "changed: "+d.String())
	}
	return out
}

// RenderComparison writes a comparison as "table", "markdown", "latex" or "json".
func RenderComparison(w io.Writer, format string, c *Comparison) error {
	out := &strings.Builder{}
	switch format {
	case "json":
		b, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return fmt.Errorf("encode comparison: %w", err)
		}
		out.Write(append(b, '\n'))
	case "table", "text":
		for _, l := range c.Labels {
			fmt.Fprintln(out, l)
		}
		for i, g := range c.grids() {
			if i > 0 || len(c.Labels) > 0 {
				fmt.Fprintln(out)
			}
			if err := writeGrid(out, g); err != nil {
				return err
			}
		}
		fmt.Fprintln(out)
		for _, line := range c.closing() {
			for _, l := range Wrap(line, terminalWidth) {
				fmt.Fprintln(out, l)
			}
		}
	case "markdown", "md":
		for _, l := range c.Labels {
			fmt.Fprintf(out, "**%s**\n\n", escapeMarkdown(l))
		}
		for _, g := range c.grids() {
			writeMarkdown(out, g)
		}
		for _, line := range c.closing() {
			fmt.Fprintf(out, "- %s\n", escapeMarkdown(line))
		}
	case "latex", "tex":
		out.WriteString(laTeXPackages)
		for _, g := range c.grids() {
			writeLaTeX(out, g, strings.Join(c.Labels, "; "))
		}
		for _, line := range c.closing() {
			fmt.Fprintf(out, "\\noindent %s.\\par\n", escapeLaTeX(line))
		}
	default:
		names := []string{"table", "markdown", "latex", "json"}
		return fmt.Errorf("no format %q%s for a comparison; there are %s", format, suggest(format, names), strings.Join(names, ", "))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

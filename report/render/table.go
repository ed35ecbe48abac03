package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// terminalWidth is what tables try to keep to.
const terminalWidth = 80

// Table writes the document as tables for a terminal: the label first, a title and a table for each set-up with units in
// the header, warnings by number below. With several runs the figures are medians.
func Table(w io.Writer, d *report.Document) error {
	out := &strings.Builder{}
	for _, line := range heading(d) {
		fmt.Fprintln(out, plain.OneLine(line))
	}
	if s := d.Device(); s != "" {
		fmt.Fprintln(out, plain.OneLine(s))
	}
	for i, g := range grids(d) {
		if i > 0 || out.Len() > 0 {
			fmt.Fprintln(out)
		}
		if err := writeGrid(out, g); err != nil {
			return err
		}
	}
	for _, n := range d.Warnings {
		for _, line := range plain.Wrap("warning: "+n, terminalWidth) {
			fmt.Fprintln(out, line)
		}
	}
	_, err := io.WriteString(w, plain.Terminal(out.String()))
	return err
}

// writeGrid writes one table.
func writeGrid(w io.Writer, g grid) error {
	g = g.oneLined()
	if g.title != "" {
		for _, line := range plain.Wrap(g.title, terminalWidth) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	if g.prose {
		return writeProse(w, g.rows)
	}
	for i, p := range g.parts(terminalWidth) {
		if i > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
		if err := WriteTable(w, p.header, p.rows); err != nil {
			return err
		}
	}
	for i, n := range g.notes {
		for _, line := range plain.Wrap(fmt.Sprintf("[%d] %s", i+1, n), terminalWidth) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// oneLined is the table with each of its texts on one line.
func (g grid) oneLined() grid {
	line := func(texts []string) []string {
		out := slices.Clone(texts)
		for i := range out {
			out[i] = plain.OneLine(out[i])
		}
		return out
	}
	g.title, g.notes, g.rows = plain.OneLine(g.title), line(g.notes), slices.Clone(g.rows)
	for i := range g.rows {
		g.rows[i] = line(g.rows[i])
	}
	return g
}

// parts cuts a table wider than most runes into tables of as many columns as fit, each behind the columns that tell rows
// apart.
func (g grid) parts(most int) []grid {
	var out []grid
	for at := g.keys; at < len(g.header); {
		end := at + 1
		for end < len(g.header) && g.columns(at, end+1).width() <= most {
			end++
		}
		out = append(out, g.columns(at, end))
		at = end
	}
	if g.keys == 0 || len(out) < 2 || g.width() <= most {
		return []grid{g}
	}
	return out
}

// columns is the table with its keys and the columns from…to alone.
func (g grid) columns(from, to int) grid {
	pick := func(row []string) []string { return append(slices.Clone(row[:g.keys]), row[from:to]...) }
	p := grid{header: pick(g.header)}
	for _, r := range g.rows {
		p.rows = append(p.rows, pick(r))
	}
	return p
}

// width of the table as it is written when it is narrow enough for one gap only.
func (g grid) width() int { return width(g.header, g.rows, 1) - 1 }

// writeProse writes each row as a sentence.
func writeProse(w io.Writer, rows [][]string) error {
	for _, r := range rows {
		for _, line := range plain.Wrap(sentence(r), terminalWidth) {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

func sentence(row []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(row), func(s string) bool { return s == "" }), ": ")
}

// WriteTable writes a plain table for a terminal in the style of this package: a header, a rule, rows; columns of
// figures to the right, others to the left.
func WriteTable(w io.Writer, header []string, rows [][]string) error {
	align := make([]tw.Align, len(header))
	for i := range header {
		align[i] = tw.AlignRight
		for _, r := range rows {
			if i < len(r) && !isFigure(r[i]) {
				align[i] = tw.AlignLeft
			}
		}
	}
	gap := "  "
	if width(header, rows, len(gap)) > terminalWidth {
		gap = " "
	}
	cells := tw.CellAlignment{Global: tw.AlignRight, PerColumn: align}
	buffer := &strings.Builder{}
	t := tablewriter.NewTable(buffer,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.Border{Left: tw.Off, Right: tw.Off, Top: tw.Off, Bottom: tw.Off},
			Symbols: tw.NewSymbols(tw.StyleLight),
			Settings: tw.Settings{
				Separators: tw.Separators{BetweenColumns: tw.Off, BetweenRows: tw.Off, ShowHeader: tw.On},
				Lines:      tw.Lines{ShowHeaderLine: tw.On},
			},
		})),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithHeaderAlignmentConfig(cells),
		tablewriter.WithRowAlignmentConfig(cells),
		tablewriter.WithPadding(tw.Padding{Left: "", Right: gap, Overwrite: true}),
	)
	t.Header(header)
	for _, r := range rows {
		if err := t.Append(r); err != nil {
			return fmt.Errorf("table: %w", err)
		}
	}
	if err := t.Render(); err != nil {
		return fmt.Errorf("table: %w", err)
	}
	for line := range strings.Lines(buffer.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// width of a table in runes.
func width(header []string, rows [][]string, gap int) int {
	sum := 0
	for i, h := range header {
		widest := len([]rune(h))
		for _, r := range rows {
			if i < len(r) {
				widest = max(widest, len([]rune(r[i])))
			}
		}
		sum += widest + gap
	}
	return sum
}

// isFigure tells whether a cell holds a number, an interval of numbers or nothing.
func isFigure(s string) bool {
	if s == "" || s == "-" {
		return true
	}
	return strings.Trim(s, "0123456789.+-…e%x") == "" && strings.ContainsAny(s, "0123456789")
}

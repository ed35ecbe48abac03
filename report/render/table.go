package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/gobw/gobw/report/plain"
)

// sized is a writer that tells how many columns it shows.
type sized interface {
	io.Writer
	Columns() int
}

// columns is what tables keep to: what the writer shows, or 80.
func columns(w io.Writer) int {
	if s, is := w.(sized); is && s.Columns() > 0 {
		return max(s.Columns(), 40)
	}
	return 80
}

// writeGrid writes one table of at most so many columns.
func writeGrid(out *strings.Builder, g grid, most int) error {
	g = g.oneLined()
	if g.title != "" {
		writeWrapped(out, g.title, most)
	}
	if g.prose {
		for _, r := range g.rows {
			writeWrapped(out, sentence(r), most)
		}
		return nil
	}
	g = g.footnoted(most)
	for i, p := range g.parts(most) {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := writeTable(out, p.header, p.rows, most); err != nil {
			return err
		}
	}
	for i, n := range g.notes {
		writeWrapped(out, g.number(i)+n, most)
	}
	return nil
}

// footnoted is a table too wide for its reasons with the reasons below it.
func (g grid) footnoted(most int) grid {
	last := len(g.header) - 1
	if last < 0 || g.header[last] != reasonHeader || g.width() <= most {
		return g
	}
	g.header, g.notes, g.rows = slices.Clone(g.header), slices.Clone(g.notes), slices.Clone(g.rows)
	for i, row := range g.rows {
		if row[last] == "" {
			continue
		}
		at := slices.Index(g.notes, row[last])
		if at < 0 {
			at = len(g.notes)
			g.notes = append(g.notes, row[last])
		}
		g.rows[i] = append(slices.Clone(row[:last]), fmt.Sprintf("[%d]", at+1))
	}
	return g
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
func (g grid) width() int {
	sum := -1
	for _, w := range widths(g.header, g.rows) {
		sum += w + 1
	}
	return sum
}

func sentence(row []string) string {
	return strings.Join(slices.DeleteFunc(slices.Clone(row), func(s string) bool { return s == "" }), ": ")
}

// WriteTable writes a plain table for a terminal in the style of this package: a header, a rule, rows; columns of
// figures to the right, others to the left. One that is too wide has the texts of its last column, where that is "reason", below it,
// and is cut into parts behind its first column; of two columns the second is wrapped.
func WriteTable(w io.Writer, header []string, rows [][]string) error {
	out := &strings.Builder{}
	if len(header) == 2 {
		var wrapped [][]string
		room := columns(w) - widths(header, rows)[0] - len("  ")
		for _, r := range rows {
			for i, line := range plain.WrapWith(r[1], max(room, 20), "") {
				wrapped = append(wrapped, []string{r[0], line})
				if i > 0 {
					wrapped[len(wrapped)-1][0] = ""
				}
			}
		}
		rows = wrapped
	}
	if err := writeGrid(out, grid{header: header, rows: rows, keys: 1}, columns(w)); err != nil {
		return err
	}
	return write(w, plain.Terminal(out.String()))
}

func writeTable(w io.Writer, header []string, rows [][]string, most int) error {
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
	sum := 0
	for _, w := range widths(header, rows) {
		sum += w + len(gap)
	}
	if sum > most {
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
	out := &strings.Builder{}
	for line := range strings.Lines(buffer.String()) {
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
	return write(w, out.String())
}

// widths of a table's columns in runes.
func widths(header []string, rows [][]string) []int {
	out := make([]int, len(header))
	for i, h := range header {
		out[i] = len([]rune(h))
		for _, r := range rows {
			if i < len(r) {
				out[i] = max(out[i], len([]rune(r[i])))
			}
		}
	}
	return out
}

// isFigure tells whether a cell holds a number, an interval of numbers or nothing.
func isFigure(s string) bool {
	if s == "" || s == "-" {
		return true
	}
	return strings.Trim(s, "0123456789.+-…e%x") == "" && strings.ContainsAny(s, "0123456789")
}

package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/tw"

	"github.com/gobw/gobw/report/plain"
)

// table is a table for people, before a terminal, Markdown, LaTeX or HTML writes it.
type table struct {
	Title  string
	Header []string // with units
	Rows   [][]string
	Notes  []string // below the table
	// leading columns that tell rows apart: a narrow terminal gets the table in parts, each with these columns
	keys int
}

// note puts a text below the table and returns its number, for a cell.
func (t *table) note(text string) string {
	if text == "" {
		return ""
	}
	at := slices.IndexFunc(t.Notes, func(n string) bool { return strings.HasSuffix(n, "] "+text) })
	if at < 0 {
		at = len(t.Notes)
		t.Notes = append(t.Notes, fmt.Sprintf("[%d] %s", at+1, text))
	}
	return fmt.Sprintf("[%d]", at+1)
}

// dropEmpty drops empty columns from column 'from' on.
func (t *table) dropEmpty(from int) {
	for i := len(t.Header) - 1; i >= from; i-- {
		if slices.ContainsFunc(t.Rows, func(r []string) bool { return r[i] != "" && r[i] != "-" }) {
			continue
		}
		t.Header = slices.Delete(t.Header, i, i+1)
		for k := range t.Rows {
			t.Rows[k] = slices.Delete(t.Rows[k], i, i+1)
		}
	}
}

// Figures tells which columns hold figures. These stand to the right, texts to the left.
func (t table) Figures() []bool {
	out := make([]bool, len(t.Header))
	for i := range out {
		out[i] = !slices.ContainsFunc(t.Rows, func(r []string) bool { return i < len(r) && !isFigure(r[i]) })
	}
	return out
}

// isFigure tells whether a cell holds a number, an interval of numbers or nothing.
func isFigure(s string) bool {
	if s == "" || s == "-" {
		return true
	}
	return strings.Trim(s, "0123456789.+-…<>%x×") == "" && strings.ContainsAny(s, "0123456789")
}

// sized is a writer that knows its width in columns.
type sized interface {
	io.Writer
	Columns() int
}

// columns is the width of tables: that of the writer, or 80.
func columns(w io.Writer) int {
	if s, is := w.(sized); is && s.Columns() > 0 {
		return max(s.Columns(), 40)
	}
	return 80
}

// terminal writes the table in at most so many columns, where its cells allow it.
func (t table) terminal(out *strings.Builder, most int) {
	if t.Title != "" {
		writeWrapped(out, t.Title, most)
	}
	t.Rows = plain.Each(t.Rows, func(r []string) []string { return plain.Each(r, plain.OneLine) })
	out.WriteString(t.fitted(most))
	for _, n := range t.Notes {
		writeWrapped(out, n, most)
	}
}

// fitted draws the table. If it is too wide, it tries narrower gaps, then texts on several lines, then parts. Each part
// has the keys and as many columns as fit.
func (t table) fitted(most int) string {
	fits := func(text string) bool {
		return !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool { return len([]rune(line)) > most })
	}
	whole := t.draw("  ", most)
	if fits(whole) {
		return whole
	}
	for cell := most; cell > 11; cell = cell * 7 / 8 {
		if drawn := t.draw(" ", cell); fits(drawn) {
			return drawn
		}
	}
	end := t.keys + 1
	for end < len(t.Header) && fits(t.part(t.keys, end+1).draw(" ", most)) {
		end++
	}
	if end >= len(t.Header) {
		return t.draw(" ", most)
	}
	return t.part(t.keys, end).fitted(most) + "\n" + t.part(end, len(t.Header)).fitted(most)
}

// part is the table with its keys and the columns from…to alone.
func (t table) part(from, to int) table {
	pick := func(row []string) []string { return append(slices.Clone(row[:t.keys]), row[from:to]...) }
	return table{Header: pick(t.Header), Rows: plain.Each(t.Rows, pick), keys: t.keys}
}

// draw draws the table without a frame, with a rule below the header. Texts longer than cell take several lines.
func (t table) draw(gap string, cell int) string {
	var align tw.Alignment
	for _, right := range t.Figures() {
		align = append(align, map[bool]tw.Align{true: tw.AlignRight, false: tw.AlignLeft}[right])
	}
	drawn := &strings.Builder{}
	w := tablewriter.NewTable(drawn,
		tablewriter.WithRendition(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.Lines{ShowHeaderLine: tw.On}},
		}),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNormal),
		tablewriter.WithRowMaxWidth(cell),
		tablewriter.WithAlignment(align),
		tablewriter.WithPadding(tw.Padding{Left: "", Right: gap, Overwrite: true}),
	)
	w.Header(plain.Each(t.Header, plain.OneLine))
	for _, r := range t.Rows {
		_ = w.Append(r) // fails of kinds that are no text
	}
	_ = w.Render() // into memory
	out := &strings.Builder{}
	for line := range strings.Lines(drawn.String()) {
		fmt.Fprintln(out, strings.TrimRight(line, " \n"))
	}
	return out.String()
}

// WriteTable writes a plain table for a terminal in the style of this package: a header, a rule, rows; columns of
// figures to the right, others to the left. One that is too wide is cut into parts behind its first column.
func WriteTable(w io.Writer, header []string, rows [][]string) error {
	out := &strings.Builder{}
	table{Header: header, Rows: rows, keys: 1}.terminal(out, columns(w))
	return write(w, plain.Terminal(out.String()))
}

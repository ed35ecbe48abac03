package render

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/report/plot"
)

func titleOf(f plot.Figure) string {
	if h, is := f.(*plot.HeatMap); is {
		return h.Title
	}
	return f.(*plot.Chart).Title
}

func TestNoncontigPictures(t *testing.T) {
	d := saved("grid")
	d.Complete = false
	pictures := Pictures([]*report.Document{d})
	var names []string
	lines := regexp.MustCompile(`</text>\n<text[^>]*>`) // of a paragraph
	for _, p := range pictures {
		names = append(names, titleOf(p))
		var svg bytes.Buffer
		if err := plot.WriteSVG(&svg, p); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"software device, not a NIC · INCOMPLETE: interrupted · rxe0 (ibv) on alpha · RC, hot cache, window 16",
			"block size",
		} {
			if !strings.Contains(lines.ReplaceAllString(svg.String(), " "), want) {
				t.Errorf("%s does not say %q", titleOf(p), want)
			}
		}
	}
	want := []string{
		"Speed-up of gather-write over pack, gather (G-WR) of 16 KiB messages",
		"Speed-up of gather-write over pack, gather (G-WR) of 64 KiB messages",
		"Goodput by block size, gather (G-WR) of 16 KiB messages, stride 2x",
		"Goodput by block size, gather (G-WR) of 16 KiB messages, stride 16x",
		"Goodput by block size, gather (G-WR) of 64 KiB messages, stride 2x",
		"Goodput by block size, gather (G-WR) of 64 KiB messages, stride 16x",
	}
	if !slices.Equal(names, want) {
		t.Errorf("got pictures %v, want %v", names, want)
	}
	h := pictures[0].(*plot.HeatMap)
	if !slices.Equal(h.Rows, []string{"2x block", "16x block"}) || len(h.Columns) != 7 {
		t.Errorf("got rows %v and %d columns, want two strides and seven blocks", h.Rows, len(h.Columns))
	}
	if marks := pictures[2].(*plot.Chart).Marks; len(marks) != 1 || !strings.HasPrefix(marks[0].Label, "crossover ") {
		t.Errorf("got marks %v, want the crossover", marks)
	}
	if c := h.Cells[0][0]; c.Category != 2 || h.Cells[0][6].Category != 1 {
		t.Errorf("got category %d at the smallest block and %d at the largest, want 2 (pack) and 1 (gather)", c.Category,
			h.Cells[0][6].Category)
	}
	if c := h.Cells[0][6]; c.Strength <= 0 || c.Strength > 1 {
		t.Errorf("got strength %v, want it within 0 and 1", c.Strength)
	}
}

// TestRatioBesideItsStrategies: a terminal too narrow for the course's grid has the ratio beside what it is of.
func TestRatioBesideItsStrategies(t *testing.T) {
	d := saved("grid")
	for _, p := range d.Noncontig.Points {
		if p.Strategy == "pack" {
			p.Strategy = noncontig.Pipelined
			d.Noncontig.Points = append(d.Noncontig.Points, p)
		}
	}
	for i := range d.Noncontig.Points {
		if p := &d.Noncontig.Points[i]; p.BlockBytes == 64 {
			p.Stride = "16x"
		}
	}
	d.Noncontig.Analyze()
	var terminal bytes.Buffer
	if err := Documents(&terminal, "table", []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	parts := 0
	for line := range strings.Lines(terminal.String()) {
		if !strings.HasPrefix(line, "stride") || strings.Contains(line, "WRs") {
			continue
		}
		if parts++; strings.Contains(line, ratioHeader) != strings.Contains(line, "gather-write") {
			t.Errorf("the ratio stands in another part than what it is of: %s", line)
		}
	}
	if parts < 4 {
		t.Errorf("%d parts: the table is not cut, and the test shows nothing\n%s", parts, terminal.String())
	}
}

func TestNoncontigTables(t *testing.T) {
	d := saved("grid")
	for _, f := range Formats() {
		if f.Name == "junit" || f.Name == "svg" {
			continue
		}
		var b bytes.Buffer
		if err := Documents(&b, f.Name, []*report.Document{d}); err != nil {
			t.Fatalf("%s: %v", f.Name, err)
		}
		for _, want := range []string{"gather-write", "multi-wr", "software device, not a NIC"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s does not say %q", f.Name, want)
			}
		}
	}
	var terminal bytes.Buffer
	if err := Documents(&terminal, "table", []*report.Document{d}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(terminal.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	g := experiment{d.Noncontig}.tables()
	if got, want := g[0].Title,
		"gather (G-WR) of 16 KiB messages; RC, hot cache, window 16: goodput in Gb/s"; got != want {
		t.Errorf("got title %q, want %q", got, want)
	}
	d.Noncontig.Setup.ListBytes = "gather-write 4096, scatter-read 8192"
	for i := range d.Noncontig.Points {
		if p := &d.Noncontig.Points[i]; p.WRs > 1 {
			p.WRs = max(p.WRs, int(p.SizeBytes/4096))
		}
		d.Noncontig.Points[i].Runs = d.Noncontig.Points[i].Runs[:1] // as after Ctrl-C
	}
	d.Noncontig.Analyze()
	cut := experiment{d.Noncontig}.tables()
	for _, r := range cut[0].Rows {
		if ratio := r[slices.Index(cut[0].Header, ratioHeader)]; !strings.HasSuffix(ratio, "?") {
			t.Errorf("one run, and the ratio is %q: want a mark that it is no verdict", ratio)
		}
	}
	if notes := cut[2].Notes; !slices.Equal(notes,
		[]string{"gather-write: rows with several WRs have at most 4096 bytes per WR"}) {
		t.Errorf("notes below what gather costs: %q", notes)
	}
	for i := range d.Noncontig.Points {
		d.Noncontig.Points[i].WRs = 1
	}
	d.Noncontig.Analyze()
	for _, g := range (experiment{d.Noncontig}).tables() {
		if strings.Contains(strings.Join(g.Notes, "; "), "4096") {
			t.Errorf("%s: no list was cut, and a note says how: %q", g.Title, g.Notes)
		}
	}
	if got, want := len(g[0].Rows), 14; got != want {
		t.Errorf("got %d rows, want %d", got, want)
	}
	for _, r := range g[0].Rows {
		if len(r) != len(g[0].Header) {
			t.Errorf("got %d cells under %d headings: %v", len(r), len(g[0].Header), r)
		}
	}
}

// TestNoncontigRatio: where there is no ratio, there is no column and no legend of one.
func TestNoncontigRatio(t *testing.T) {
	d := saved("grid")
	for i := range d.Noncontig.Cells {
		d.Noncontig.Cells[i].Question = nil
	}
	g := experiment{d.Noncontig}.tables()[0]
	if said := strings.Join(append(g.Header, g.Notes...), "; "); strings.Contains(said, "ratio") {
		t.Errorf("no ratio, and the table says %q", said)
	}
}

// TestWideTablesComeInParts: every column is there once, behind the columns that tell rows apart.
func TestWideTablesComeInParts(t *testing.T) {
	g := table{Header: []string{"key", "first figure", "second figure", "third figure"}, keys: 1}
	g.Rows = [][]string{{"1", "10", "20", "30"}, {"2", "11", "21", "31"}}
	for most, want := range map[int]string{
		80: "key  first figure  second figure  third figure", 32: "key first figure second figure|key  third figure",
		10: "key first figure|key second figure|key third figure",
	} {
		var heads []string
		for part := range strings.SplitSeq(g.fitted(most), "\n\n") {
			lines := strings.Split(strings.TrimSpace(part), "\n")
			heads = append(heads, lines[0])
			if len(lines) != 4 || !strings.HasPrefix(lines[2], "  1 ") && !strings.HasPrefix(lines[2], "1 ") {
				t.Errorf("within %d columns:\n%s", most, part)
			}
		}
		if got := strings.Join(heads, "|"); got != want {
			t.Errorf("within %d columns: %q, want %q", most, got, want)
		}
	}
}

// The notes of a grid are of its marks and strides: no row refers to them by number, so they have none.
func TestNoncontigNotesWithoutNumbers(t *testing.T) {
	for _, format := range []string{"table", "markdown", "latex", "html"} {
		var b bytes.Buffer
		if err := Documents(&b, format, []*report.Document{saved("grid")}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "the fastest strategy") || strings.Contains(b.String(), "[1] ") {
			t.Errorf("%s has numbered notes, or none:\n%.3000s", format, &b)
		}
	}
}

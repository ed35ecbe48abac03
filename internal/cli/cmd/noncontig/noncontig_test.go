package noncontig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/measure"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/noncontig"
	"github.com/gobw/gobw/verbs"
)

func parseNoncontig(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	flags := &Flags{}
	cmd := NewCommand("gobw", output.Streams{})
	cmd.ResetFlags()
	flags.Bind(cmd.Flags())
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return flags.Config("gobw", []string{"alpha"})
}

func TestNoncontigGrid(t *testing.T) {
	c, err := parseNoncontig(t, "--shape", "all", "--blocks", "64:8K", "--strides", "2x,4x,8x,16x", "--size",
		"16K,64K,256K")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(c.Layouts), 8*4*3; got != want {
		t.Errorf("got %d layouts, want %d", got, want)
	}
	if got, want := c.Layouts[0].Layout.String(), "vector:block=64,num=256,stride=128"; got != want {
		t.Errorf("got %s first, want %s", got, want)
	}
	if !slices.Equal(c.Shapes, []string{"gather", "scatter", "both"}) || c.Transport != verbs.RC || c.Runs != 20 {
		t.Errorf("got shapes %v, %v, %d runs", c.Shapes, c.Transport, c.Runs)
	}
}

func TestNoncontigGridOfNumbers(t *testing.T) {
	c, err := parseNoncontig(t, "--nums", "10,20", "--blocks", "8,100", "--strides", "4K")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range c.Layouts {
		got = append(got, l.Held+" "+l.Layout.String())
	}
	want := []string{
		"num vector:block=8,num=10,stride=4096", "num vector:block=100,num=10,stride=4096",
		"num vector:block=8,num=20,stride=4096", "num vector:block=100,num=20,stride=4096",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNoncontigRefusesFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--strides 32", "blocks of 4096 bytes would overlap; try --strides 2x, or --strides 8192"},
		{"--strides 0.5x", "a factor above 1"},
		{"--format png", "there are table, csv, json"},
		{"-s 1000", "the nearest is 1024"},
		{"--blocks 128K", "larger than the message of --size (-s) 65536; leave it out or use -s 131072"},
		{"--blocks 0", "want 1 or more"},
		{"--blocks 4K:64", "the smaller first"},
		{"--cache warm", "want hot or cold"},
		{"--verify some", "want ends, all or none"},
		{"--shape round", "want some of gather, scatter, both (or G-WR, S-RD, GSSR), or all"},
		{"--only magic", "want some of gather-write, pack"},
		{"-t 0", "--tx-depth (-t) 0: want 1 to 4096"},
		{"--runs 1001", "--runs 1001: want 1 to 1000"},
		{"-D 0", "want more than 0 seconds"},
		{"-D 0.5ms", "at least 1ms"},
		{"--segment 1", "want 64 bytes to 1 GiB"},
		{"--resume", "name the file to continue"},
		{"--layout vector:block=64,num=4,stride=32", "blocks overlap"},
		{"--layout vectro:block=8,num=2", "want vector, "},
		{"--layout vector:block=8,nun=2", "unknown key \"nun\": want block, num, stride"},
		{"--layout subarray:dims=8x8,face=y,size=4x4", "face goes with width, size with start"},
		{"--connection RD", "want RC, UC or UD"},
		{"--format word", "--format"},
	} {
		t.Run(c.args, func(t *testing.T) {
			_, err := parseNoncontig(t, strings.Fields(c.args)...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestNoncontigReportsAllFlagFaults(t *testing.T) {
	_, err := parseNoncontig(t, "--cache", "warm", "--runs", "0", "--strides", "1")
	for _, want := range []string{"--cache", "--runs", "--strides"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s in it", err, want)
		}
	}
}

func TestNoncontigLeavesOutWhatDoesNotApply(t *testing.T) {
	c, err := parseNoncontig(t, "--shape", "all", "--connection", "UD", "--size", "1K", "--blocks", "512")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, shape := range c.Shapes {
		for _, s := range plan.Strategies(shape) {
			if c.carries(s) && c.takes(s, c.Layouts[0]) {
				got = append(got, s.Shape+"/"+s.Name)
			}
		}
	}
	if want := []string{"both/gather-send", "both/pack-send-unpack", "both/contiguous"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestRoadThatCannotBe: of a list that is too long for one road the others are measured,
// and the result says why that one is not.
func TestRoadThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "list.csv")
	if err := os.WriteFile(file, []byte("0,0,8,5000000,16,8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := parseNoncontig(t, "--descriptors", file)
	if err != nil {
		t.Fatal(err)
	}
	device := verbs.DeviceInfo{Name: "a0", Software: true, Limits: verbs.Limits{MaxSGE: 16}}
	e := &experiment{
		config: c, doc: measure.NewDocument("gobw", nil), planned: map[int]bool{},
		limits: plan.Limits{Device: device, Dialled: true},
	}
	e.doc.Noncontig = &noncontig.Grid{}
	var wrong cmdline.Faults
	if e.add(c.Layouts, &wrong); len(wrong) > 0 {
		t.Fatal(errors.Join(wrong...))
	}
	var roads []string
	for _, a := range e.cells[0] {
		roads = append(roads, e.point(a).Strategy)
	}
	if want := []string{"lists", "pack", "contiguous"}; !slices.Equal(roads, want) {
		t.Errorf("measured are %v, want %v", roads, want)
	}
	why := "5000000 requests: at most 4194304 requests are prepared"
	absent := noncontig.Absence{Shape: "write", Strategy: "multi-wr", Reason: why}
	if !slices.Contains(e.doc.Noncontig.Absent, absent) {
		t.Errorf("absent are %v, want %v", e.doc.Noncontig.Absent, absent)
	}
}

func TestNoncontigResumeTakesOver(t *testing.T) {
	dir := t.TempDir()
	old := &report.Document{Schema: report.SchemaVersion, Tool: "gobw", Noncontig: &noncontig.Grid{
		Setup: noncontig.Setup{Device: "roce0", Runs: 1},
		Points: []noncontig.Point{
			{Shape: "gather", Strategy: "pack", Layout: "a", Runs: []noncontig.Run{{Round: 1, GoodputBitsPerS: 1e9}}},
			{Shape: "gather", Strategy: "pack", Layout: "b"},
		},
	}}
	path := filepath.Join(dir, "grid.json")
	if err := report.Save(path, old); err != nil {
		t.Fatal(err)
	}
	d, err := loadGrid(path)
	if err != nil {
		t.Fatal(err)
	}
	e := &experiment{previous: d, doc: measure.NewDocument("gobw", nil)}
	e.doc.Noncontig = &noncontig.Grid{
		Setup: noncontig.Setup{Device: "roce0", Runs: 2},
		Points: []noncontig.Point{
			{Shape: "gather", Strategy: "pack", Layout: "a"}, {Shape: "gather", Strategy: "pack", Layout: "b"},
		},
	}
	e.todo = []round{
		{run: 0, arms: []arm{{point: 0}}},
		{run: 1, arms: []arm{{point: 0}}},
		{run: 0, arms: []arm{{point: 1}}},
		{run: 1, arms: []arm{{point: 1}}},
	}
	if err := e.resume(); err != nil {
		t.Fatal(err)
	}
	if len(e.todo) != 3 || e.todo[0].arms[0].point != 0 || e.todo[0].run != 1 {
		t.Errorf("got %v left to do, want three, the first run 1 of point 0", e.todo)
	}
	if got := e.doc.Noncontig.Points[0].Runs; len(got) != 1 || got[0].GoodputBitsPerS != 1e9 {
		t.Errorf("got runs %v, want the one saved", got)
	}
	for want, other := range map[string]noncontig.Setup{
		"--tx-depth (-t) was 0, is 9":               {Window: 9},
		"--duration (-D) in seconds was 0, is 0.01": {MinSeconds: 0.01},
		"--segment was 16384, is 32768":             {SegmentBytes: 32 << 10},
	} {
		other.Device = "roce0"
		e.doc.Noncontig.Setup = other
		if err := e.resume(); err == nil || !strings.HasSuffix(err.Error(), "measured otherwise: "+want) {
			t.Errorf("resumed a grid of another set-up: %v, want %q", err, want)
		}
	}
}

// TestNoncontigRounds: each layout's strategies are measured back to back, whole runs one after another; a round of
// which a strategy is missing is measured anew as a whole.
func TestNoncontigRounds(t *testing.T) {
	e := &experiment{config: Config{Runs: 5}, doc: measure.NewDocument("gobw", nil)}
	n := &noncontig.Grid{}
	e.doc.Noncontig = n
	for cell := range 4 {
		var arms []arm
		for _, s := range []string{"gather-write", "pack", "multi-wr"} {
			n.Points = append(n.Points, noncontig.Point{Strategy: s, Layout: strconv.Itoa(cell)})
			arms = append(arms, arm{point: len(n.Points) - 1})
		}
		e.cells = append(e.cells, arms)
	}
	e.shuffle()
	orders := map[string]bool{}
	for i, r := range e.todo {
		order, layouts := "", map[string]bool{}
		for _, a := range r.arms {
			order += e.point(a).Strategy + " "
			layouts[e.point(a).Layout] = true
		}
		if r.run != i/4 || len(layouts) != 1 || len(r.arms) != 3 {
			t.Fatalf("round %d is of run %d and layouts %v with %d strategies, want run %d, one layout, three", i, r.run,
				layouts, len(r.arms), i/4)
		}
		orders[order] = true
	}
	if len(e.todo) != 20 {
		t.Errorf("%d rounds, want 5 of each of 4 layouts", len(e.todo))
	}
	if len(orders) < 4 {
		t.Errorf("only the orders %v in 20 rounds", orders)
	}

	for i := range n.Points { // two rounds measured, and of the third the first two layouts' but one strategy
		for round := range 3 {
			if round < 2 || i < 5 {
				n.Points[i].Runs = append(n.Points[i].Runs, noncontig.Run{Round: round + 1})
			}
		}
	}
	e.todo = slices.DeleteFunc(e.todo, e.done)
	for i, p := range n.Points {
		want := 2
		if i < 3 {
			want = 3
		}
		if len(p.Runs) != want {
			t.Errorf("layout %s, %s: %d rounds kept, want %d", p.Layout, p.Strategy, len(p.Runs), want)
		}
	}
}

// TestWarningOfLongLayout: a warning has the beginning of a layout of thousands of blocks.
func TestWarningOfLongLayout(t *testing.T) {
	text := "indexed:0+64"
	for i := range 5000 {
		text += fmt.Sprintf(",%d+64", (i+1)*64)
	}
	layout, err := pattern.Parse(text, pattern.ParseOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	e := &experiment{out: output.Streams{Err: &said}, doc: measure.NewDocument("gobw", nil)}
	e.warnOfNoGaps(gridLayout{Layout: layout, Stride: noncontig.AsGiven})
	const want = "layout indexed:0+64,64+64,"
	if got := e.doc.Warnings; len(got) != 1 || !strings.HasPrefix(got[0], want) || len(got[0]) > 250 || said.Len() > 250 {
		t.Errorf("%d warnings, %d bytes said: %.300q", len(got), said.Len(), got)
	}
}

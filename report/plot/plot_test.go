package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gobw/gobw/report/plain"
)

var update = flag.Bool("update", false, "write the golden files again") //nolint:gochecknoglobals // a flag of the test

// shares is a share p at 1/(1-p).
func shares(v float64) string { return fmt.Sprintf("%.*g %%", 4+int(math.Log10(v)), 100-100/v) }

// figures by the names of their golden files.
func figures() map[string]Figure {
	sizes := []float64{2, 8, 64, 512, 4096, 32768, 262144, 1 << 20}
	line := &Chart{
		Title: "Bandwidth over size", Subtitle: "write, RC, 1 QP — roce0 (software device, not a NIC)",
		X:     Axis{Label: "message size", Scale: Log2, Format: plain.Bytes},
		Y:     Axis{Label: "bandwidth", Units: plain.BitsPerS, Scale: Log10},
		Marks: []Mark{{Label: "line rate 100 Gb/s", Y: 100e9}},
	}
	for i, name := range []string{"yesterday", "today, 16 SGEs"} {
		s := Series{Name: name}
		for _, x := range sizes {
			y := 38e9 / (1 + float64(4000*(i+1))/x)
			s.X, s.Y, s.Low, s.High = append(s.X, x), append(s.Y, y), append(s.Low, y*0.8), append(s.High, y*1.15)
		}
		line.Series = append(line.Series, s)
	}
	nines := &Chart{
		Title: "Latency by percentile", Subtitle: "send, RC, 2 B",
		X: Axis{Label: "share of messages", Scale: Log10, Format: shares},
		Y: Axis{Label: "half round trip", Units: plain.Seconds},
	}
	steps := &Chart{
		Title: "Latency histogram", X: Axis{Label: "half round trip", Units: plain.Seconds, Scale: Log10},
		Y:     Axis{Label: "messages"},
		Marks: []Mark{{Label: "p99", X: 9.1e-6}},
	}
	for i := range 3 {
		s := Series{Name: []string{"2 B", "64 B", "4096 B"}[i]}
		h := Series{Name: s.Name, Shape: Steps}
		for j := range 60 {
			s.X, s.Y = append(s.X, math.Pow(10, float64(j)/15)), append(s.Y, 1e-6*(5+float64(i)+math.Pow(float64(j)/20, 2)))
			x := 5 * math.Exp(float64(j)/60)
			h.X, h.Y = append(h.X, x/1e6), append(h.Y, 1e4*math.Exp(-math.Pow((math.Log(x)-1.8-float64(i)*0.1)*8, 2)))
		}
		nines.Series = append(nines.Series, s)
		steps.Series = append(steps.Series, h)
	}
	heat := &HeatMap{
		Title: "Gather: which strategy wins", Subtitle: "strided → contiguous, RC, roce0 (software device, not a NIC)",
		XLabel: "block size (bytes)", YLabel: "message (bytes)",
		Columns: []string{"64", "256", "1 Ki", "4 Ki", "16 Ki"}, Rows: []string{"64 Ki", "256 Ki", "1 Mi"},
		Categories: []string{"gather-write", "pack", "multi-wr"},
		Note:       "The number is the winner's margin over the runner-up; grey: no difference beyond the noise.",
	}
	for i := range heat.Rows {
		var row []Cell
		for j := range heat.Columns {
			c := Cell{Category: 2, Strength: float64(4-j) / 5, Text: "pack 1.4×"}
			switch {
			case j == 2:
				c = Cell{Text: "="}
			case j > 2:
				c = Cell{Category: 1, Strength: float64(j+i) / 6, Text: "gather 1.2×"}
			}
			row = append(row, c)
		}
		heat.Cells = append(heat.Cells, row)
	}
	empty := &Chart{Title: "Nothing & <nobody>", X: Axis{Label: "x"}, Y: Axis{Label: "y"}}
	return map[string]Figure{"line": line, "nines": nines, "steps": steps, "heat": heat, "empty": empty}
}

func TestSVG(t *testing.T) {
	for name, f := range figures() {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := WriteSVG(&b, f); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", name+".svg")
			if *update {
				if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(b.Bytes(), want) {
				t.Errorf("%s differs; look at it and run the test with -update", golden)
			}
			wellFormed(t, b.String())
		})
	}
}

func wellFormed(t *testing.T, s string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(s))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("not well-formed: %v", err)
		}
	}
}

func TestInlineSVG(t *testing.T) {
	var b bytes.Buffer
	if err := WriteInlineSVG(&b, figures()["line"]); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "#") || !strings.Contains(b.String(), "var(--series-2)") {
		t.Error("an inline figure must take all colours from variables")
	}
	for _, a := range appearances {
		if v := a.variable + ":"; strings.Count(Style(), v) != 4 {
			t.Errorf("the style sets %s %d times, want light, dark, chosen dark and print", v, strings.Count(Style(), v))
		}
	}
}

// Several figures stand one below the other.
func TestSeveralFigures(t *testing.T) {
	var b bytes.Buffer
	line, heat := figures()["line"], figures()["heat"]
	if err := WriteSVG(&b, line, heat); err != nil {
		t.Fatal(err)
	}
	_, _, first := line.draw(newSVG(lightColor))
	if n := strings.Count(b.String(), "<g role"); n != 2 ||
		!strings.Contains(b.String(), `translate(0 `+short(first)+`)`) {
		t.Errorf("%d figures: want two, the second %s below", n, short(first))
	}
}

func TestTicks(t *testing.T) {
	labels := func(a Axis, values ...float64) string {
		var out []string
		r := newRuler(a, values).rounded()
		for _, tick := range r.ticks(func(string) float64 { return 0.05 }) {
			out = append(out, tick.label)
		}
		return strings.Join(out, " ")
	}
	for _, tt := range []struct {
		name string
		got  string
		want string
	}{
		{"linear from zero", labels(Axis{}, 1, 38), "0 10 20 30 40"},
		{"linear far from zero", labels(Axis{}, 95, 105), "94 96 98 100 102 104 106"},
		{"one value", labels(Axis{}, 0), "0 0.2 0.4 0.6 0.8 1"},
		{"decades", labels(Axis{Scale: Log10}, 0.002, 40), "0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5 10 20 50"},
		{"hardly more than a decade", labels(Axis{Scale: Log10}, 5.2, 70), "5 10 20 50 100"},
		{
			"sizes", labels(Axis{Scale: Log2, Format: plain.Bytes}, 512, 1<<20),
			"512 B 1 KiB 2 KiB 4 KiB 8 KiB 16 KiB 32 KiB 64 KiB 128 KiB 256 KiB 512 KiB 1 MiB",
		},
		{"a linear axis has one unit, in its label", labels(Axis{Units: plain.Seconds}, 0, 0.002, 0.0101), "0 5 10 15"},
		{
			"a logarithmic one has one at each tick", labels(Axis{Units: plain.Seconds, Scale: Log10}, 2e-6, 10),
			"10 us 100 us 1 ms 10 ms 100 ms 1 s 10 s",
		},
		{
			"shares", labels(Axis{Scale: Log10, Format: shares}, 1, 2000),
			"0 % 50 % 80 % 90 % 95 % 98 % 99 % 99.5 % 99.8 % 99.9 % 99.95 %",
		},
		{"few shares", labels(Axis{Scale: Log10, Format: shares}, 1, 3), "0 % 50 % 66.67 % 75 % 80 %"},
		{"no data", labels(Axis{Scale: Log10}), "0 2 4 6 8 10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want {
				t.Errorf("%q, want %q", tt.got, tt.want)
			}
		})
	}
}

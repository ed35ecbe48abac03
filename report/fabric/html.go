package fabric

import (
	"cmp"
	_ "embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"
)

//go:embed page.html
var page string

// Values of a cell's byte on the page: a share of 1 is 100.
const (
	byteFailed  = 255
	byteHighest = 250
)

// mostDrawn bounds the cells on one page.
const mostDrawn = 4 << 20

// pageData is what the page's program draws.
type pageData struct {
	Hosts    []string `json:"hosts"` // in the order drawn
	Leaf     []int    `json:"leaf"`
	Leaves   []string `json:"leaves"`
	Rails    []string `json:"rails"`
	Cells    []string `json:"cells"` // per rail, base64: from and to (16 bits, little endian), share in percent (8 bits)
	Latency  bool     `json:"latency"`
	Expected []Class  `json:"expected"`
}

// HTML writes one page that needs no network: the tables, and a heat map of all pairs per rail.
func (d *Document) HTML(w io.Writer) error {
	var rest strings.Builder
	d.textBody(&printer{w: &rest})
	data, left := d.pageData()
	t, err := template.New("page").Parse(page)
	if err != nil {
		return err
	}
	return t.Execute(w, map[string]any{
		"Doc": d, "Line": d.Line(), "Tested": d.tested(), "Rest": strings.TrimPrefix(rest.String(), "\n"), "Leaves": len(d.Leaves) > 1, "Data": data, "LeftOut": left, "Verdict": string(d.Verdict()), "Good": d.Verdict() == Pass,
		"Histogram": template.HTML(d.histogram()), "Curve": template.HTML(d.incastCurve()), //nolint:gosec // made of numbers below
	})
}

// order lists the ranks leaf by leaf.
func (d *Document) order() []int {
	ranks := make([]int, len(d.Hosts))
	first := map[string]int{} // leaves in the order of their first hosts: leaf2 comes before leaf10
	for i := range ranks {
		ranks[i] = i
		if _, known := first[d.Hosts[i].Leaf]; !known {
			first[d.Hosts[i].Leaf] = i
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(first[d.Hosts[a].Leaf], first[d.Hosts[b].Leaf]) })
	return ranks
}

func (d *Document) pageData() (pageData, int) {
	p := pageData{Rails: make([]string, len(d.Rails)), Latency: d.Test.Latency(), Expected: d.Classes, Hosts: []string{}, Leaf: []int{}, Leaves: []string{}}
	place := make([]int, len(d.Hosts))
	for at, rank := range d.order() {
		h := d.Hosts[rank]
		place[rank] = at
		if len(p.Leaves) == 0 || p.Leaves[len(p.Leaves)-1] != h.Leaf {
			p.Leaves = append(p.Leaves, h.Leaf)
		}
		p.Hosts, p.Leaf = append(p.Hosts, h.called()), append(p.Leaf, len(p.Leaves)-1)
	}
	left := 0
	for i := range d.Rails {
		p.Rails[i] = d.rail(i)
		b, n := d.drawn(i, place)
		left += n
		p.Cells = append(p.Cells, base64.StdEncoding.EncodeToString(b))
	}
	return p, left
}

// drawn packs the cells of a rail: of each pair the median share of its scheduled rounds, or that none had a figure.
func (d *Document) drawn(rail int, place []int) ([]byte, int) {
	type seen struct {
		shares []float64
		failed bool
	}
	pairs := map[[2]int]*seen{}
	c := d.Cells
	left := c.Left
	for i := range c.Len() {
		if c.Rail[i] != rail || c.State[i] == void || d.Rounds[c.Round[i]].FanIn > 1 && d.Pattern != "alltoall" || d.Rounds[c.Round[i]].Alone {
			continue
		}
		k := [2]int{place[c.From[i]], place[c.To[i]]}
		s := pairs[k]
		if s == nil {
			if len(pairs) == mostDrawn {
				left++
				continue
			}
			s = &seen{}
			pairs[k] = s
		}
		if c.State[i] == Measured {
			s.shares = append(s.shares, c.Share[i])
		} else {
			s.failed = true
		}
	}
	out := make([]byte, 0, 5*len(pairs))
	for k, s := range pairs {
		v := byte(byteFailed)
		if len(s.shares) > 0 {
			slices.Sort(s.shares)
			v = byte(math.Round(min(max(s.shares[len(s.shares)/2]*100, 0), byteHighest)))
		}
		out = binary.LittleEndian.AppendUint16(out, uint16(k[0]))
		out = binary.LittleEndian.AppendUint16(out, uint16(k[1]))
		out = append(out, v)
	}
	return out, left
}

// JSON is the data inside the page's script.
func (p pageData) JSON() (template.JS, error) {
	b, err := json.Marshal(p)  // escapes <, > and &
	return template.JS(b), err //nolint:gosec // JSON without the characters that end a script
}

// histogram draws the shares of all measured cells by class.
func (d *Document) histogram() string {
	const bins, low, high, wide, tall = 60, 0.4, 1.2, 720, 160
	counts := map[bool][]int{false: make([]int, bins), true: make([]int, bins)}
	most := 1
	for i := range d.Cells.Len() {
		if d.Cells.State[i] != Measured || d.Rounds[d.Cells.Round[i]].FanIn > 1 {
			continue
		}
		bin := int((d.Cells.Share[i] - low) / (high - low) * bins)
		other := d.Hosts[d.Cells.From[i]].Leaf != d.Hosts[d.Cells.To[i]].Leaf
		bin = min(max(bin, 0), bins-1)
		counts[other][bin]++
		most = max(most, counts[other][bin])
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="0 0 %d %d" role="img" aria-label="distribution of shares">`, wide, tall+20)
	for _, other := range []bool{false, true} {
		for i, n := range counts[other] {
			if n > 0 {
				h := max(math.Log1p(float64(n))/math.Log1p(float64(most))*tall, 1)
				x := float64(i) * wide / bins
				off := 0.0
				if other {
					off = wide / bins / 2
				}
				fmt.Fprintf(&b, `<rect class="c%t" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%d cells</title></rect>`, other, x+off, tall-h, float64(wide)/bins/2, h, n)
			}
		}
	}
	for s := low; s <= high+1e-9; s += 0.2 { // the first and the last stay inside
		x := (s - low) / (high - low) * wide
		anchor := "middle"
		if s == low {
			anchor = "start"
		} else if s+0.1 > high {
			anchor = "end"
		}
		fmt.Fprintf(&b, `<path class="tick" d="M%.0f %dv4"/><text x="%.0f" y="%d" text-anchor="%s">%.0f %%</text>`, x, tall, x, tall+16, anchor, s*100)
	}
	b.WriteString(`</svg>`)
	return b.String()
}

// incastCurve draws what a receiver gets against the number of senders.
func (d *Document) incastCurve() string {
	if len(d.Incast) < 2 {
		return ""
	}
	const wide, tall = 720, 180
	most := 0.0
	for _, i := range d.Incast {
		most = max(most, i.Receiver)
	}
	last := math.Log2(float64(d.Incast[len(d.Incast)-1].FanIn))
	var b, points strings.Builder
	fmt.Fprintf(&b, `<svg viewBox="-10 -10 %d %d" role="img" aria-label="incast">`, wide+80, tall+40)
	for _, i := range d.Incast {
		x := math.Log2(float64(i.FanIn)) / max(last, 1) * wide
		y := tall - i.Receiver/max(most, 1)*tall
		fmt.Fprintf(&points, "%.1f,%.1f ", x, y)
		fmt.Fprintf(&b, `<circle cx="%.1f" cy="%.1f" r="4"><title>%d senders: %s</title></circle><text x="%.1f" y="%d">%d</text>`, x, y, i.FanIn, d.Test.figure(i.Receiver), x-4, tall+20, i.FanIn)
	}
	fmt.Fprintf(&b, `<polyline points="%s"/></svg>`, points.String())
	return b.String()
}

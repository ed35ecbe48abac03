package summary

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/internal/fabric/coordinate"
	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/fabric/simulate"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report/fabric"
	"github.com/gobw/gobw/verbs"
)

// saved is the document of a simulated run, after it was written and read, and what its judge had learnt.
func saved(t *testing.T, f Facts) (*fabric.Document, []judge.Level) {
	t.Helper()
	const hosts = 8
	s, err := schedule.New(schedule.Pairs, schedule.Options{Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	c := simulate.Config{Hosts: hosts, Rails: len(f.Rails), Leaf: []int{0, 0, 0, 0, 1, 1, 1, 1}, Noise: 0.01, Latency: f.Plan.Kind == plan.Latency}
	j := simulate.Judge(simulate.New(c), s, judge.Config{})
	o := coordinate.Outcome{Schedule: s, Judge: j, Verdict: j.Conclude(), Leaf: c.Leaf, Leaves: []string{"a", "b"}}
	for i := range hosts {
		o.Taking = append(o.Taking, i)
		o.Hosts = append(o.Hosts, coordinate.Host{Rank: i, State: coordinate.Taking, Leaf: o.Leaves[c.Leaf[i]]})
	}
	for _, l := range j.Loads() {
		o.Rounds = append(o.Rounds, coordinate.RoundInfo{Load: l})
	}
	var b bytes.Buffer
	if err := Document(o, f).Write(&b); err != nil {
		t.Fatal(err)
	}
	d, err := fabric.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	return d, j.Learnt()
}

func TestBaselineIsWhatWasLearnt(t *testing.T) {
	for _, kind := range []plan.Kind{plan.Bandwidth, plan.Latency} {
		f := Facts{Plan: plan.Spec{Operation: plan.Write, Transport: verbs.RC, Kind: kind, Sizes: []int{8}}, Measure: time.Second, Rails: []string{"a", "b"}}
		d, want := saved(t, f)
		f.Measure = time.Minute // takes nothing from what was learnt
		got, err := Baseline(d, f)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range want {
			for i, share := range l.Hosts {
				l.Hosts[i] = round4(share)
			}
		}
		if len(got) != 4 { // rails, and whether they cross a trunk
			t.Errorf("%d levels", len(got))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestBaselineRefused(t *testing.T) {
	f := Facts{Plan: plan.Spec{Operation: plan.Write, Transport: verbs.RC, Kind: plan.Latency, Sizes: []int{8}}, Measure: time.Second, Rails: []string{""}}
	for _, tt := range []struct {
		name, want string
		change     func(*Facts, *fabric.Document)
	}{
		{"another size", "it holds latency of write over RC, 8 bytes", func(f *Facts, _ *fabric.Document) { f.Plan.Sizes = []int{64} }},
		{"another kind", "this run measures bandwidth", func(f *Facts, _ *fabric.Document) { f.Plan.Kind = plan.Bandwidth }},
		{"another operation", "this run measures latency of read", func(f *Facts, _ *fabric.Document) { f.Plan.Operation = plan.Read }},
		{"an earlier document", "an earlier program", func(_ *Facts, d *fabric.Document) { d.Classes[0].Hosts = nil }},
		{"an earlier latency", "an earlier program", func(_ *Facts, d *fabric.Document) { d.Classes[0].Percentiles = nil }},
		{"a hostile level", "makes no sense", func(_ *Facts, d *fabric.Document) { d.Classes[0].Percentiles[4] = 1 }},
		{"a hostile share", "makes no sense", func(_ *Facts, d *fabric.Document) { d.Classes[0].Hosts[0] = 0 }},
		{"other rails", "no flow alone on these rails", func(_ *Facts, d *fabric.Document) {
			for i := range d.Classes {
				d.Classes[i].Rail = -1 - i
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, _ := saved(t, f)
			now := f
			tt.change(&now, d)
			if _, err := Baseline(d, now); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

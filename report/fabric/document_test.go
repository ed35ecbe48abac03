package fabric

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/report/internal/junit"
)

// sample is a run of three hosts of which one is slow and one never came.
func sample() *Document {
	return &Document{
		Format: Format, Version: Version, Program: "gobw v1", Command: "gobw fabric", Began: time.Unix(1700000000, 0).UTC(), Seconds: 12.5,
		Test: Test{Operation: "write", Kind: "bandwidth", Transport: "RC", SizeBytes: 65536, QPs: 1}, Pattern: "pairs", Planned: 2,
		Rounds: []Round{{Label: "pairs 1", Flows: 2}, {Label: "re-test", Flows: 1, Retest: true}}, Rails: []string{"mlx5_0"},
		Hosts: []Host{
			{Rank: 0, Name: "node1", Leaf: "a", State: "took part"},
			{Rank: 1, Name: "node2", Leaf: "b", State: "took part", Notes: []string{"its clock is 9.0 s off"}},
			{Rank: 2, Name: "node3", State: "absent", Reason: "did not come within 1m0s", Remedy: "look there"},
		},
		Cells: Cells{
			From: []int{0, 1, 1}, To: []int{1, 0, 0}, Round: []int{0, 0, 1}, Rail: []int{0, 0, 0}, State: []int{Measured, Measured, notConnected},
			Value: []float64{1e11, 5e10, 0}, Share: []float64{1, 0.5, 0},
		},
		Findings: []Finding{{Kind: "slow host", Bad: true, Subject: "sender", From: "node2", FromRank: 1, ToRank: -1, Busy: Evidence{N: 3, Share: 0.5}, Reproduce: "at node2: gobw write node1"}},
		Judged:   Judged{Sigma: 0.01, Slow: 0.05, HostPower: 0.05, LinkPower: 0.05, Tested: 2, Pairs: 2},
		Incast:   []Incast{{FanIn: 1, Receivers: 1, Receiver: 1e11}, {FanIn: 2, Receivers: 1, Receiver: 7e10}},
		Scatter:  []Quantile{{Hops: "all", N: 2, P50: 7e10}},
	}
}

func TestVerdict(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Document)
		want   Verdict
	}{
		{"slow", func(*Document) {}, Fail},
		{"missing", func(d *Document) { d.Findings = nil }, HostsMissing},
		{"good", func(d *Document) { d.Findings = nil; d.Hosts = d.Hosts[:2] }, Pass},
		{"cannot tell", func(d *Document) {
			d.Hosts = d.Hosts[:2]
			d.Findings = []Finding{{Kind: "cannot tell", Subject: "link"}}
		}, CannotTell},
		{"stopped", func(d *Document) { d.Findings = nil; d.Hosts = d.Hosts[:2]; d.Stopped = "SIGTERM" }, CannotTell},
		{"no power", func(d *Document) { d.Findings = nil; d.Hosts = d.Hosts[:2]; d.Judged.HostPower = 0 }, CannotTell},
		{"nothing measured", func(d *Document) { d.Findings = nil; d.Hosts = d.Hosts[:2]; d.Cells = Cells{} }, CannotTell},
		{"corrupt", func(d *Document) { d.Findings = append(d.Findings, Finding{Kind: "wrong data", Bad: true}) }, Corrupt},
	} {
		d := sample()
		tt.change(d)
		if got := d.Verdict(); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// words are those of a text, wherever its lines end.
func words(b *bytes.Buffer) string { return strings.Join(strings.Fields(b.String()), " ") }

func TestText(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Text(&b); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"FAIL: 1 slow host, 1 host missing. 2 of 3 hosts, 1 rail, 1 round and 1 re-test in 12.5s.", "Tested 2 of 2 ordered pairs", "node2, sending", "50.0% (3)",
		"absent", "did not come within", "its clock is", "--exclude='node[2-3]'", "scontrol update nodename='node[2-3]' state=drain", "The knee: from 2 senders",
	} {
		if !strings.Contains(words(&b), want) {
			t.Errorf("%q is missing in:\n%s", want, &b)
		}
		if i == 0 && !strings.HasPrefix(words(&b), want) {
			t.Errorf("the first line is not the verdict:\n%s", &b)
		}
	}
}

// TestAdvice: nobody is told to drain a host on which a rank too many was refused, or hosts of a run that did not begin.
func TestAdvice(t *testing.T) {
	d := sample()
	d.Findings, d.Hosts[2].State, d.Hosts[2].Name = nil, "unfit", d.Hosts[0].Name
	var b bytes.Buffer
	if err := d.Text(&b); err != nil || strings.Contains(b.String(), "exclude") || len(d.goodHosts()) != 2 {
		t.Errorf("%v, good %v\n%s", err, d.goodHosts(), &b)
	}
	d = sample()
	d.Findings, d.Rounds, d.Cells, d.Judged, d.Stopped = nil, nil, Cells{}, Judged{}, "1 of 3 ranks came\n  rank 1: absent"
	b.Reset()
	if err := d.Text(&b); err != nil || strings.Contains(b.String(), "exclude") || strings.Contains(words(&b), "rank 1: absent") || !strings.Contains(b.String(), "No round was run") {
		t.Errorf("%v\n%s", err, &b)
	}
}

// TestBelowBaseline: what is slow everywhere is told as such, fails the run, and drains no host.
func TestBelowBaseline(t *testing.T) {
	d := sample()
	d.Hosts, d.Judged.Baseline, d.Judged.BaselinePower = d.Hosts[:2], "accepted.json", 0.03
	d.Findings = []Finding{{Kind: "slower than baseline", Bad: true, Subject: "class", From: "same leaf", FromRank: -1, ToRank: -1, Busy: Evidence{N: 2, Share: 0.9}}}
	var text, junit bytes.Buffer
	if err := errors.Join(d.Text(&text), d.JUnit(&junit)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FAIL: 1 slower than baseline", "all paths, same leaf", "90.0% (2)", "Against accepted.json: all paths slower by 3.0%."} {
		if !strings.Contains(words(&text), want) {
			t.Errorf("%q is missing in:\n%s", want, &text)
		}
	}
	if len(d.badHosts()) > 0 || strings.Contains(text.String(), "--exclude") || !strings.Contains(junit.String(), `classname="fabric.class"`) {
		t.Errorf("bad hosts %v\n%s", d.badHosts(), &junit)
	}
}

func TestRoundTrip(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		t.Fatal(err)
	}
	d, err := Read(&b)
	if err != nil || d.Line() != sample().Line() {
		t.Errorf("%v, %v", d, err)
	}
}

func TestReadRefuses(t *testing.T) {
	for name, change := range map[string]func(*Document){
		"format": func(d *Document) { d.Format = "x" }, "newer": func(d *Document) { d.Version = 99 }, "short": func(d *Document) { d.Cells.To = nil },
		"host": func(d *Document) { d.Cells.To[0] = 9 }, "itself": func(d *Document) { d.Cells.To[0] = 0 }, "round": func(d *Document) { d.Cells.Round[0] = -1 },
		"rail": func(d *Document) { d.Cells.Rail[0] = 4 }, "state": func(d *Document) { d.Cells.State[0] = 7 }, "finding": func(d *Document) { d.Findings[0].Rail = 3 },
		"rank": func(d *Document) { d.Hosts[1].Rank = 5 },
	} {
		d := sample()
		change(d)
		var b bytes.Buffer
		if err := d.Write(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(&b); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

func TestFormats(t *testing.T) {
	d := sample()
	d.Hosts[1].Name = "=cmd\x1b[31m<script>"
	var b bytes.Buffer
	if err := d.CSV(&b); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 4 || rows[2][2] != "'=cmd?[31m<script>" || rows[1][6] != "1e+11" {
		t.Errorf("CSV %q, %v", rows, err)
	}
	b.Reset()
	if err := d.JSONLines(&b); err != nil || strings.Count(b.String(), "\n") != 3 {
		t.Errorf("JSON lines %v:\n%s", err, &b)
	}
	for line := range strings.Lines(b.String()) {
		var c CellRecord
		if err := json.Unmarshal([]byte(line), &c); err != nil || len(line) > 1023 {
			t.Errorf("%s: %v", line, err)
		}
	}
	b.Reset()
	if err := d.JUnit(&b); err != nil {
		t.Fatal(err)
	}
	var suite junit.Suite
	if err := xml.Unmarshal(b.Bytes(), &suite); err != nil || suite.Tests != 4 || suite.Failures != 1 || suite.Errors != 1 || len(suite.Cases) != 4 {
		t.Errorf("JUnit %+v, %v", suite, err)
	}
	b.Reset()
	if err := d.OpenMetrics(&b); err != nil || !strings.HasSuffix(b.String(), "# EOF\n") || strings.Contains(b.String(), "\x1b") {
		t.Errorf("OpenMetrics %v:\n%s", err, &b)
	}
	b.Reset()
	if err := d.HTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script>alert", "=cmd\x1b", "http://", "https://", "cdn"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
	if n := strings.Count(b.String(), "<script>"); n != 1 {
		t.Errorf("%d scripts on the page", n)
	}
	b.Reset()
	if err := sample().Nodes(&b); err != nil || b.String() != "node1\n" {
		t.Errorf("nodes %q, %v", &b, err)
	}
}

func TestFold(t *testing.T) {
	for hosts, want := range map[string]string{
		"node3 node1 node2": "node[1-3]", "n08 n10 n09": "n[08-10]", "a b1 b3": "a,b[1,3]", "x; rm": "rm", "n1 n01": "n[1,01]", "n1 n1": "n1", "": "", "node[1]": "",
	} {
		if got := Fold(strings.Fields(hosts)); got != want {
			t.Errorf("%s: %s, want %s", hosts, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Read(bytes.NewReader(b))
		if err != nil {
			return
		}
		var out bytes.Buffer
		for _, write := range []func() error{func() error { return d.Text(&out) }, func() error { return d.CSV(&out) }, func() error { return d.JUnit(&out) }, func() error { return d.HTML(&out) }, func() error { return d.OpenMetrics(&out) }} {
			if err := write(); err != nil {
				t.Error(err)
			}
		}
	})
}

// A run says no power to find slow paths where it judged no speed.
func TestTestedSaysWhatWasJudged(t *testing.T) {
	for _, tt := range []struct {
		untimed    int
		want, lack string
	}{
		{0, "a host slower by", "Speeds are judged"},
		{4, "Speeds are judged of 2 of them", "speeds are not"},
		{6, "connections and data are judged here, speeds are not", "a host slower by"},
	} {
		d := &Document{Judged: Judged{Sigma: 0.01, HostPower: 0.05, LinkPower: 0.05, Tested: 6, Pairs: 6, Untimed: tt.untimed}}
		if got := d.tested(); !strings.Contains(got, tt.want) || strings.Contains(got, tt.lack) {
			t.Errorf("%d of 6 untimed: %s", tt.untimed, got)
		}
	}
}

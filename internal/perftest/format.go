package perftest

import (
	"errors"
	"fmt"
	"io"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// Format is --format perftest: the text of the tool that would have run the test, for parsers that know it. What a
// document does not hold is left out: queue pair numbers and addresses.
func Format() report.Format {
	return report.Format{Name: "perftest", Description: "the text of ib_write_bw and the like", Extension: ".perftest", All: func(w io.Writer, docs []*report.Document) error {
		for _, d := range docs {
			if err := Render(w, d); err != nil {
				return err
			}
		}
		return nil
	}}
}

// Render writes a document as perftest would: one table for each test in it, with one header.
func Render(w io.Writer, d *report.Document) error {
	if len(d.Records) == 0 {
		return errors.New("--format perftest: the document has no records")
	}
	var t *Text
	var header Facts
	for i, r := range d.Records {
		f, err := factsOf(d, r)
		if err != nil {
			return err
		}
		if t == nil || !sameTest(header.Plan, f.Plan) {
			if t != nil {
				t.Finish()
			}
			header = f
			header.Plan.Sizes = nil
			for _, other := range d.Records[i:] {
				header.Plan.Sizes = append(header.Plan.Sizes, int(other.SizeBytes))
			}
			v := Invocation{Tool: Tool{Operation: f.Plan.Operation, Kind: f.Plan.Kind}, Host: "server", Plan: header.Plan}
			t = NewText(w, v, Classic, 0)
			t.Header(header)
		}
		t.Measured(r, report.Samples{})
		if t.Err() != nil {
			return t.Err()
		}
	}
	t.Finish()
	return t.Err()
}

func sameTest(a, b control.Plan) bool {
	return a.Operation == b.Operation && a.Kind == b.Kind && a.Transport == b.Transport && a.QPs == b.QPs &&
		a.Bidirectional == b.Bidirectional && (a.Duration > 0) == (b.Duration > 0) && a.PostList == b.PostList
}

// factsOf is what a record and its document tell of the header.
func factsOf(d *report.Document, r report.Record) (Facts, error) {
	p := control.Plan{
		Operation: control.Operation(r.Operation), Kind: control.Kind(r.Kind), Sizes: []int{int(r.SizeBytes)}, QPs: r.QPs,
		Bidirectional: r.Direction == "both" && r.Kind == string(control.Bandwidth), TxDepth: r.TxDepth, CQMod: r.CQMod, PostList: r.PostList, Events: r.Events,
	}
	if err := p.Transport.UnmarshalText([]byte(r.Transport)); err != nil {
		return Facts{}, fmt.Errorf("--format perftest: %w", err)
	}
	if p.Kind != control.Bandwidth && p.Kind != control.Latency {
		return Facts{}, fmt.Errorf("--format perftest: perftest measures no %s", r.Kind)
	}
	if r.DurationTest {
		p.Duration = 1 // only that it was one matters
	}
	f := Facts{
		Device: d.Client.Device, TransportType: "IB", Ethernet: d.Client.LinkLayer == verbs.LinkEthernet.String(),
		Inline: r.InlineBytes, NUMANode: d.Client.NUMANode, Plan: p, Initiates: true,
	}
	if m, err := verbs.ParseMTU(r.MTU); err == nil {
		f.MTU = m
	}
	if d.Client.GID != "" {
		f.GIDIndex = &d.Client.GIDIndex
	}
	return f, nil
}

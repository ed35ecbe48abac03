package perftestcli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/verbs"
)

// Format is --format perftest: the text of the tool that would have run the test, for parsers that know it. What a
// document does not hold is left out: queue pair numbers and addresses.
func Format() render.Format {
	return render.Format{Name: "perftest", Description: "the text of ib_write_bw and the like", Extension: ".perftest", All: func(w io.Writer, docs []*report.Document) error {
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
	var last plan.Spec
	for i, r := range d.Records {
		p, err := specOf(r)
		if err != nil {
			return err
		}
		if t == nil || !sameTest(last, p) {
			if t != nil {
				t.Finish()
			}
			last = p
			for _, other := range d.Records[i+1:] {
				p.Sizes = append(p.Sizes, int(other.SizeBytes))
			}
			f, err := factsOf(d, r, p)
			if err != nil {
				return err
			}
			v := Invocation{Tool: Tool{Operation: p.Operation, Kind: p.Kind}, Host: "server", Plan: p}
			t = NewText(w, v, Classic, 0)
			t.Header(f)
		}
		t.Measured(r, report.Samples{})
		if t.Err() != nil {
			return t.Err()
		}
	}
	t.Finish()
	return t.Err()
}

func sameTest(a, b plan.Spec) bool {
	return a.Operation == b.Operation && a.Kind == b.Kind && a.Transport == b.Transport && a.QPs == b.QPs &&
		a.Bidirectional == b.Bidirectional && (a.Duration > 0) == (b.Duration > 0) && a.PostList == b.PostList
}

// specOf is the test of a record, as far as the record tells.
func specOf(r report.Record) (plan.Spec, error) {
	p := plan.Spec{
		Operation: plan.Operation(r.Operation), Kind: plan.Kind(r.Kind), Sizes: []int{int(r.SizeBytes)}, QPs: r.QPs,
		Bidirectional: r.Direction == "both" && r.Kind == string(plan.Bandwidth), TxDepth: r.TxDepth, CQMod: r.CQMod, PostList: r.PostList, Events: r.Events,
	}
	p.WriteImm, p.SendImm = r.Immediate && p.Operation == plan.Write, r.Immediate && p.Operation == plan.Send
	if r.Atomic == "compare-and-swap" {
		p.AtomicType = verbs.OpCompareSwap
	}
	if err := p.Transport.UnmarshalText([]byte(r.Transport)); err != nil {
		return p, fmt.Errorf("--format perftest: %w", err)
	}
	if p.Kind != plan.Bandwidth && p.Kind != plan.Latency {
		return p, fmt.Errorf("--format perftest: perftest measures no %s", r.Kind)
	}
	if row := plan.RowOf(p.Operation); !row.PerftestHas() {
		return p, fmt.Errorf("--format perftest: perftest has no %s", p.Operation)
	}
	p.Iterations = r.Iterations
	if p.PostList > 1 {
		p.Iterations -= p.Iterations % uint64(p.PostList)
	}
	if r.DurationTest {
		p.Iterations, p.Duration = 0, time.Second // only that it was one matters
	}
	return p, nil
}

// factsOf is what a record and its document tell of the header.
func factsOf(d *report.Document, r report.Record, p plan.Spec) (Facts, error) {
	settled, err := plan.Settle(p, plan.Limits{Dialled: true}, plan.Peer{}, plan.Policy{})
	if err != nil {
		return Facts{}, fmt.Errorf("--format perftest: %w", err)
	}
	f := Facts{
		Device: d.Client.Device, TransportType: "IB", Ethernet: d.Client.LinkLayer == verbs.LinkEthernet.String(),
		Inline: r.InlineBytes, NUMANode: d.Client.NUMANode, Plan: settled,
	}
	if m, err := verbs.ParseMTU(r.MTU); err == nil {
		f.MTU = m
	}
	if d.Client.PostAPI != "" {
		if err := f.PostAPI.UnmarshalText([]byte(d.Client.PostAPI)); err != nil {
			return Facts{}, fmt.Errorf("--format perftest: %w", err)
		}
	}
	if d.Client.GID != "" {
		f.GIDIndex = &d.Client.GIDIndex
	}
	return f, nil
}

package fabric

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// Is tells whether a file holds a [Document], as far as its head says.
func Is(b []byte) bool {
	if !bytes.Contains(b, []byte(Format)) {
		return false
	}
	var head struct {
		Format string `json:"format"`
	}
	return json.Unmarshal(b, &head) == nil && head.Format == Format
}

// Result is the document as one of plain results, for comparisons and trends: a record for each cell that was measured at
// its turn (no re-tests), of which those of one rail and path are the runs of one point. What the cells of one point have in
// common is their plan: the pattern, the rail, the path and how many senders a receiver has.
func (d *Document) Result() *report.Document {
	out := &report.Document{
		Schema: report.SchemaVersion, Tool: "gobw", Version: plain.Text(d.Program), Command: strings.Fields(d.Command), Started: d.Began,
		Finished: d.Began.Add(time.Duration(min(d.Seconds, 1e9) * float64(time.Second))), Complete: d.Stopped == "", Failure: d.Stopped,
	}
	out.Client.Device, out.Client.Software = strings.Join(d.Rails, ", "), d.Software
	if d.Software {
		out.Label = "software device, not a NIC"
	}
	runs := map[string]int{}
	for i := range d.Cells.Len() {
		r := d.Rounds[d.Cells.Round[i]]
		if d.Cells.State[i] != Measured || r.Retest || r.Alone {
			continue
		}
		plan := map[string]string{
			"pattern": d.Pattern, "hosts": fmt.Sprint(len(d.Hosts)), "rail": d.rail(d.Cells.Rail[i]), "path": d.path(d.Cells.From[i], d.Cells.To[i]),
		}
		if r.FanIn > 0 {
			plan["fan_in"] = fmt.Sprint(r.FanIn)
		}
		record := report.Record{
			Operation: d.Test.Operation, Kind: d.Test.Kind, Transport: d.Test.Transport, Direction: "both", SizeBytes: uint64(max(d.Test.SizeBytes, 0)),
			QPs: d.Test.QPs, DurationTest: true, Seconds: d.Test.Seconds, Plan: plan,
		}
		if d.Test.OneWay {
			record.Direction = "out"
		}
		v := d.Cells.Value[i]
		if d.Test.Latency() {
			record.Latency = &report.Latency{Samples: 1, MinNs: v, P50Ns: v, MaxNs: v, MeanNs: v} // the cell's median, and no more
		} else {
			record.Kind = "bandwidth"
			record.Bandwidth.AverageBitsPerS = v
		}
		key := plan["rail"] + "\x00" + plan["path"] + "\x00" + plan["fan_in"]
		runs[key]++
		record.Run = runs[key]
		out.Records = append(out.Records, record)
	}
	if took := d.took(); took < len(d.Hosts) {
		out.Warnings = append(out.Warnings, fmt.Sprintf("%d of %d hosts took part", took, len(d.Hosts)))
	}
	return out
}

// path says how far two hosts are apart, as far as the leaves are known.
func (d *Document) path(from, to int) string {
	a, b := d.Hosts[from].Leaf, d.Hosts[to].Leaf
	switch {
	case a == "" || b == "":
		return "all"
	case a == b:
		return "same leaf"
	}
	return "between leaves"
}

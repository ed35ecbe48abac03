package render

import (
	"io"
	"strconv"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
)

// isNoncontig tells whether all documents are grids of the non-contiguous experiment and nothing else.
func isNoncontig(docs []*report.Document) bool {
	for _, d := range docs {
		if d.Noncontig == nil || len(d.Records) > 0 {
			return false
		}
	}
	return len(docs) > 0
}

// noncontigCSV writes a line per point, strategy and run. The columns are stable: new ones are only added at the end.
func noncontigCSV(w io.Writer, docs []*report.Document) error {
	rows := [][]string{{
		"device", "label", "transport", "cache", "footprint_bytes", "window", "kernel", "shape", "strategy", "layout", "block_bytes", "blocks",
		"stride", "stride_bytes", "size_bytes", "wrs", "sges", "run", "order", "messages", "seconds", "goodput_bits_per_s", "p50_ns", "p99_ns",
		"cpu_ns_per_byte", "peer_cpu_ns_per_byte", "verified",
	}}
	float := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	integer := func(v int64) string { return strconv.FormatInt(v, 10) }
	for _, d := range docs {
		n := d.Noncontig
		for i := range n.Points {
			p := &n.Points[i]
			for j, r := range p.Runs {
				p99 := ""
				if r.P99Ns != nil {
					p99 = float(*r.P99Ns)
				}
				rows = append(rows, []string{
					plain.CSV(n.Setup.Device), plain.CSV(d.Label), plain.CSV(n.Setup.Transport), plain.CSV(n.Setup.Cache), integer(n.Setup.FootprintBytes), strconv.Itoa(n.Setup.Window),
					plain.CSV(n.Setup.Kernel), plain.CSV(p.Shape), plain.CSV(p.Strategy), plain.CSV(p.Layout), integer(p.BlockBytes), integer(p.Blocks), plain.CSV(p.Stride), integer(p.StrideBytes),
					integer(p.SizeBytes), strconv.Itoa(p.WRs), strconv.Itoa(p.SGEs), strconv.Itoa(j + 1), strconv.Itoa(r.Order),
					strconv.FormatUint(r.Messages, 10), float(r.Seconds), float(r.GoodputBitsPerS), float(r.P50Ns), p99,
					float(r.CPUNsPerByte), float(r.PeerCPUNsPerByte), plain.CSV(p.Verified),
				})
			}
		}
	}
	return writeCSV(w, rows)
}

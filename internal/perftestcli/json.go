package perftestcli

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// Document is --out_json: perftest's keys, but valid, with the unit, and with -a a row for every size in "all_results" beside
// the last in "results". With one size there is no second copy: scripts that look for a key line by line find one.
type Document struct {
	TestInfo   map[string]any   `json:"test_info"`
	Results    map[string]any   `json:"results"`
	AllResults []map[string]any `json:"all_results,omitempty"`
}

// NewDocument makes the document's description of the test.
func NewDocument(f Facts, gbits Unit) *Document {
	p, d, row := f.Plan.Spec(), f.Plan.Depths(), f.Plan.Row()
	tx, rx := f.Plan.Shown()
	info := map[string]any{
		"test":      strings.ReplaceAll(strings.Join(append(title(f.Plan), "Test"), "_"), " ", "_"),
		"Dual_port": onOff(p.DualPort), "Device": f.Device, "Number_of_qps": max(p.QPs, 1), "Transport_type": f.TransportType,
		"Connection_type": p.Transport.String(), "Using_SRQ": onOff(p.SRQ), "PCIe_relax_order": onOff(!f.Plan.Strict()), "ibv_wr_API": onOff(f.PostAPI == verbs.PostWR),
		"Mtu": f.MTU.Bytes(), "Link_type": f.linkType(), "rdma_cm_QPs": onOff(p.RDMACM), "Data_ex_method": f.exchange(),
	}
	if p.TOS != nil {
		info["TOS"] = *p.TOS
	}
	put := func(key string, is bool, value any) {
		if is {
			info[key] = value
		}
	}
	put("TX_depth", tx, d.Tx)
	put("RX_depth", rx, d.Rx)
	put("Post_List", p.PostList > 1, p.PostList)
	put("Recv_Post_List", p.RecvList > 1, p.RecvList)
	put("CQ_Moderation", p.Kind == plan.Bandwidth, d.CQMod)
	put("BW_unit", p.Kind == plan.Bandwidth, string(gbits))
	if f.GIDIndex != nil {
		info["GID_index"] = *f.GIDIndex
	}
	if f.SecondGIDIndex != nil {
		info["GID_index2"] = *f.SecondGIDIndex
	}
	put("MultiCast_runs", p.Multicast, "on_UD")
	put("Outstand_reads", row.Responded, f.Outstanding)
	put("Max_inline_data", !row.Responded, f.Inline)
	return &Document{TestInfo: info}
}

// Unit is the unit of bandwidths in the document, which perftest leaves out.
type Unit string

// Units.
const (
	MiBPerSecond  Unit = "MiB/sec"
	GbitPerSecond Unit = "Gb/sec"
)

// Add appends a row.
func (d *Document) Add(p plan.Spec, r Row, cpu CPUColumn) {
	round := func(v float64, digits float64) float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return 0
		}
		return math.Round(v*digits) / digits
	}
	row := map[string]any{"MsgSize": r.Size, "n_iterations": r.Iterations}
	if p.Kind == plan.Bandwidth {
		row["BW_peak"], row["BW_average"], row["MsgRate"] = round(r.Peak, 1e2), round(r.Average, 1e2), round(r.MsgRate, 1e6)
		if r.Average < 0.1 {
			row["BW_peak"], row["BW_average"] = round(r.Peak, 1e6), round(r.Average, 1e6)
		}
	} else {
		row["t_avg"], row["t_min"], row["t_max"], row["t_typical"] = round(r.Avg, 1e2), round(r.Min, 1e2), round(r.Max, 1e2), round(r.Typical, 1e2)
		row["t_stdev"], row["percentile_99"], row["percentile_99.9"] = round(r.Stdev, 1e2), round(r.P99, 1e2), round(r.P999, 1e2)
		if p.Duration > 0 {
			row["tps_average"] = round(r.TPS, 1e2)
		}
	}
	if cpu {
		row["CPU_util"] = round(r.CPU, 1e2)
	}
	d.Results = row
	if p.AllSizes {
		d.AllResults = append(d.AllResults, row)
	}
}

// CPUColumn tells whether rows carry the CPU utilisation.
type CPUColumn bool

// Write replaces the file. It is called after each row, so that an interrupted run leaves what it had.
func (d *Document) Write(path string) error {
	b, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("--out_json: %w", err)
	}
	return nil
}

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

// Document is --out_json: the keys, the order and the digits of perftest 6.29, which parsers hold it to. (Before 6.20 perftest's
// file is no JSON.)
type Document struct {
	v    Invocation
	info []string
}

// NewDocument makes the document's description of the test.
func NewDocument(f Facts, v Invocation) *Document {
	p, d, row := f.Plan.Spec(), f.Plan.Depths(), f.Plan.Row()
	tx, rx := f.Plan.Shown()
	doc := &Document{v: v}
	put := func(key string, is bool, value any) { //nolint:revive // whether perftest has the key in this test
		if is {
			b, _ := json.Marshal(value) // words and numbers
			doc.info = append(doc.info, fmt.Sprintf("%q: %s", key, b))
		}
	}
	put("test", true, strings.ReplaceAll(strings.Join(append(title(f.Plan), "Test"), "_"), " ", "_"))
	put("Test with events", p.Events, fmt.Sprintf("Using_%s_comp%d", f.Device, p.Vector))
	put("MultiCast_runs", p.Multicast, "on_UD")
	put("Dual_port", true, onOff(p.DualPort))
	put("Device", true, f.Device)
	put("Number_of_qps", true, p.QPs)
	put("Transport_type", true, f.TransportType)
	put("Connection_type", true, p.Transport.String())
	put("Using_SRQ", true, onOff(p.SRQ))
	put("PCIe_relax_order", true, onOff(!f.Plan.Strict()))
	put("ibv_wr_API", true, onOff(f.PostAPI == verbs.PostWR))
	put("TX_depth", tx, d.Tx)
	put("Post_List", p.PostList > 1, p.PostList)
	put("Recv_Post_List", p.RecvList > 1, p.RecvList)
	put("RX_depth", rx, d.Rx)
	put("CQ_Moderation", p.Kind == plan.Bandwidth, d.CQMod)
	put("Mtu", true, f.MTU.Bytes())
	put("Link_type", true, f.linkType())
	put("GID_index", f.GIDIndex != nil, f.GIDIndex)
	put("GID_index2", f.SecondGIDIndex != nil, f.SecondGIDIndex)
	put("Outstand_reads", row.Responded, f.Outstanding)
	put("Max_inline_data", !row.Responded, f.Inline)
	put("rdma_cm_QPs", true, onOff(p.RDMACM))
	put("Use_ROCm_memory", v.Style() == Modern, "OFF")
	put("Use_MUSA_memory", v.Style() == Modern, "OFF")
	put("Data_ex_method", true, f.exchange())
	put("TOS", p.TOS != nil, p.TOS)
	return doc
}

// results are the lines of a row.
func (d *Document) results(r Row) []string {
	var out []string
	put := func(key string, digits int, v float64) {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			v = 0
		}
		out = append(out, fmt.Sprintf("%q: %.*f", key, digits, v))
	}
	latency, byTime := d.v.Plan.Kind == plan.Latency, d.v.Plan.Duration > 0
	switch d.v.Output {
	case "bandwidth":
		put("bw_avg", 6, r.Average)
		return out
	case "message_rate":
		put("msgRate_avg", 6, r.MsgRate)
		return out
	case "latency":
		put(map[bool]string{true: "t_avg", false: "avg_lat"}[byTime], 6, r.Avg)
		return out
	}
	out = append(out, fmt.Sprintf("\"MsgSize\": %d", r.Size), fmt.Sprintf("\"n_iterations\": %d", r.Iterations))
	switch {
	case !latency:
		digits := 2
		if d.v.Gbits && r.Average < 0.1 {
			digits = 6
		}
		put("BW_peak", digits, r.Peak)
		put("BW_average", digits, r.Average)
		put("MsgRate", 6, r.MsgRate)
	case byTime:
		put("t_avg", 2, r.Avg)
		put("tps_average", 2, r.TPS)
	default:
		for _, f := range []struct {
			key string
			v   float64
		}{
			{"t_min", r.Min},
			{"t_max", r.Max},
			{"t_typical", r.Typical},
			{"t_avg", r.Avg},
			{"t_stdev", r.Stdev},
			{"percentile_99", r.P99},
			{"percentile_99.9", r.P999},
		} {
			put(f.key, 2, f.v)
		}
	}
	if d.v.CPUUtil {
		put("CPU_util", 2, r.CPU)
	}
	return out
}

// Write replaces the file. It is called after each row, so that the last one is left, as by perftest.
func (d *Document) Write(path string, r Row) error {
	text := fmt.Sprintf("{\n\"test_info\": {\n%s\n},\n\"results\": {\n%s\n}\n}\n", strings.Join(d.info, ",\n"), strings.Join(d.results(r), ",\n"))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return fmt.Errorf("--out_json: %w", err)
	}
	return nil
}

package text

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/perftest/flags"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// run is one end of a captured run.
type run struct {
	name, side string
	modern     bool
	tool       flags.Tool
	args       []string
}

// capturedRuns reads the commands of the captured runs.
func capturedRuns(t *testing.T) []run {
	t.Helper()
	f, err := os.Open("testdata/commands.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var runs []run
	for s := bufio.NewScanner(f); s.Scan(); {
		head, command, _ := strings.Cut(s.Text(), ": ")
		command, _, _ = strings.Cut(command, "   (")
		words := strings.Fields(command)
		r := run{
			name: strings.Fields(head)[0], side: strings.Fields(head)[1], args: words[1:],
			modern: strings.HasPrefix(words[0], "perftest-"),
		}
		tool, ok := flags.ToolNamed(words[0])
		if !ok {
			t.Fatalf("%q is no tool", words[0])
		}
		r.tool = tool
		runs = append(runs, r)
	}
	return runs
}

// output is a captured text taken apart: what only the device and the peer know, and the rows.
type output struct {
	text  string // without stderr
	facts Facts
	rows  []Row
	exit  string
}

// dissect reads a captured text. It understands just enough to render the same again.
func dissect(t *testing.T, b []byte, kind plan.Kind, duration bool) output {
	t.Helper()
	out := output{facts: Facts{NUMANode: -1, Port: verbs.PortInfo{LinkLayer: verbs.LinkEthernet}}}
	// stderr in the middle of a row
	text := regexp.MustCompile(`Correlation coefficient[^\n]*\n`).ReplaceAllString(string(b), "")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	out.exit = lines[len(lines)-1]
	lines = lines[:len(lines)-1]
	var kept []string
	var last *control.Address
	for _, l := range lines {
		switch {
		case strings.HasPrefix(l, "Device not recognized"), strings.HasPrefix(l, "Conflicting CPU"),
			strings.HasPrefix(l, "Correlation"):
			continue
		}
		kept = append(kept, l)
		label, value, found := strings.Cut(l, ":")
		words := strings.Fields(l)
		value = strings.TrimSpace(value)
		number := func(s string) int {
			n, err := strconv.ParseInt(s, 0, 64)
			if err != nil {
				t.Fatalf("%q: %v", l, err)
			}
			return int(n)
		}
		switch {
		case strings.Contains(l, "Device         :"):
			out.facts.Device.Name = words[len(words)-1]
		case strings.Contains(l, "Transport type :"):
			out.facts.Device.TransportType = words[len(words)-1]
		case found && strings.TrimSpace(label) == "Mtu":
			m, err := verbs.ParseMTU(number(strings.TrimSuffix(value, "[B]")))
			if err != nil {
				t.Fatal(err)
			}
			out.facts.MTU = m
		case strings.TrimSpace(label) == "Link type":
			if value != "Ethernet" {
				out.facts.Port.LinkLayer = verbs.LinkInfiniBand
			}
		case strings.TrimSpace(label) == "GID index":
			out.facts.GID = &verbs.GIDEntry{Index: number(value)}
		case strings.TrimSpace(label) == "Max inline data":
			out.facts.Inline = number(strings.TrimSuffix(value, "[B]"))
		case strings.TrimSpace(label) == "Outstand reads":
			out.facts.Outstanding = number(value)
		case strings.TrimSpace(label) == "NUMA node":
			out.facts.NUMANode = number(value)
		case len(words) > 2 && words[1] == "address:":
			a := control.Address{}
			for i := 2; i+1 < len(words); i += 2 {
				v, err := strconv.ParseUint(strings.TrimPrefix(words[i+1], "0x"), 16, 64)
				if err != nil {
					t.Fatalf("%q: %v", l, err)
				}
				switch words[i] {
				case "LID":
					a.LID = uint16(v)
				case "QPN":
					a.QPN = uint32(v)
				case "PSN":
					a.PSN = uint32(v)
				case "OUT":
					a.Outstanding = int(v)
				case "RKey":
					a.RKey = uint32(v)
				case "VAddr":
					a.Addr = v
				}
			}
			list := &out.facts.Local
			if words[0] == "remote" {
				list = &out.facts.Remote
			}
			*list = append(*list, a)
			last = &(*list)[len(*list)-1]
		case len(words) == 2 && words[0] == "GID:":
			last.HasGID = true
			for i, s := range strings.Split(words[1], ":") {
				n, err := strconv.Atoi(s)
				if err != nil {
					t.Fatalf("%q: %v", l, err)
				}
				last.GID[i] = byte(n)
			}
		case len(words) > 3 && words[0][0] >= '0' && words[0][0] <= '9':
			out.rows = append(out.rows, parseRow(t, words, kind, duration))
		}
	}
	out.text = strings.Join(kept, "\n") + "\n"
	return out
}

func parseRow(t *testing.T, words []string, kind plan.Kind, duration bool) Row {
	t.Helper()
	var r Row
	fields := []*float64{&r.Peak, &r.Average, &r.MsgRate}
	if kind == plan.Latency {
		fields = []*float64{&r.Min, &r.Max, &r.Typical, &r.Avg, &r.Stdev, &r.P99, &r.P999}
		if duration {
			fields = []*float64{&r.Avg, &r.TPS}
		}
	}
	var err error
	if r.Size, err = strconv.ParseUint(words[0], 10, 64); err != nil {
		t.Fatal(err)
	}
	if r.Iterations, err = strconv.ParseUint(words[1], 10, 64); err != nil {
		t.Fatal(err)
	}
	for i, f := range fields {
		if *f, err = strconv.ParseFloat(words[2+i], 64); err != nil {
			t.Fatalf("%q: %v", words, err)
		}
	}
	if len(words) > 2+len(fields) {
		r.CPU, _ = strconv.ParseFloat(words[2+len(fields)], 64)
	}
	return r
}

// TestTextAgainstCaptures renders every captured run that ended well from its command line and its
// numbers, and compares the whole text.
func TestTextAgainstCaptures(t *testing.T) {
	compared := 0
	for _, r := range capturedRuns(t) {
		t.Run(r.name+"/"+r.side, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", "stdout", r.name+"."+r.side+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			if r.modern {
				r.args = append([]string{"--perftest-version", "6.29"}, r.args...)
			}
			v, err := flags.Parse(r.tool, r.args)
			if strings.Contains(string(b), "Couldn't read") || strings.Contains(string(b), "exit=1\n") ||
				!strings.Contains(string(b), "exit=0\n") || strings.Contains(string(b), "-nan") {
				t.Skip("refused here, not run to its end there, or perftest printed nan")
			}
			if err != nil {
				t.Fatal(err)
			}
			if v.Server() != (r.side == "server") {
				t.Errorf("server: %v", v.Server())
			}
			want := dissect(t, b, r.tool.Kind, v.Plan.Duration > 0)
			if diff := cmp.Diff(strings.Split(render(t, v, want), "\n"), strings.Split(want.text, "\n")); diff != "" {
				t.Errorf("text (-got +want):\n%s", diff)
			}
			compared++
		})
	}
	if compared < 100 {
		t.Errorf("%d texts compared, want at least 100", compared)
	}
}

// render is the text of a test with the facts and the numbers of a recorded one.
func render(t *testing.T, v flags.Invocation, want output) string {
	t.Helper()
	f := want.facts
	if v.Plan.Transport == verbs.UD {
		if err := v.Fit(verbs.DeviceInfo{}, verbs.PortInfo{ActiveMTU: f.MTU}); err != nil {
			t.Fatal(err)
		}
	}
	settledPlan, err := plan.Settle(v.Plan, plan.Limits{Dialled: !v.Server()}, plan.Peer{}, plan.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	f.Plan = settledPlan
	var got bytes.Buffer
	text := NewText(&got, v, 0)
	text.printf("%s", v.Remarks)
	text.Begin(verbs.DeviceInfo{})
	text.Header(f)
	if v.Unsorted || v.Histogram {
		_, rest, _ := strings.Cut(want.text, "#, usec\n")
		list, _, _ := strings.Cut(rest, flags.Dashes)
		text.printf("#, usec\n%s%s", list, flags.Dashes)
		text.heading()
		want.rows = want.rows[len(want.rows)-1:]
	}
	for i, row := range want.rows {
		if v.ReportBoth && i > 0 {
			text.printf("%s\n %s results: \n%s", flags.Dashes, []string{"Local", "Remote"}[i-1], flags.Dashes)
			text.heading()
		}
		text.row(row)
	}
	text.Finish()
	return got.String()
}

// deviations are the reviewed differences between stock's text and ours, in testdata/text.
var deviations = []struct{ stock, ours, why string }{
	{
		`2> Device not recognized to implement inline feature. Disabling it`, ``,
		"stock has a list of devices whose inline data it knows; ours asks the device",
	},
	{` Max inline data : 0\[B\]`, ` Max inline data : \d+\[B\]`, "what the device has, or what was asked for"},
	{`3> "Max_inline_data": 0,`, `3> "Max_inline_data": 220,`, "the same, in JSON"},
	{
		``, `2>  Note: U[CD] may lose messages, and nobody counts them: the figures are of what left the sender`,
		"no figure is taken for what arrived",
	},
	{
		``, `2>  Warning: a warm-up of 128 messages has no effect at this end: perftest at the other does not wait for it`,
		"nothing is swallowed in silence",
	},
	{``, `2> ib_\w+: .*`, "behind stock's lines the fault in our words, with what to do"},
}

// TestTextOfStock reads what scripts/perftest-text recorded of two ends of stock perftest beside two of
// ours: our text of the recorded numbers is still that, byte for byte, and where it is not stock's the
// difference is among the reviewed ones.
func TestTextOfStock(t *testing.T) {
	used := make([]bool, len(deviations))
	for _, version := range []string{"4.5", "6.29"} {
		b, err := os.ReadFile("testdata/text/" + version + ".diff")
		if err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(strings.TrimPrefix(string(b), "== "), "\n== ") {
			head, text, _ := strings.Cut(strings.TrimSuffix(block, "\n"), "\n")
			t.Run(version+"/"+head, func(t *testing.T) {
				var ours []string // standard output and the code
				for line := range strings.SplitSeq(text, "\n") {
					kind, said := line[0], line[1:]
					if kind != ' ' && !reviewed(used, kind, said) {
						t.Errorf("not reviewed: %s", line)
					}
					if kind != '-' && !strings.HasPrefix(said, "2> ") && !strings.HasPrefix(said, "3> ") {
						ours = append(ours, said)
					}
				}
				side, line, _ := strings.Cut(head, ": ")
				words := strings.Fields(line)
				if version == "6.29" {
					words = append(words, "--perftest-version", "6.29")
				}
				if side == "client" && !strings.HasSuffix(line, "127.0.0.1") {
					words = append(words, "host")
				}
				tool, _ := flags.ToolNamed(words[0])
				v, err := flags.Parse(tool, words[1:])
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(text, "-nan") { // stock's deviation of times in cycles
					return
				}
				want := dissect(t, []byte(strings.Join(ours, "\n")+"\n"), tool.Kind, v.Plan.Duration > 0)
				if want.facts.Device.Name == "" {
					return // it ended before there was a test, or printed a bare number alone
				}
				if diff := cmp.Diff(strings.Split(render(t, v, want), "\n"), strings.Split(want.text, "\n")); diff != "" {
					t.Errorf("text (-got +want):\n%s", diff)
				}
			})
		}
	}
	for i, is := range used {
		if !is {
			t.Errorf("no text differs by %q, %q", deviations[i].stock, deviations[i].ours)
		}
	}
}

// reviewed tells whether a line that one of the two prints alone is among the deviations.
func reviewed(used []bool, kind byte, line string) bool {
	for i, d := range deviations {
		pattern := map[byte]string{'-': d.stock, '+': d.ours}[kind]
		if pattern != "" && regexp.MustCompile("^("+pattern+")$").MatchString(line) {
			used[i] = true
			return true
		}
	}
	return false
}

func mustParse(t *testing.T, line string) flags.Invocation {
	t.Helper()
	words := strings.Fields(line)
	tool, ok := flags.ToolNamed(words[0])
	if !ok {
		t.Fatalf("%q is no tool", words[0])
	}
	v, err := flags.Parse(tool, words[1:])
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestMeasuredRows(t *testing.T) {
	samples := report.Samples{Raw: []int64{1000, 5000, 2000, 3000, 100000}, N: 5, Scale: 0.5}
	latency := report.Record{
		Plan:       report.Plan{Kind: "latency", SizeBytes: 2},
		Iterations: 5, MessagesPerS: 1e5,
		Latency: &report.Latency{Samples: 5, MinNs: 500, P50Ns: 1500, MaxNs: 50000, MeanNs: 11100, StdevNs: 19462},
	}
	bandwidth := report.Record{
		Plan:       report.Plan{Kind: "bandwidth", SizeBytes: 4096},
		Iterations: 200, MessagesPerS: 1e6,
		Bandwidth: report.Bandwidth{AverageBitsPerS: 8e9, PeakBitsPerS: 9e9},
	}
	both := bandwidth
	both.Local, both.Remote = &report.Bandwidth{AverageBitsPerS: 3e9}, &report.Bandwidth{AverageBitsPerS: 5e9}
	for _, tt := range []struct {
		line string
		r    report.Record
		want string
	}{
		{
			"ib_send_lat", latency,
			" 2       5          0.50           50.00        1.50     \t       11.10       \t19.46  \t\t50.00   \t\t50.00  \n",
		},
		{"ib_send_lat -D 4", latency, " 2             5            11.10          100000.00\n"},
		{
			"ib_send_lat -C", latency, " 2       5          1000.00        100000.00      3000.00  \t       22200.00     " +
				"\t38924.00\t\t100000.00 \t\t100000.00\n",
		},
		{"ib_send_lat --output latency", latency, "11.100000\n"},
		{"ib_send_lat -D 4 --output latency", latency, "11.100000\n"},
		{"ib_write_bw", bandwidth, " 4096       200              1072.88            953.67 \t\t   1.000000\n"},
		{"ib_write_bw --report_gbits", bandwidth, " 4096       200              9.00               8.00   \t\t   1.000000\n"},
		{"ib_write_bw --output bandwidth", bandwidth, "953.674316\n"},
		{"ib_write_bw --output message_rate", bandwidth, "1.000000\n"},
		{"ib_write_bw -b", both, " 4096       100              1072.88            953.67 \t\t   1.000000\n"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			var got bytes.Buffer
			NewText(&got, mustParse(t, tt.line), 2).Measured(tt.r, samples)
			if got.String() != tt.want {
				t.Errorf("\n got %q\nwant %q", got.String(), tt.want)
			}
		})
	}
	t.Run("report-both", func(t *testing.T) {
		var got bytes.Buffer
		NewText(&got, mustParse(t, "ib_write_bw -b --report-both --report_gbits"), 2).Measured(both, samples)
		for _, want := range []string{
			" Local results: \n", "               3.00   ", " Remote results: \n", "               5.00   ",
		} {
			if !strings.Contains(got.String(), want) {
				t.Errorf("%q is missing in\n%s", want, got.String())
			}
		}
	})
	t.Run("samples", func(t *testing.T) {
		for flag, want := range map[string]string{
			"-U": "#, usec\n1, 0.5\n2, 2.5\n3, 1\n4, 1.5\n5, 50\n---", "-U -n 5": "#, usec\n1, 2.5\n2, 1\n3, 1.5\n4, 50\n---",
			"-H": "#, usec\n1, 0.5\n2, 1\n3, 1.5\n---", "-H -n 5": "#, usec\n1, 1\n2, 1.5\n---",
			"-U -H": "#, usec\n1, 0.5\n2, 2.5\n3, 1\n4, 1.5\n5, 50\n#, usec\n1, 0.5\n2, 1\n3, 1.5\n---",
		} {
			var got bytes.Buffer
			NewText(&got, mustParse(t, "ib_send_lat "+flag), 2).Measured(latency, samples)
			if !strings.HasPrefix(got.String(), want) {
				t.Errorf("%s: got %q, want %q first", flag, got.String(), want)
			}
		}
	})
}

// TestDocument holds the file to perftest 6.29's, line by line.
func TestDocument(t *testing.T) {
	const info = "{\n\"test_info\": {\n\"test\": \"RDMA_Write_BW_Test\",\n\"Dual_port\": \"OFF\",\n\"Device\": " +
		"\"rxe0\",\n\"Number_of_qps\": 1,\n\"Transport_type\": \"IB\",\n" +
		"\"Connection_type\": \"RC\",\n\"Using_SRQ\": \"OFF\",\n\"PCIe_relax_order\": \"ON\",\n\"ibv_wr_API\": " +
		"\"OFF\",\n\"CQ_Moderation\": 100,\n\"Mtu\": 1024,\n" +
		"\"Link_type\": \"Ethernet\",\n\"GID_index\": 1,\n\"Max_inline_data\": 0,\n\"rdma_cm_QPs\": \"OFF\",\n"
	const memory = "\"Use_ROCm_memory\": \"OFF\",\n\"Use_MUSA_memory\": \"OFF\",\n"
	const results = "\"Data_ex_method\": \"Ethernet\"\n},\n\"results\": {\n"
	const row = "\"MsgSize\": 4096,\n\"n_iterations\": 200,\n"
	path := filepath.Join(t.TempDir(), "out.json")
	for _, tt := range []struct {
		line string
		row  Row
		want string
	}{
		{
			"--perftest-version 6.29",
			Row{Peak: 11.171, Average: 10.649, MsgRate: 0.002726},
			info + memory + results + row + "\"BW_peak\": 11.17,\n\"BW_average\": 10.65,\n\"MsgRate\": 0.002726\n}\n}\n",
		},
		{
			"",
			Row{Average: 0.01},
			info + results + row + "\"BW_peak\": 0.00,\n\"BW_average\": 0.01,\n\"MsgRate\": 0.000000\n}\n}\n",
		},
		{
			"--report_gbits",
			Row{Average: 0.01},
			info + results + row + "\"BW_peak\": 0.000000,\n\"BW_average\": 0.010000,\n\"MsgRate\": 0.000000\n}\n}\n",
		},
		{"--output bandwidth", Row{Average: 3}, info + results + "\"bw_avg\": 3.000000\n}\n}\n"},
		{
			"-D 4 --cpu_util", Row{Average: 3, MsgRate: 1, CPU: 7.125}, info + results + row +
				"\"BW_peak\": 0.00,\n\"BW_average\": 3.00,\n\"MsgRate\": 1.000000,\n\"CPU_util\": 7.12\n}\n}\n",
		},
	} {
		v := mustParse(t, "ib_write_bw -s 4096 "+tt.line)
		settled := settled(t, v.Plan)
		d := NewDocument(Facts{
			Device: verbs.DeviceInfo{Name: "rxe0"}, Port: verbs.PortInfo{LinkLayer: verbs.LinkEthernet}, MTU: verbs.MTU1024,
			GID: &verbs.GIDEntry{Index: 1}, Plan: settled,
		}, v)
		tt.row.Size, tt.row.Iterations = 4096, 200
		for range 2 { // the last row is left
			if err := d.Write(path, tt.row); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if tx := strings.Replace(string(got), "\"TX_depth\": 128,\n", "", 1); tx != tt.want {
			t.Errorf("%s: (-got +want)\n%s", tt.line, cmp.Diff(strings.Split(tx, "\n"), strings.Split(tt.want, "\n")))
		}
		if !json.Valid(got) {
			t.Errorf("no JSON: %s", got)
		}
	}
	info2, err := os.Stat(path)
	if err != nil || info2.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info2.Mode(), err)
	}
	v := mustParse(t, "ib_send_lat")
	want := strings.Split(
		`"t_min": 1.00|"t_max": 9.00|"t_typical": 2.00|"t_avg": 2.50|"t_stdev": 0.10|"percentile_99": 8.00|"percentile_99.9": 8.50`, "|")
	r := Row{Min: 1, Max: 9, Typical: 2, Avg: 2.5, Stdev: 0.1, P99: 8, P999: 8.5}
	if got := fill("results", columnsOf(&v, r)); !strings.HasSuffix(got, "\n"+strings.Join(want, ",\n")+"\n}\n}\n") {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestHexadecimal(t *testing.T) {
	for _, tt := range []struct {
		v     uint64
		width int
		want  string
	}{
		{0, 4, "0000"},
		{0x11, 6, "0x0011"},
		{0x4097c, 6, "0x4097c"},
		{0x80, 4, "0x80"},
		{0x55da527c6000, 16, "0x0055da527c6000"},
	} {
		if got := hexadecimal(tt.v, tt.width); got != tt.want {
			t.Errorf("hexadecimal(%#x, %d) = %q, want %q", tt.v, tt.width, got, tt.want)
		}
	}
}

func settled(t *testing.T, p plan.Spec) *plan.Settled {
	t.Helper()
	s, err := plan.Settle(p, plan.Limits{Dialled: true}, plan.Peer{}, plan.Policy{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

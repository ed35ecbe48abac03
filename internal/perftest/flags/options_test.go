package flags

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/options.md")

// refusals are what stock perftest takes and we do not, each because it would change what is measured. Options that the
// table of flags refuses by name are not repeated here.
var refusals = map[string]string{
	"-c XRC":                              "XRC is not there",
	"-c DC":                               "DC is not there",
	"-c SRD":                              "SRD is not there",
	"-s 64k":                              "the suffixes are K and M", // stock measures 64 bytes
	"--rate_limit=1 --rate_limit_type=PP": "packet pacing",            // a NIC's, of which ours would be an imitation
}

// TestStockTakes holds our parser against stock's: what a tool of either version takes, ours takes, or refuses by name
// with a sentence. The facts come from the programs themselves: see testdata/accepted.tsv.
func TestStockTakes(t *testing.T) {
	text, err := os.ReadFile("testdata/accepted.tsv")
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]string{}
	for _, f := range flags(&Invocation{}) {
		if f.set == nil && f.elsewhere == Refused {
			refused["--"+f.long] = f.why
			if f.short != 0 {
				refused["-"+string(f.short)] = f.why
			}
		}
	}
	taken := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(columns) != 3 || len(columns[1]) != len(Tools()) || len(columns[2]) != len(Tools()) {
			t.Fatalf("accepted.tsv: %q", line)
		}
		args := strings.Fields(columns[0])
		for i, tool := range Tools() {
			if columns[1][i] == '-' && columns[2][i] == '-' {
				continue
			}
			name, _, _ := strings.Cut(args[0], "=")
			given := args
			if columns[1][i] == '-' { // in the newer version alone
				given = append([]string{"--perftest-version=6.29"}, args...)
			}
			_, err := Parse(tool, given)
			why, isRefused := refused[name]
			if !isRefused {
				why, isRefused = refusals[columns[0]]
			}
			switch {
			case err == nil:
				taken++
			case isRefused && strings.Contains(err.Error(), why):
			default:
				t.Errorf("%s %s: stock takes it, ours says: %v", tool.Name, columns[0], err)
			}
		}
	}
	if taken < 600 {
		t.Errorf("%d command lines taken: are the facts all there?", taken)
	}
}

// samples are values for options that take one, with what else they need. The first that a tool takes counts.
var samples = map[string][]string{
	"atomic_type": {"=CMP_AND_SWAP"}, "connection": {"=UC", "=UD"}, "ib-dev": {"=x"}, "duration": {"=4"},
	"margin":  {"=1 -D 8"},
	"ib-port": {"=2"}, "inline_size": {"=64"}, "post_list": {"=4"}, "mtu": {"=1024"}, "iters": {"=500"}, "outs": {"=4"},
	"port": {"=7"},
	"qp":   {"=4"}, "cq-mod": {"=10"}, "rx-depth": {"=300", "=300 --write_with_imm"}, "size": {"=4K", "=8"}, "sl": {"=1"},
	"tx-depth": {"=64"},
	"tos":      {"=8 -R"}, "qp-timeout": {"=16"}, "limit_bw": {"=1"}, "report-counters": {"=counters/a"},
	"gid-index": {"=1"},
	"vector":    {"=1 -e", "=1 -e --write_with_imm"}, "limit_msgrate": {"=1"}, "out_json_file": {"=x"},
	"output":         {"=bandwidth", "=latency"},
	"recv_post_list": {"=4", "=4 --write_with_imm"}, "latency_gap": {"=10"}, "pin_cores": {"=0"}, "numa_node": {"=0"},
	"wait_destroy": {"=1"}, "pkey_index": {"=1"},
	"retry_count": {"=3"}, "tclass": {"=8"}, "flow_label": {"=1"}, "dlid": {"=3"},
	"burst_size": {"=8 --rate_limit=10 --rate_limit_type=SW", "=8 --rate_limit=10"}, "source_ip": {"=127.0.0.1"},
	"bind_source_ip": {"=127.0.0.1"},
	"rate_limit":     {"=10"}, "rate_units": {"=M --rate_limit=10"}, "rate_limit_type": {
		"=SW --rate_limit=10", "=HW --rate_limit=10",
	}, "perftest-version": {"=6.29"}, "peer-timeout": {"=60"},
	"force-link": {"=IB"}, "MGID": {"=239.1.2.3 -g"}, "cpu_util": {" -D 4"}, "report-both": {" -b"},
	"events": {"", " --write_with_imm"},
}

// alone are options that have a single value in some tools, whose default it is: RC, and an atomic's 8 bytes.
var alone = []string{"connection", "size"}

// proofs are the tests that show what becomes of a field of [Invocation] that is no field of the plan; those of the
// plan are walked by TestEveryFieldActs of internal/bench.
var proofs = map[string]string{
	"Help":    "../../cli/perftest_test.go TestPerftestErrors",
	"Version": "../../cli/perftest_test.go TestPerftestErrors", "Device": "../../cli/perftest_test.go TestPerftestErrors",
	"TCPPort": "../../cli/perftest_test.go TestPerftestErrors",
	"Gbits":   "../text/text_test.go TestMeasuredRows", "ReportBoth": "../text/text_test.go TestMeasuredRows",
	"Cycles":    "../text/text_test.go TestMeasuredRows",
	"Histogram": "../text/text_test.go TestMeasuredRows", "Unsorted": "../text/text_test.go TestMeasuredRows",
	"Output":      "../text/text_test.go TestMeasuredRows",
	"JSONFile":    "../../cli/perftest_test.go TestPerftestLimits",
	"LimitBW":     "../../cli/perftest_test.go TestPerftestLimits",
	"LimitRate":   "../../cli/perftest_test.go TestPerftestLimits",
	"Counters":    "../../cli/perftest_test.go TestPerftestAround",
	"WaitDestroy": "../run/options_test.go TestOptionsOfThisEnd",
	"MTUBytes":    "parse_test.go TestFit", "link": "parse_test.go TestForceLink",
	"IBPort": "../run/options_test.go TestOptionsOfThisEnd", "GIDIndex": "../run/options_test.go TestOptionsOfThisEnd",
	"Cores": "../run/options_test.go TestOptionsOfThisEnd", "NUMANode": "../run/options_test.go TestOptionsOfThisEnd",
	"NoNUMA": "../run/options_test.go TestOptionsOfThisEnd", "DLID": "../run/options_test.go TestOptionsOfThisEnd",
	"IPv6GID": "../run/options_test.go TestOptionsOfThisEnd", "Network": "../run/options_test.go TestOptionsOfThisEnd",
	"Source": "../run/options_test.go TestOptionsOfThisEnd", "ControlCM": "../run/options_test.go TestOptionsOfThisEnd",
	"PerftestVersion": "../run/options_test.go TestOptionsOfThisEnd",
	"PeerTimeout":     "../run/options_test.go TestOptionsOfThisEnd",
}

// proof names the test that shows the effect of the first of the fields that is proved, and
// checks that this test uses the option.
func (f perftestFlag) proof(t *testing.T, fields []string) string {
	t.Helper()
	for _, name := range fields {
		if strings.HasPrefix(name, "plan ") {
			return "`TestEveryFieldActs`"
		}
		file, test, named := strings.Cut(proofs[name], " ")
		if !named {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
			continue
		}
		_, body, found := strings.Cut(string(text), "\nfunc "+test+"(")
		body, _, _ = strings.Cut(body, "\n}\n")
		uses := strings.Contains(body, "--"+f.long) ||
			f.short != 0 && regexp.MustCompile(`[" ]-`+string(f.short)+`\b`).MatchString(body)
		if found && uses {
			return "`" + test + "`"
		}
		t.Errorf("--%s changes %s, and %s of %s does not use it", f.long, name, test, file)
	}
	return ""
}

// changes names the fields that an option sets in a tool, found by parsing with it and without.
func changes(tool Tool, f perftestFlag) ([]string, error) {
	values := samples[f.long]
	if values == nil {
		values = []string{""}
	}
	var failed error
	for _, value := range values {
		own, others, _ := strings.Cut(value, " ")
		rest := strings.Fields(others)
		with, err := Parse(tool, append([]string{"--" + f.long + own}, rest...))
		if err != nil {
			failed = err
			continue
		}
		without, err := Parse(tool, rest)
		if err != nil {
			failed = err
			continue
		}
		if f.long == "help" || f.long == "version" { // ends the parsing
			return []string{map[string]string{"help": "Help", "version": "Version"}[f.long]}, nil
		}
		var fields []string
		a, b := reflect.ValueOf(with), reflect.ValueOf(without)
		for i := range a.NumField() {
			switch name := a.Type().Field(i).Name; {
			case name == "Plan":
				fields = append(fields, differences(a.Field(i), b.Field(i))...)
			case name != "Warnings" && !same(a.Field(i), b.Field(i)):
				fields = append(fields, name)
			}
		}
		if len(fields) > 0 {
			return fields, nil
		}
	}
	return nil, failed
}

// differences names the fields in which two plans differ.
func differences(a, b reflect.Value) []string {
	var fields []string
	for i := range a.NumField() {
		if !same(a.Field(i), b.Field(i)) {
			fields = append(fields, "plan "+a.Type().Field(i).Name)
		}
	}
	return fields
}

func same(a, b reflect.Value) bool { return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b) }

// TestEveryOptionActs has every option that acts in a tool change what that tool runs or prints, so that none is
// swallowed, and holds testdata/options.md to it.
func TestEveryOptionActs(t *testing.T) {
	var table strings.Builder
	counts := map[Disposition]int{}
	table.WriteString("| option | acts in | by | shown by | ignored in | refused in | why " +
		"|\n|---|---|---|---|---|---|---|\n")
	for _, f := range flags(&Invocation{}) {
		if f.exact && f.set != nil && !slices.Contains([]string{"perftest-version", "peer-timeout"}, f.long) {
			continue // another spelling of an option
		}
		in := map[Disposition][]string{}
		var by []string
		for _, tool := range Tools() {
			d := f.in(tool)
			in[d] = append(in[d], strings.TrimPrefix(tool.Name, "ib_"))
			counts[d]++
			if d != Acts {
				continue
			}
			fields, err := changes(tool, f)
			if !slices.Contains(alone, f.long) && (err != nil || len(fields) == 0) {
				t.Errorf("%s --%s acts, but changes nothing: %v", tool.Name, f.long, err)
			}
			for _, name := range fields {
				if !slices.Contains(by, name) {
					by = append(by, name)
				}
			}
		}
		shown := ""
		if len(in[Acts]) > 0 {
			if shown = f.proof(t, by); shown == "" {
				t.Errorf("--%s acts by %v, and no test shows it", f.long, by)
			}
		}
		fmt.Fprintln(&table, f.row(in, by, shown))
	}
	fmt.Fprintf(&table, "\nOf the %d pairs of option and tool, %d act, %d are ignored as in stock, %d are refused.\n",
		counts[Acts]+counts[Ignored]+counts[Refused], counts[Acts], counts[Ignored], counts[Refused])
	compareTable(t, table.String())
}

// row is an option's line in the manual.
func (f perftestFlag) row(in map[Disposition][]string, by []string, shown string) string {
	why := f.why
	if why == "" && len(in[Ignored]) > 0 {
		why = "as in perftest"
	}
	if f.only == "1" {
		why += "; more than 1 is refused there"
	}
	name := "`--" + f.long + "`"
	if f.short != 0 {
		name = "`-" + string(f.short) + "`, " + name
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s |", name, tools(in[Acts]), strings.Join(by, ", "), shown,
		tools(in[Ignored]), tools(in[Refused]), why)
}

func compareTable(t *testing.T, table string) {
	t.Helper()
	const path = "testdata/options.md"
	if *update {
		if err := os.WriteFile(path, []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := os.ReadFile(path); err != nil || string(old) != table {
		t.Errorf("%s is not what the code says: run this test with -update; %v", path, err)
	}
}

// tools shortens a list of all tools, or of all of one kind.
func tools(names []string) string {
	switch strings.Join(names, " ") {
	case "":
		return ""
	case "write_bw read_bw send_bw atomic_bw write_lat read_lat send_lat atomic_lat":
		return "all"
	case "write_bw read_bw send_bw atomic_bw":
		return "`*_bw`"
	case "write_lat read_lat send_lat atomic_lat":
		return "`*_lat`"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

// differs are the command lines whose first line of error is not stock's, and why.
var differs = map[string]string{
	"ib_write_bw -c DC":               "stock goes on and fails where the device has none",
	"ib_write_bw --run_infinitely -a": "stock ignores -a",
	"ib_write_bw -n 1":                "one bound for both versions", "ib_write_bw -I 5000": "one bound for both versions",
	"ib_write_bw -I 2000":   "one bound for both versions",
	"ib_write_bw --use-srq": "one sentence for both versions", "ib_write_bw -D 1 -e": "of two faults another first",
	"ib_write_bw -X 9999": "of two faults another first",
	"ib_write_bw -L 300":  "of two faults another first", "ib_write_bw --tclass 300": "stock cuts it to eight bits",
	"ib_write_bw --retry_count 9":    "stock cuts it to three bits",
	"ib_write_bw --pkey_index 70000": "stock takes the last of the table", "ib_write_lat -q 1": "4.5 refuses even one",
}

// TestFirstLines holds what stock refuses, and the first line of it, which scripts look
// for, to the facts of testdata/errors.tsv.
func TestFirstLines(t *testing.T) {
	text, err := os.ReadFile("testdata/errors.tsv")
	if err != nil {
		t.Fatal(err)
	}
	same := 0
	for line := range strings.Lines(string(text)) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if strings.HasPrefix(line, "#") || len(columns) != 3 {
			continue
		}
		words := strings.Fields(columns[0])
		tool, _ := ToolNamed(words[0])
		for i, version := range []string{"6.06", "6.29"} {
			_, err := Parse(tool, append([]string{"--perftest-version", version}, words[1:]...))
			got := "+"
			if stock, is := errors.AsType[*StockError](err); is {
				got = stock.Line
			} else if err != nil {
				got = err.Error()
			}
			why, known := differs[columns[0]]
			switch {
			case got == columns[i+1]:
				same++
			case !known:
				t.Errorf("%s (%s):\n got %q\nwant %q", columns[0], version, got, columns[i+1])
			default:
				t.Logf("%s (%s): %q, not %q: %s", columns[0], version, got, columns[i+1], why)
			}
		}
	}
	if same < 140 {
		t.Errorf("%d lines are stock's", same)
	}
}

package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/perftest/flags"
	perftest "github.com/gobw/gobw/internal/perftest/run"
)

// TestWrappers runs our programs as others' wrappers of perftest do, with the options that these give, and reads what
// they print or write by the rules of these. Facts are of 2026-11; nothing of theirs is here.
func TestWrappers(t *testing.T) {
	if testing.Short() {
		t.Skip("short: what it imitates measures for seconds")
	}
	// NVIDIA's ngc_multinode_perf: six tests by duration; awk -F'[:,]' '/KEY/{print $2}' of the client's JSON must be one
	// number.
	for _, tt := range []struct{ line, key string }{
		{"ib_write_bw -D 1 -f 0 -s 65536 -F -c RC --report_gbits -b -q 2", "BW_average"},
		{"ib_read_bw -D 1 -f 0 -s 65536 -F -c RC --report_gbits -b -q 2", "BW_average"},
		{"ib_send_bw -D 1 -f 0 -s 65536 -F -c RC --report_gbits -b -q 2", "BW_average"},
		{"ib_write_lat -D 1 -f 0 -s 2 -F -c RC", "t_avg"},
		{"ib_read_lat -D 1 -f 0 -s 2 -F -c RC", "t_avg"},
		{"ib_send_lat -D 1 -f 0 -s 2 -F -c RC", "t_avg"},
	} {
		t.Run("ngc/"+tt.line, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "out.json")
			e := runPair(t, tt.line+"", "--out_json", "--out_json_file="+file)
			mustPass(t, e)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, tt.key) {
					found = append(found,
						strings.TrimSpace(strings.FieldsFunc(line, func(r rune) bool { return r == ':' || r == ',' })[1]))
				}
			}
			if len(found) != 1 {
				t.Fatalf("%s stands in %d lines, want 1:\n%s", tt.key, len(found), text)
			}
			positive(t, found[0])
		})
	}
	// Its --all_connection_types: awk -F'[<>]' '/--connection=/{gsub(/\//," ");gsub(/SRD/,"");print $2}' of the server's
	// --help.
	t.Run("ngc/connection types", func(t *testing.T) {
		for name, want := range map[string]string{
			"ib_write_bw": "RC UC", "ib_read_bw": "RC", "ib_send_bw": "RC UC UD", "ib_atomic_lat": "RC",
			"ib_send_lat": "RC UC UD",
		} {
			tool, _ := flags.ToolNamed(name)
			var got []string
			for line := range strings.Lines(flags.Usage(tool)) {
				if strings.Contains(line, "--connection=") {
					got = append(got, strings.ReplaceAll(regexp.MustCompile(`[<>]`).Split(line, -1)[1], "/", " "))
				}
			}
			if strings.Join(got, "; ") != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
	// Azure's node check: a link of another name; the fourth word of the first line in which the size stands.
	t.Run("azure", func(t *testing.T) {
		const size = "2097152"
		e := runPair(t, "ib_write_bw_nongdr -s "+size+" -D 1 -f 0 -x 0 -F --report_gbits --perform_warm_up -q 2")
		mustPass(t, e)
		for line := range strings.Lines(e.clientOut) {
			if strings.Contains(line, size) {
				positive(t, strings.Fields(line)[3])
				return
			}
		}
		t.Errorf("no line with the size:\n%s", e.clientOut)
	})
	// SuperBench's ib-validation: --report_gbits with latency tests, too; expressions over the whole output, which "BW"
	// tells apart.
	bandwidth := regexp.MustCompile(`\d+\s+\d+\s+\d+\.\d+\s+(\d+\.\d+)\s+\d+\.\d+`)
	latency := regexp.MustCompile(
		`\d+\s+\d+\s+\d+\.\d+\s+\d+\.\d+\s+\d+\.\d+\s+(\d+\.\d+)\s+\d+\.\d+\s+\d+\.\d+\s+\d+\.\d+`)
	for _, name := range []string{
		"ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat",
	} {
		t.Run("superbench/"+name, func(t *testing.T) {
			e := runPair(t, name+" -F -n 200 -s 4096 --report_gbits")
			mustPass(t, e)
			pattern := latency
			if strings.Contains(e.clientOut, "BW") {
				pattern = bandwidth
			}
			m := pattern.FindStringSubmatch(e.clientOut)
			if m == nil || strings.Contains(e.clientOut, "BW") != strings.HasSuffix(name, "_bw") {
				t.Fatalf("no result in\n%s", e.clientOut)
			}
			positive(t, m[1])
		})
	}
	// SuperBench's ib-loopback: lines of five words, of which the last but one is the bandwidth.
	t.Run("superbench/loopback", func(t *testing.T) {
		e := runPair(t, "ib_send_bw -s 8388608 -F --iters=20 -x 0 --report_gbits")
		mustPass(t, e)
		rows := 0
		for line := range strings.Lines(e.clientOut) {
			values := strings.Fields(line)
			if len(values) != 5 {
				continue
			}
			if _, err := strconv.Atoi(values[0]); err == nil {
				positive(t, values[3])
				rows++
			}
		}
		if rows != 1 {
			t.Errorf("%d rows in\n%s", rows, e.clientOut)
		}
	})
	// k8s-netperf: the fourth word of the first line that begins with a number and has four words, headings left out.
	t.Run("k8s-netperf", func(t *testing.T) {
		e := runPair(t, "ib_write_bw -x 0 -F -D 1 -f 0")
		mustPass(t, e)
		for line := range strings.Lines(e.clientOut) {
			words := strings.Fields(line)
			if strings.Contains(line, "#bytes") || strings.Contains(line, "---") || len(words) < 4 {
				continue
			}
			if _, err := strconv.Atoi(words[0]); err == nil {
				positive(t, words[3])
				return
			}
		}
		t.Errorf("no result in\n%s", e.clientOut)
	})
}

func mustPass(t *testing.T, e ends) {
	t.Helper()
	if e.client != perftest.PerftestOK || e.server != perftest.PerftestOK {
		t.Fatalf("exit %d and %d\nclient: %s\nserver: %s", e.client, e.server, e.clientErr, e.serverErr)
	}
}

func positive(t *testing.T, number string) {
	t.Helper()
	if x, err := strconv.ParseFloat(number, 64); err != nil || x <= 0 {
		t.Errorf("%q: want a positive number", number)
	}
}

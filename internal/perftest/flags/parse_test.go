package flags

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
)

func mustParse(t *testing.T, line string) Invocation {
	t.Helper()
	words := strings.Fields(line)
	tool, ok := ToolNamed(words[0])
	if !ok {
		t.Fatalf("%q is no tool", words[0])
	}
	v, err := Parse(tool, words[1:])
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// base is what a tool's empty command line means.
func base(t *testing.T, tool string) Invocation {
	t.Helper()
	return mustParse(t, tool)
}

// TestFlags has a row for every option that works: what it changes, compared with the empty command line.
func TestFlags(t *testing.T) {
	index := func(n int) *int { return &n }
	number := func(x float64) *float64 { return &x }
	for _, tt := range []struct {
		line   string
		change func(*Invocation)
	}{
		{"ib_write_bw", func(*Invocation) {}},
		{"ib_write_bw -a", func(v *Invocation) { v.Plan.AllSizes, v.Plan.Sizes = true, powers(8<<20) }},
		{
			"ib_write_bw --all -s 64",
			func(v *Invocation) { v.sizeGiven = true; v.Plan.AllSizes, v.Plan.Sizes = true, powers(8<<20) },
		},
		{"ib_send_bw -a -c UD", func(v *Invocation) {
			v.Plan.AllSizes, v.Plan.Sizes, v.Plan.Transport = true, powers(8<<20), verbs.UD
		}},
		{"ib_atomic_bw -A CMP_AND_SWAP", func(v *Invocation) { v.Plan.AtomicType = verbs.OpCompareSwap }},
		{"ib_atomic_lat --atomic_type=FETCH_AND_ADD", func(*Invocation) {}},
		{"ib_write_bw -b", func(v *Invocation) { v.Plan.Bidirectional = true }},
		{"ib_send_lat -c UD", func(v *Invocation) { v.Plan.Transport = verbs.UD }},
		{"ib_write_lat --conn UC", func(v *Invocation) { v.Plan.Transport = verbs.UC }},
		{"ib_send_lat -C", func(v *Invocation) { v.Cycles = true }},
		{"ib_write_bw -d mlx5_0", func(v *Invocation) { v.Device = "mlx5_0" }},
		{"ib_write_bw --ib-dev=rxe0", func(v *Invocation) { v.Device = "rxe0" }},
		{"ib_write_bw -D 10", func(v *Invocation) {
			v.Plan.Duration, v.Plan.Margin, v.Plan.Iterations, v.Plan.NoPeak = 10*time.Second, 2*time.Second, 0, true
		}},
		{"ib_write_bw -D 3", func(v *Invocation) {
			v.Plan.Duration, v.Plan.Margin, v.Plan.Iterations, v.Plan.NoPeak = 3*time.Second, 0, 0, true
		}},
		{"ib_send_lat -D 5 -f 1", func(v *Invocation) {
			v.Plan.Duration, v.Plan.Margin, v.Plan.Iterations = 5*time.Second, time.Second, 0
		}},
		{"ib_send_bw -e -X 1", func(v *Invocation) { v.Plan.Events, v.Plan.Vector = true, 1 }},
		{"ib_write_bw -F", func(*Invocation) {}},
		{"ib_write_bw --CPU-freq", func(*Invocation) {}},
		{"ib_send_lat -H", func(v *Invocation) { v.Histogram = true }},
		{"ib_send_lat --report-hist", func(v *Invocation) { v.Histogram = true }},
		{"ib_send_lat --report-histogrm", func(v *Invocation) { v.Histogram = true }},
		{"ib_send_lat --report-histogram", func(v *Invocation) { v.Histogram = true }},
		{"ib_write_bw -i 2", func(v *Invocation) { v.IBPort = 2 }},
		{"ib_write_bw -I 64", func(v *Invocation) { v.Plan.InlineBytes = 64 }},
		{"ib_write_bw -I 0", func(v *Invocation) { v.Plan.InlineBytes = 0 }},
		{"ib_write_bw -l 10", func(v *Invocation) { v.Plan.PostList = 10 }},
		{"ib_write_bw -m 1024", func(v *Invocation) { v.MTUBytes = 1024 }},
		{"ib_write_bw -n 100", func(v *Invocation) { v.Plan.Iterations = 100 }},
		{"ib_write_bw -n 20000", func(v *Invocation) { v.Plan.Iterations = 20000 }},
		{"ib_write_bw -n 20001", func(v *Invocation) { v.Plan.Iterations, v.Plan.NoPeak = 20001, true }},
		{"ib_write_bw -n 0x100", func(v *Invocation) { v.Plan.Iterations = 256 }},
		{"ib_write_bw -n 0100", func(v *Invocation) { v.Plan.Iterations = 64 }},
		{"ib_write_bw -N", func(v *Invocation) { v.Plan.NoPeak = true }},
		{"ib_read_bw -o 4", func(v *Invocation) { v.Plan.Outstanding = 4 }},
		{"ib_write_bw -p 18516", func(v *Invocation) { v.TCPPort = 18516 }},
		{"ib_write_bw -q 4", func(v *Invocation) { v.Plan.QPs = 4 }},
		{"ib_write_bw -Q 1", func(v *Invocation) { v.Plan.CQMod = 1 }},
		{"ib_send_bw -r 64", func(v *Invocation) { v.Plan.RxDepth = 64 }},
		{"ib_send_bw -r 1", func(v *Invocation) { v.Plan.RxDepth = 2 }},
		{"ib_write_bw -s 4096", func(v *Invocation) { v.Plan.Sizes, v.sizeGiven = []int{4096}, true }},
		{"ib_write_bw -s4K", func(v *Invocation) { v.Plan.Sizes, v.sizeGiven = []int{4096}, true }},
		{"ib_read_lat --size=1M", func(v *Invocation) { v.Plan.Sizes, v.sizeGiven = []int{1 << 20}, true }},
		{"ib_write_bw -S 3", func(v *Invocation) { v.Plan.SL = 3 }},
		{"ib_write_bw -t 16", func(v *Invocation) { v.Plan.TxDepth = 16 }},
		{"ib_send_lat -t 16", func(v *Invocation) { v.Plan.TxDepth = 16 }},
		{"ib_write_bw -u 18", func(v *Invocation) { v.Plan.Timeout = 18 }},
		{"ib_send_lat -U", func(v *Invocation) { v.Unsorted = true }},
		{"ib_write_bw -w 100M", func(v *Invocation) { // read as perftest reads it, which a line on stderr says
			v.LimitBW, v.Warnings = number(100), []string{"-w 100M is read as 100, as by perftest: there are no suffixes"}
		}},
		{"ib_write_bw -w 90 --report_gbits", func(v *Invocation) { v.LimitBW, v.Gbits = number(90), true }},
		{"ib_write_bw -y 1.5", func(v *Invocation) { v.LimitRate = number(1.5) }},
		{"ib_write_bw -x 3", func(v *Invocation) { v.GIDIndex = index(3) }},
		{"ib_write_bw --report-both -b", func(v *Invocation) { v.ReportBoth, v.Plan.Bidirectional = true, true }},
		{"ib_write_bw --run_infinitely", func(v *Invocation) {
			v.Plan.Infinite, v.Plan.Duration, v.Plan.Iterations, v.Plan.NoPeak = true, 5*time.Second, 0, true
		}},
		{"ib_write_bw --run_inf -D 2", func(v *Invocation) {
			v.Plan.Infinite, v.Plan.Duration, v.Plan.Iterations, v.Plan.NoPeak = true, 2*time.Second, 0, true
		}},
		{"ib_write_bw --reversed", func(v *Invocation) { v.Plan.Reversed = true }},
		{"ib_write_bw --out_json", func(v *Invocation) { v.JSONFile = "perftest_out.json" }},
		{"ib_write_bw --out_json_file x.json", func(v *Invocation) { v.JSONFile = "x.json" }},
		{"ib_write_bw --output bandwidth", func(v *Invocation) { v.Output = "bandwidth" }},
		{"ib_send_lat --output=latency", func(v *Invocation) { v.Output = "latency" }},
		{"ib_write_bw --cpu_util -D 3", func(v *Invocation) {
			v.Plan.CPU, v.Plan.Duration, v.Plan.Iterations, v.Plan.NoPeak = true, 3*time.Second, 0, true
		}},
		{"ib_send_bw --use-srq", func(v *Invocation) { v.Plan.SRQ = true }},
		{"ib_send_bw --recv_post_list 8", func(v *Invocation) { v.Plan.RecvList = 8 }},
		{"ib_write_bw --inline_recv 8", func(v *Invocation) {
			v.Warnings = []string{"--inline_recv is ignored: perftest parses it, and does nothing with it"}
		}},
		{"ib_write_lat -q 1 --report_gbits", func(v *Invocation) {
			const why = "perftest takes it in this tool, and does nothing with it"
			v.Warnings, v.Gbits = []string{"-q (--qp) is ignored: " + why}, true // which the ends compare from 6.28 on
		}},
		{"ib_write_bw -n 500 -D 8", func(v *Invocation) {
			v.Plan.Duration, v.Plan.Margin, v.Plan.Iterations, v.Plan.NoPeak = 8*time.Second, 2*time.Second, 0, true
			v.Warnings = []string{"-n 500 is ignored: -D decides"}
		}},
		{"ib_write_bw --force-link=Ethernet", func(v *Invocation) { v.link = verbs.LinkEthernet }},
		{"ib_send_lat --latency_gap 10", func(v *Invocation) { v.Plan.Gap = 10 * time.Microsecond }},
		{"ib_write_bw --mr_per_qp", func(v *Invocation) { v.Plan.MRPerQP = true }},
		{"ib_write_bw --use_huge", func(v *Invocation) { v.Plan.HugePages = true }},
		{"ib_write_bw --pkey_index 1", func(v *Invocation) { v.Plan.PKeyIndex = 1 }},
		{"ib_write_bw --tclass 0x60", func(v *Invocation) { v.Plan.TrafficClass = 96 }},
		{"ib_write_bw --flow_label 7", func(v *Invocation) { v.Plan.FlowLabels = []uint32{7} }},
		{
			"ib_write_bw --flow_label=1,0x2,3 -q 2",
			func(v *Invocation) { v.Plan.FlowLabels, v.Plan.QPs = []uint32{1, 2, 3}, 2 },
		},
		{"ib_write_bw --dlid 0x11", func(v *Invocation) { v.DLID = 17 }},
		{"ib_write_bw --ipv6", func(v *Invocation) { v.IPv6GID = true }},
		{"ib_write_bw --ipv6-addr", func(v *Invocation) { v.Network = "tcp6" }},
		{"ib_write_bw --write_with_imm -e", func(v *Invocation) { v.Plan.WriteImm, v.Plan.Events = true, true }},
		{"ib_send_bw --send_with_imm", func(v *Invocation) { v.Plan.SendImm = true }},
		{"ib_write_bw --disable_pcie_relaxed", func(v *Invocation) { v.Plan.StrictOrdering = true }},
		{"ib_write_bw --tclass 300 --flow_label 2000000 --retry_count 9", func(v *Invocation) {
			v.Plan.TrafficClass, v.Plan.FlowLabels, v.Plan.Retries = 44, []uint32{2000000 & 0xfffff}, 7
			v.warn("300 is read as 44, as by a device")
			v.warn("--flow_label 2000000 is read as 951424, as by a device")
			v.warn("--retry_count 9 is read as 7: a queue pair has 1 to 7")
		}},
		{"ib_write_bw --perftest-version 10.1", func(v *Invocation) { v.PerftestVersion = "10.1" }},
		{
			"ib_write_bw --rate_limit 10 --rate_limit_type SW",
			func(v *Invocation) { v.rate, v.rateType, v.Plan.RateBits, v.Plan.Burst = 10, "SW", 1e10, 128 },
		},
		{"ib_write_bw --rate_limit 10 --rate_limit_type SW --burst_size 0x10", func(v *Invocation) {
			v.rate, v.rateType, v.Plan.RateBits, v.burst, v.Plan.Burst = 10, "SW", 1e10, 16, 16
		}},
		{"ib_write_bw --rate_limit 10 --rate_units M --rate_limit_type SW", func(v *Invocation) {
			v.rate, v.rateUnit, v.rateType, v.Plan.RateBits = 10, "M", "SW", 10*8*(1<<20)
			v.Plan.Burst = 128
		}},
		{"ib_write_bw --rate_limit 10 --rate_units p --rate_limit_type SW", func(v *Invocation) {
			v.rate, v.rateUnit, v.rateType, v.Plan.RateBits = 10, "p", "SW", 10*8*65536
			v.Plan.Burst = 128
		}},
		{"ib_write_bw --use_old_post_send --no_lock", func(v *Invocation) {
			v.Plan.PostAPI = verbs.PostSend
			v.Warnings = []string{"--no_lock is ignored: queues belong to one thread here, but their library keeps its locks"}
		}},
		{"ib_atomic_bw -e -X 2", func(v *Invocation) { v.Plan.Events, v.Plan.Vector = true, 2 }},
		{"ib_write_bw -W counters/port_xmit_data,hw_counters/out_of_sequence", func(v *Invocation) {
			v.Counters = []string{"counters/port_xmit_data", "hw_counters/out_of_sequence"}
		}},
		{
			"ib_read_bw --perform_warm_up -t 16", func(v *Invocation) { v.warmUp, v.Plan.TxDepth, v.Plan.Warmup = true, 16, 16 },
		},
		{"ib_write_bw --perform_warm_up -l 8", func(v *Invocation) { v.warmUp, v.Plan.PostList, v.Plan.Warmup = true, 8, 8 }},
		{"ib_send_lat --pin_cores 2-3,8", func(v *Invocation) { v.Cores = []int{2, 3, 8} }},
		{"ib_send_lat --numa_node=1", func(v *Invocation) { v.NUMANode = index(1) }},
		{"ib_send_lat --disable_numa", func(v *Invocation) { v.NoNUMA = true }},
		{"ib_write_bw --wait_destroy 2", func(v *Invocation) { v.WaitDestroy = 2 * time.Second }},
		{"ib_write_bw --perftest-version 6.29", func(v *Invocation) { v.PerftestVersion = "6.29" }},
		{"ib_write_bw -h", func(v *Invocation) { v.Help = true }},
		{"ib_write_bw -V", func(v *Invocation) { v.Version = true }},
		// getopt's ways
		{"ib_write_bw 192.0.2.1 -s 64 -F", func(v *Invocation) {
			v.Host, v.Plan.Sizes, v.sizeGiven = "192.0.2.1", []int{64}, true
		}},
		{"ib_write_bw -Fbq2 -- host", func(v *Invocation) {
			v.Host, v.Plan.Bidirectional, v.Plan.QPs = "host", true, 2
		}},
		{"ib_write_bw --iters=7 --iter 9", func(v *Invocation) { v.Plan.Iterations = 9 }},
	} {
		t.Run(tt.line, func(t *testing.T) {
			got := mustParse(t, tt.line)
			want := base(t, strings.Fields(tt.line)[0])
			tt.change(&want)
			if want.Help || want.Version { // nothing else is looked at
				if got.Help != want.Help || got.Version != want.Version {
					t.Errorf("help %v, version %v", got.Help, got.Version)
				}
				return
			}
			ignore := cmpopts.IgnoreFields(Invocation{}, "margin", "Source", "Remarks", "AdaptsPolls")
			if diff := cmp.Diff(got, want, ignore, cmp.AllowUnexported(Invocation{})); diff != "" {
				t.Errorf("invocation (-got +want):\n%s", diff)
			}
		})
	}
	if v := mustParse(t, "ib_write_bw --bind_source_ip 192.0.2.7"); v.Source.String() != "192.0.2.7" {
		t.Errorf("source %v", v.Source)
	}
}

func powers(limit int) []int {
	var p []int
	for n := 2; n <= limit; n *= 2 {
		p = append(p, n)
	}
	return p
}

func TestDefaults(t *testing.T) {
	for _, tt := range []struct {
		tool       string
		size       int
		iterations uint64
	}{
		{"ib_write_bw", 65536, 5000},
		{"ib_read_bw", 65536, 1000},
		{"ib_send_bw", 65536, 1000},
		{"ib_atomic_bw", 8, 1000},
		{"ib_write_lat", 2, 1000},
		{"ib_read_lat", 2, 1000},
		{"ib_send_lat", 2, 1000},
		{"ib_atomic_lat", 8, 1000},
	} {
		p := base(t, tt.tool).Plan
		if len(p.Sizes) != 1 || p.Sizes[0] != tt.size || p.Iterations != tt.iterations {
			t.Errorf("%s: sizes %v, %d iterations; want %d, %d", tt.tool, p.Sizes, p.Iterations, tt.size, tt.iterations)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"ib_write_bw -D 5 -a", "-D and -a exclude each other"},
		{"ib_send_bw -D 5 -e", "-D and -e exclude each other"},
		{"ib_write_bw -D 4 -f 2", "more than two margins"},
		{"ib_write_bw -D 0", "want 1 to"},
		{"ib_write_bw -D 10s", `"10s" is no number`}, // as in stock
		{"ib_write_bw -w M", "want a number, zero or more"},
		{"ib_write_bw -c UD", "UD has no RDMA WRITE"},
		{"ib_read_bw -c UC", "UC has no RDMA READ"},
		{"ib_write_bw -c rc", "in upper case"},
		{"ib_write_bw -c DC", "DC is not there: use RC, UC or UD"},
		{"ib_write_bw -s 64k", "in upper case"},
		{"ib_write_bw -s 0", "want 1 to"},
		{"ib_write_bw -s 3000M", "want 1 to"},
		{"ib_write_bw -s", "requires an argument"},
		{"ib_write_bw -n 4", "want 5 to"},
		{"ib_write_bw -n ten", "is no number"},
		{"ib_write_bw -n 1_000", "is no number"},
		{"ib_atomic_bw -a", "this tool does not have it"},
		{"ib_write_lat -b", "this tool does not have it"},
		{"ib_write_lat -q 2", "this tool has 1 and nothing else"},
		{"ib_write_bw -e", "makes no event"},
		{"ib_write_bw -l 7", "no multiple of -l 7"},
		{"ib_send_bw -X 1", "needs --events (-e)"},
		{"ib_send_bw --run_infinitely -b", "does not work with send -b"},
		{"ib_write_bw --output latency", "measures bandwidth"},
		{"ib_write_bw one two", "one host is enough"},
		{"ib_write_bw -k", "invalid option -- 'k'"},
		{"ib_write_bw --nonsense", "unrecognized option '--nonsense'"},
		{"ib_write_bw --report", "ambiguous"},
		{"ib_write_bw --all=1", "doesn't allow an argument"},
		{"ib_write_bw -R -c UC", "-R: RDMA CM connects RC and UD, not UC"},
		{"ib_write_bw -R -T 256", "-T (--tos): 256: want 0 to 255"},
		{"ib_write_bw -z -T 96", "(-T): it needs -R"},
		{"ib_send_bw -g -q 2", "exclude each other"},
		{"ib_send_bw -g -b", "exclude each other"},
		{"ib_send_bw -O", "gobw write HOST -d A,B"},
		{"ib_send_bw -g -M 10.0.0.1", "no multicast address"},
		{"ib_send_bw -g -M 255:1", "want 16 numbers"},
		{"ib_send_bw -g -M 255:14:0:0:0:0:0:0:0:0:0:0:0:0:0:256", "byte 16"},
		{"ib_write_bw -g", "does not have it"},
		{"ib_write_bw -T 96", "--tclass"},
		{"ib_write_bw --use_cuda=0", "--use_cuda: GPU and other device memory is not there"},
		{"ib_write_bw --use_data_direct", "GPU and other device memory"},
		{"ib_write_bw --typical_pkt_size 64", "packet pacing"},
		{"ib_write_bw --burst_size 8", "it needs --rate_limit"},
		{"ib_write_lat --burst_size 8", "it needs --rate_limit"},
		{"ib_send_lat --rate_limit_type SW", "have none"},
		{"ib_atomic_bw --rate_limit 10 --rate_limit_type SW", "have none"},
		{"ib_send_bw -b --rate_limit 10 --rate_limit_type SW", "have none"},
		{"ib_atomic_bw --rate_limit 10 --rate_units p", "it needs --rate_limit_type SW"},
		{"ib_read_lat --rate_limit 7", "a device has"},
		{"ib_write_bw --rate_limit 10 -R", "it needs --rate_limit_type SW"},
		{"ib_write_bw --latency_gap 5", "this tool has 0 and nothing else"},
		{"ib_write_bw -X 0", "does not have it"},
		{"ib_write_lat -X 0 --write_with_imm", "does not have it"},
		{"ib_write_bw --data_validation", "gobw write --verify=all"},
		{"ib_write_bw --pin_cores 3-1", "want CPUs such as"},
		{"ib_write_bw --pin_cores 0-99999", "want CPUs such as"},
		{"ib_write_bw --pin_cores 1 --numa_node 0", "exclude each other"},
		{"ib_write_bw -W a,,b", "want counters"},
		{"ib_write_bw --dont_xchg_versions", "cannot work in any perftest"},
		{"ib_write_bw --rate_limit 1 --rate_limit_type PP", "packet pacing"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			words := strings.Fields(tt.line)
			tool, _ := ToolNamed(words[0])
			_, err := Parse(tool, words[1:])
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("each once", func(t *testing.T) {
		tool, _ := ToolNamed("ib_write_bw")
		_, err := Parse(tool, strings.Fields("-s abc"))
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one fault", err)
		}
	})
	t.Run("all at once", func(t *testing.T) {
		tool, _ := ToolNamed("ib_write_lat")
		_, err := Parse(tool, strings.Fields("-b -n 3 -O"))
		if err == nil || strings.Count(err.Error(), "\n") != 2 {
			t.Errorf("got %v, want three faults", err)
		}
	})
}

func TestRDMACM(t *testing.T) {
	tos := func(n uint8) *uint8 { return &n }
	for _, tt := range []struct {
		line          string
		queuePairs    bool
		control       bool
		tos           *uint8
		retries       uint8
		warnings, mtu int
	}{
		{"ib_write_bw", false, false, nil, 0, 0, 0},
		{"ib_write_bw -z", false, true, nil, 0, 0, 0},
		{"ib_write_bw -z -c UC", false, true, nil, 0, 0, 0},
		{"ib_write_bw --com_rdma_cm", false, true, nil, 0, 0, 0},
		{"ib_write_bw --comm_rdma_cm", false, true, nil, 0, 0, 0},
		{"ib_send_bw -R", true, true, nil, 0, 0, 0},
		{"ib_send_lat --rdma_cm -c UD -T 0", true, true, tos(0), 0, 0, 0},
		{"ib_read_lat -RT 0x60 --retry_count 3", true, true, tos(96), 3, 0, 0},
		{"ib_write_bw -R -m 1024", true, true, nil, 0, 1, 0}, // the path's
		{"ib_write_bw -z -m 1024", false, true, nil, 0, 0, 1024},
	} {
		t.Run(tt.line, func(t *testing.T) {
			v := mustParse(t, tt.line)
			if err := v.Fit(verbs.DeviceInfo{Name: "rxe0"}, verbs.PortInfo{Number: 1, ActiveMTU: verbs.MTU4096}); err != nil {
				t.Fatal(err)
			}
			p := v.Plan
			if p.RDMACM != tt.queuePairs || v.ControlCM != tt.control || p.Retries != tt.retries || p.MTU.Bytes() != tt.mtu {
				t.Errorf("queue pairs %v, control %v, %d retries, MTU %v; want %+v", p.RDMACM, v.ControlCM, p.Retries, p.MTU, tt)
			}
			if (p.TOS == nil) != (tt.tos == nil) || p.TOS != nil && *p.TOS != *tt.tos {
				t.Errorf("type of service %v, want %v", p.TOS, tt.tos)
			}
			if len(v.Warnings) != tt.warnings {
				t.Errorf("warnings %q, want %d", v.Warnings, tt.warnings)
			}
		})
	}
}

func TestFit(t *testing.T) {
	info := verbs.DeviceInfo{Name: "rxe0", Limits: verbs.Limits{MaxRDAtomic: 16, MaxInitRDAtomic: 8}}
	port := verbs.PortInfo{Number: 1, ActiveMTU: verbs.MTU1024}
	for _, tt := range []struct {
		line    string
		size    int
		mtu     verbs.MTU
		outs    int
		warning string
		err     string
	}{
		{line: "ib_send_bw -c UD", size: 1024, warning: " Max msg size in UD is MTU 1024\n Changing to this MTU\n"},
		{line: "ib_send_bw -c UD -s 2048", size: 2048, err: "at most the MTU of 1024"},
		{line: "ib_send_bw -c UD -m 512", size: 512, mtu: verbs.MTU512, warning: "UD is MTU 512"},
		{line: "ib_write_bw -m 4096", size: 65536, warning: "has 1024, which is used"},
		{line: "ib_write_bw -m 1000", size: 65536, warning: "is no MTU"},
		{line: "ib_read_bw -o 100", size: 65536, outs: 8, warning: "has 8, which is used"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			v := mustParse(t, tt.line)
			err := v.Fit(info, port)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if v.Plan.LargestSize() != tt.size || v.Plan.MTU != tt.mtu || v.Plan.Outstanding != tt.outs {
				t.Errorf("size %d, MTU %v, outstanding %d", v.Plan.LargestSize(), v.Plan.MTU, v.Plan.Outstanding)
			}
			if got := strings.Join(v.Warnings, "; ") + v.Shrunk; !strings.Contains(got, tt.warning) {
				t.Errorf("warnings %q, want %q", got, tt.warning)
			}
		})
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

func TestDepths(t *testing.T) {
	for _, tt := range []struct {
		line string
		want plan.Depths
	}{
		{"ib_write_bw", plan.Depths{Tx: 128, Rx: 512, CQMod: 1}},
		{"ib_write_bw -s 8192", plan.Depths{Tx: 128, Rx: 512, CQMod: 100}},
		{"ib_write_bw -a", plan.Depths{Tx: 128, Rx: 512, CQMod: 100}},
		{"ib_write_bw -n 100 -s 64", plan.Depths{Tx: 100, Rx: 100, CQMod: 100}},
		{"ib_write_bw -l 16 -n 160 -s 64", plan.Depths{Tx: 128, Rx: 160, CQMod: 16}},
		{"ib_send_bw -n 5 -s 64", plan.Depths{Tx: 5, Rx: 6, CQMod: 5}},
		{"ib_send_bw -n 5 -a", plan.Depths{Tx: 5, Rx: 5, CQMod: 5}},
		{"ib_send_lat", plan.Depths{Tx: 1, Rx: 512, CQMod: 1}},
		{"ib_send_bw -c UD -n 2000", plan.Depths{Tx: 128, Rx: 2000, CQMod: 100}},
		{"ib_send_bw -c UD -n 20000", plan.Depths{Tx: 128, Rx: 16000, CQMod: 100}},
		{"ib_write_bw -t 16 -Q 50", plan.Depths{Tx: 16, Rx: 512, CQMod: 16}},
	} {
		if got := settled(t, mustParse(t, tt.line).Plan).Depths(); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.line, got, tt.want)
		}
	}
}

// TestToolNamed has wrappers' names, which begin with a tool's, mean that tool.
func TestToolNamed(t *testing.T) {
	for name, want := range map[string]string{
		"ib_write_bw": "ib_write_bw", "/usr/bin/ib_read_lat": "ib_read_lat", "ib_write_bw_nongdr": "ib_write_bw",
		"ib_send_bw_nd_test": "ib_send_bw",
		"gobw":               "", "my_ib_write_bw": "", "ib_write": "",
	} {
		if tool, is := ToolNamed(name); is != (want != "") || tool.Name != want {
			t.Errorf("%s: %q, want %q", name, tool.Name, want)
		}
	}
}

func TestForceLink(t *testing.T) {
	info, port := verbs.DeviceInfo{Name: "mlx5_0"}, verbs.PortInfo{Number: 1, LinkLayer: verbs.LinkEthernet}
	for line, fits := range map[string]bool{
		"ib_write_bw --force-link=Ethernet": true, "ib_write_bw --force-link IB": false, "ib_write_bw": true,
	} {
		v := mustParse(t, line)
		if err := v.Fit(info, port); (err == nil) != fits {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestParseLine(t *testing.T) {
	v, err := ParseLine("ib_send_bw -c UD -s 1024")
	if err != nil || v.Plan.Operation != plan.Send || v.Plan.Transport != verbs.UD || v.Plan.Sizes[0] != 1024 {
		t.Errorf("%+v, %v", v, err)
	}
	for _, line := range []string{"", "gobw write", "ib_send_bw host", "ib_send_bw -k"} {
		if _, err := ParseLine(line); err == nil {
			t.Errorf("ParseLine(%q): no error", line)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("-s 64 -n 100 host")
	f.Add("--report_gbits -bD5 --out_json_file=x")
	testrun.Fuzz(f, func(t *testing.T, line string) {
		for _, tool := range Tools() {
			v, err := Parse(tool, strings.Fields(line))
			if err == nil && !v.Help && !v.Version {
				if _, err := plan.Settle(v.Plan, plan.Limits{}, plan.Peer{Perftest: true}, plan.Policy{}); err != nil {
					t.Errorf("%s %s: accepted, but the plan is refused: %v", tool.Name, line, err)
				}
			}
		}
	})
}

// TestUsage holds the help to the table of flags: each option that works is explained, once, within 80 columns.
func TestUsage(t *testing.T) {
	spelledTwice := []string{"com_rdma_cm", "report-histogram"} // as older versions and their help spell them
	for _, tool := range Tools() {
		text := Usage(tool)
		for line := range strings.Lines(text) {
			if len(strings.TrimSuffix(line, "\n")) > helpWidth {
				t.Errorf("%s: longer than %d columns: %s", tool.Name, helpWidth, line)
			}
		}
		for _, f := range flags(&Invocation{}) {
			want := 0
			if f.in(tool) == Acts && !slices.Contains(spelledTwice, f.long) {
				want = 1
			}
			head := regexp.MustCompile(`(?m)^  (-.,|   ) --` + regexp.QuoteMeta(f.long) + `(=| |$)`)
			if got := len(head.FindAllString(text, -1)); got != want {
				t.Errorf("%s: --%s is explained %d times, want %d", tool.Name, f.long, got, want)
			}
		}
	}
}

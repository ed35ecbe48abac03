package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

func testDevice() (verbs.DeviceInfo, verbs.PortInfo) {
	info := verbs.DeviceInfo{Name: "test0", Ports: 1, Limits: verbs.Limits{
		MaxQP: 1000, MaxQPWR: 16384, MaxSGE: 32, MaxSGERead: 32, MaxInline: 512, MaxRDAtomic: 16, MaxInitRDAtomic: 16, Atomic: true,
	}}
	return info, verbs.PortInfo{Number: 1, State: verbs.PortActive, ActiveMTU: verbs.MTU4096, MaxMessage: 1 << 31}
}

func bandwidthPlan() control.Plan {
	return control.Plan{Operation: control.Write, Kind: control.Bandwidth, Transport: verbs.RC, Sizes: []int{65536}, Iterations: 5000}
}

func TestSettleNamesAllMistakes(t *testing.T) {
	info, port := testDevice()
	tests := []struct {
		name   string
		change func(*control.Plan)
		want   []string
	}{
		{"UC READ", func(p *control.Plan) { p.Operation, p.Transport = control.Read, verbs.UC }, []string{"UC has no RDMA_READ: use RC"}},
		{"UD WRITE", func(p *control.Plan) { p.Transport = verbs.UD }, []string{"UD has no RDMA_WRITE", "at most the MTU of 4096"}},
		{"UD above the MTU", func(p *control.Plan) { p.Operation, p.Transport, p.Sizes = control.Send, verbs.UD, []int{4097} }, []string{"4097"}},
		{"several at once", func(p *control.Plan) { p.QPs, p.TxDepth, p.Duration = 1001, 20000, time.Second }, []string{"--qp", "--tx-depth", "exclude each other"}},
		{"post list", func(p *control.Plan) { p.PostList = 3 }, []string{"not a multiple"}},
		{"margins", func(p *control.Plan) { p.Iterations, p.Duration, p.Margin = 0, 2*time.Second, time.Second }, []string{"two margins"}},
		{"no length", func(p *control.Plan) { p.Iterations = 0 }, []string{"neither"}},
		{"latency of several QPs", func(p *control.Plan) { p.Kind, p.QPs = control.Latency, 2 }, []string{"one queue pair"}},
		{"events on a WRITE", func(p *control.Plan) { p.Kind, p.Events = control.Latency, true }, []string{"makes no event"}},
		{"MTU above the port's", func(p *control.Plan) { port.ActiveMTU = verbs.MTU1024; p.MTU = verbs.MTU4096 }, []string{"--mtu"}},
		{"inline READ", func(p *control.Plan) { p.Operation, p.InlineBytes = control.Read, 64 }, []string{"cannot be inline"}},
		{"verify word", func(p *control.Plan) { p.Verify = "some" }, []string{"ends or all"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			info, port = testDevice()
			p := bandwidthPlan()
			tt.change(&p)
			_, err := Settle(p, info, port)
			if err == nil {
				t.Fatal("settled")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// TestSettings holds the numbers in force against perftest's rules.
func TestSettings(t *testing.T) {
	info, port := testDevice()
	tests := []struct {
		name                      string
		change                    func(*control.Plan)
		size                      int
		window, signal, batch, rx int
	}{
		{"default", func(*control.Plan) {}, 65536, 128, 1, 1, 1},
		{"small messages", func(*control.Plan) {}, 8192, 128, 100, 1, 1},
		{"just above", func(*control.Plan) {}, 8193, 128, 1, 1, 1},
		{"all sizes keep moderation", func(p *control.Plan) { p.AllSizes = true }, 65536, 128, 100, 1, 1},
		{"explicit moderation", func(p *control.Plan) { p.CQMod = 10 }, 65536, 128, 10, 1, 1},
		{"few iterations lower tx depth", func(p *control.Plan) { p.Iterations = 20 }, 64, 20, 20, 1, 1},
		{"post list sets moderation", func(p *control.Plan) { p.PostList = 4 }, 65536, 128, 4, 4, 1},
		{"moderation leaves room for a batch", func(p *control.Plan) { p.PostList, p.CQMod, p.TxDepth = 4, 15, 16 }, 64, 16, 14, 4, 1},
		{"latency", func(p *control.Plan) { p.Kind = control.Latency }, 2, 1, 1, 1, 1},
		{"send receives", func(p *control.Plan) { p.Operation = control.Send }, 64, 128, 100, 1, 512},
		{"few sends, even receives", func(p *control.Plan) { p.Operation, p.Iterations = control.Send, 21 }, 64, 21, 21, 1, 22},
		{"UD posts all receives", func(p *control.Plan) {
			p.Operation, p.Transport, p.Sizes = control.Send, verbs.UD, []int{64}
		}, 64, 128, 100, 1, 5000},
		{"UD posts 16000 at most", func(p *control.Plan) {
			p.Operation, p.Transport, p.Sizes, p.Iterations = control.Send, verbs.UD, []int{64}, 1e6
		}, 64, 128, 100, 1, 16000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := bandwidthPlan()
			tt.change(&p)
			p, err := Settle(p, info, port)
			if err != nil {
				t.Fatal(err)
			}
			s := settingsFor(p, tt.size, 0)
			if s.window != tt.window || s.signal != tt.signal || s.batch != tt.batch || s.rxDepth != tt.rx {
				t.Errorf("window %d signal %d batch %d rx %d, want %d %d %d %d", s.window, s.signal, s.batch, s.rxDepth, tt.window, tt.signal, tt.batch, tt.rx)
			}
		})
	}
}

// TestStepping holds the addresses against captured tests of perftest.
func TestStepping(t *testing.T) {
	tests := []struct{ size, page, stride, places int }{
		{1000, 4096, 0x400, 4},
		{512, 4096, 0x200, 8},
		{8, 4096, 0x40, 64},
		{2048, 4096, 2048, 2},
		{2049, 4096, 0, 1},
		{65536, 4096, 0, 1},
		{4096, 65536, 4096, 16},
	}
	for _, tt := range tests {
		if got := newStepping(tt.size, tt.page, 64); got != (stepping{tt.stride, tt.places}) {
			t.Errorf("size %d, page %d: %+v, want stride %#x, %d places", tt.size, tt.page, got, tt.stride, tt.places)
		}
	}
}

func TestRoles(t *testing.T) {
	p := bandwidthPlan()
	if got := RoleOf(p, true); got != Initiator {
		t.Errorf("a client is %v, want initiator", got)
	}
	p.Reversed = true
	if got := RoleOf(p, true); got != Target {
		t.Errorf("a client of a reversed test is %v, want target", got)
	}
	for _, tt := range []struct {
		op              control.Operation
		kind            control.Kind
		bidir           bool
		sends, receives [2]bool // initiator, target
	}{
		{control.Write, control.Bandwidth, false, [2]bool{true, false}, [2]bool{false, false}},
		{control.Send, control.Bandwidth, false, [2]bool{true, false}, [2]bool{false, true}},
		{control.Send, control.Bandwidth, true, [2]bool{true, true}, [2]bool{true, true}},
		{control.Write, control.Latency, false, [2]bool{true, true}, [2]bool{false, false}},
		{control.Send, control.Latency, false, [2]bool{true, true}, [2]bool{true, true}},
		{control.Read, control.Latency, false, [2]bool{true, false}, [2]bool{false, false}},
	} {
		p := control.Plan{Operation: tt.op, Kind: tt.kind, Bidirectional: tt.bidir}
		for i, role := range []Role{Initiator, Target} {
			if got := sends(p, role); got != tt.sends[i] {
				t.Errorf("%s %s %v sends: %v", tt.op, tt.kind, role, got)
			}
			if got := receives(p, role); got != tt.receives[i] {
				t.Errorf("%s %s %v receives: %v", tt.op, tt.kind, role, got)
			}
		}
	}
}

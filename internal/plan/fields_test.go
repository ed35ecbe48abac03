package plan

import (
	"reflect"
	"slices"
	"testing"
)

// outsideTable are the numbers and switches of a spec without a row in the table of settings, each with its reason.
var outsideTable = map[string]string{
	"AllSizes":       "it stands for Sizes: --all is bound beside --size",
	"AtomicType":     "--atomic-type takes words",
	"Duration":       "a time: rulesOfNumbers has its bounds",
	"Gap":            "a time: rulesOfNumbers has its bounds",
	"Infinite":       "perftest's flag alone",
	"MRPerQP":        "perftest's flag alone",
	"Margin":         "a time: rulesOfNumbers has its bounds",
	"Multicast":      "perftest's flag alone",
	"NoPeak":         "perftest's flag alone",
	"OnDemand":       "perftest's flag alone",
	"PostAPI":        "--post-api takes words",
	"QKey":           "any 32 bits",
	"RateBits":       "no whole number: rulesOfNumbers has its bounds",
	"SendImm":        "--imm is of two fields",
	"StrictOrdering": "perftest's flag alone",
	"Transport":      "--connection takes words",
	"WarmupSteady":   "--warmup steady",
	"WriteImm":       "--imm is of two fields",
}

// TestEveryFieldHasARow: a number or a switch of a spec that the table of settings does not know has
// no bounds, and it comes from the wire.
func TestEveryFieldHasARow(t *testing.T) {
	p := Spec{Noncontig: &Noncontig{Descriptors: &Descriptors{}}}
	var known []any
	for _, f := range slices.Concat(table, pointTable, listTable) {
		known = append(known, f.At(&p))
		if number := reflect.TypeOf(f.At(&p)).Elem().Kind() != reflect.Bool; number != (f.Most > 0) {
			t.Errorf("%s: a number has bounds, a switch has none", f.shown())
		}
		if (f.Help != "" || f.HelpOf != nil) != (f.Group != "" && f.Name != "") {
			t.Errorf("%s: what a command binds has a name, a group and help", f.shown())
		}
		for _, v := range f.Tries {
			if int64(v) < f.least() || int64(v) > f.Most {
				t.Errorf("%s: a search tries %d, which is out of bounds", f.shown(), v)
			}
		}
	}
	for _, v := range []reflect.Value{
		reflect.ValueOf(&p).Elem(), reflect.ValueOf(p.Noncontig).Elem(), reflect.ValueOf(p.Noncontig.Descriptors).Elem(),
	} {
		for f, field := range v.Fields() {
			plain := f.Type.Kind() <= reflect.Float64
			if _, told := outsideTable[f.Name]; plain && told == slices.Contains(known, field.Addr().Interface()) {
				t.Errorf("%s has neither a row in the table nor a reason, or both", f.Name)
			}
		}
	}
}

// TestBoundsOfFields: each bound of the table is in force for what comes from a command line and from the wire.
func TestBoundsOfFields(t *testing.T) {
	for _, f := range slices.Concat(table, pointTable, listTable) {
		for _, v := range []int64{f.Least - 1, f.Most, f.Most + 1} {
			p := Spec{Noncontig: &Noncontig{Descriptors: &Descriptors{}}}
			at := reflect.ValueOf(f.At(&p)).Elem()
			if f.Most == 0 || v == 0 || at.CanUint() && (v < 0 || at.OverflowUint(uint64(v))) {
				continue
			}
			if at.CanUint() {
				at.SetUint(uint64(v))
			} else {
				at.SetInt(v)
			}
			wrong := &Faults{}
			checkNumbers(table, &p, wrong)
			checkNumbers(pointTable, &p, wrong)
			checkNumbers(listTable, &p, wrong)
			if refused := len(*wrong) > 0; refused != (v != f.Most) {
				t.Errorf("%s %d: refused %v", f.shown(), v, refused)
			}
		}
	}
}

package plan

import (
	"reflect"
	"strings"
)

// Field is what the tags of a field of a [Spec] tell of its flag.
type Field struct {
	Name, Letter string // of the flag
	Help         string // empty: what it does depends on the test
	Of           Kind   // of test that has it; empty: all
	Tries        []int  // what a search tries; none: it leaves it alone
	index        int
}

// Fields are those that have flags, in the order of a [Spec]. A search makes the first of them small first.
func Fields() []Field {
	spec := reflect.TypeFor[Spec]()
	var out []Field
	for i := range spec.NumField() {
		tag := spec.Field(i).Tag
		name, letter, _ := strings.Cut(tag.Get("flag"), " (-")
		name, is := strings.CutPrefix(name, "--")
		if !is {
			continue
		}
		f := Field{Name: name, Letter: letter[:min(len(letter), 1)], Help: tag.Get("help"), Of: Kind(tag.Get("of")), index: i}
		if tries := tag.Get("tries"); tries != "" {
			f.Tries, _ = ParseSizes(tries)
		}
		out = append(out, f)
	}
	return out
}

// At is where a spec has the field: an *int, a *bool and the like.
func (f Field) At(s *Spec) any { return reflect.ValueOf(s).Elem().Field(f.index).Addr().Interface() }

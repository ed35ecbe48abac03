// Package fields reads and clears fields of plans by the name that their tag gives them.
package fields

import (
	"fmt"
	"reflect"
)

// Names are the fields of a struct that have the tag "plan".
func Names[T any]() []string {
	var out []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		if name := f.Tag.Get("plan"); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// Values are those fields in words, by name.
func Values[T any](p T) map[string]string {
	out := map[string]string{}
	for _, name := range Names[T]() {
		out[name], _ = Clear(&p, name)
	}
	return out
}

// Clear sets the field of that name to zero and gives what it was.
func Clear[T any](p *T, name string) (value string, ok bool) {
	v := reflect.ValueOf(p).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name != "" && f.Tag.Get("plan") == name {
			field := v.FieldByIndex(f.Index)
			value = fmt.Sprint(field.Interface())
			field.SetZero()
			return value, true
		}
	}
	return "", false
}

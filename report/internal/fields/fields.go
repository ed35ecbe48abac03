// Package fields derives from the tags of a plan's fields what programs and people are told of it:
//
//	json   the name of the field
//	words  how it is said, with %s for its value; after "|", how its usual value is said where plans differ in it.
//	       After a comma, "always": titles say the usual value, too; "title": short names do not say the field.
//	usual  the value of which nothing is said; without it the zero value
//	of     "size": the field depends on the message size; "bandwidth": of a latency test nothing is said of it
package fields

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/gobw/gobw/report/plain"
)

// Names are the names of a plan's fields.
func Names[T any]() []string {
	var out []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		out = append(out, nameOf(f))
	}
	return out
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// find is the field of a name.
func find[T any](p *T, name string) (v reflect.Value, f reflect.StructField, ok bool) {
	v = reflect.ValueOf(p).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name != "" && nameOf(f) == name {
			return v.FieldByIndex(f.Index), f, true
		}
	}
	return v, f, false
}

// Values are the fields as text, by name.
func Values[T any](p T) map[string]string {
	out := map[string]string{}
	v := reflect.ValueOf(p)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name := nameOf(f); name != "" {
			out[name] = fmt.Sprint(v.FieldByIndex(f.Index).Interface())
		}
	}
	return out
}

// Clear sets the field of that name to zero and gives what it was.
func Clear[T any](p *T, name string) (value string, ok bool) {
	v, _, ok := find(p, name)
	if ok {
		value = fmt.Sprint(v.Interface())
		v.SetZero()
	}
	return value, ok
}

// Without is the plan without the fields that are "of" something.
func Without[T any](p T, of string) T {
	v := reflect.ValueOf(&p).Elem()
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Tag.Get("of") == of {
			v.FieldByIndex(f.Index).SetZero()
		}
	}
	return p
}

// Style is for whom a plan is said.
type Style string

// Styles.
const (
	Title Style = "title"
	Short Style = "short"
)

// Words says a plan, but for the fields that are "of" something else.
func Words[T any](p T, s Style, but string) []string {
	var out []string
	v := reflect.ValueOf(p)
	for _, f := range reflect.VisibleFields(v.Type()) {
		words, option, _ := strings.Cut(f.Tag.Get("words"), ",")
		of := f.Tag.Get("of")
		if words == "" || of != "" && of == but || s == Short && option == "title" {
			continue
		}
		value := v.FieldByIndex(f.Index)
		if said, unusual := say(f, value); unusual || s == Title && option == "always" && !value.IsZero() {
			out = append(out, said)
		}
	}
	return out
}

// Say says one field, its usual value too.
func Say[T any](p T, name string) string {
	v, f, ok := find(&p, name)
	if !ok {
		return ""
	}
	said, _ := say(f, v)
	return said
}

// say is a field in words, and whether its value is not the usual one.
func say(f reflect.StructField, v reflect.Value) (said string, unusual bool) {
	words, _, _ := strings.Cut(f.Tag.Get("words"), ",")
	words, otherwise, _ := strings.Cut(words, "|")
	value, unusual := Text(f, v)
	switch {
	case words == "":
		words = strings.ReplaceAll(nameOf(f), "_", " ") + " %s"
	case !unusual && otherwise != "":
		words = otherwise
	}
	plural := map[bool]string{true: "", false: "s"}[value == "1"]
	return strings.Replace(strings.Replace(words, "(s)", plural, 1), "%s", value, 1), unusual
}

// Text is a value in the unit that the field's name ends in, and whether it is not the usual one.
func Text(f reflect.StructField, v reflect.Value) (value string, unusual bool) {
	value = text(nameOf(f), v)
	return value, !v.IsZero() && value != f.Tag.Get("usual")
}

func text(name string, v reflect.Value) string {
	switch {
	case strings.HasSuffix(name, "cost_ns"): // of a clock: less than a time has room for
		return plain.Number(v.Float()) + " ns"
	case strings.HasSuffix(name, "_per_ns"):
		return plain.Number(v.Float())
	case strings.HasSuffix(name, "llc_bytes"):
		return plain.Bytes(float64(v.Int()))
	case strings.HasSuffix(name, "_bits_per_s"):
		return plain.Number(v.Float()/1e9) + " Gb/s"
	case strings.HasSuffix(name, "_ns"):
		return time.Duration(v.Float()).String()
	}
	return fmt.Sprint(v.Interface())
}

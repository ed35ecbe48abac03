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

// walk visits the fields of a struct, those of embedded ones too.
func walk(v reflect.Value, visit func(name string, f reflect.StructField, v reflect.Value)) {
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		visit(name, f, v.FieldByIndex(f.Index))
	}
}

// Names are the names of a plan's fields.
func Names[T any]() (out []string) {
	walk(reflect.ValueOf(*new(T)), func(name string, _ reflect.StructField, _ reflect.Value) { out = append(out, name) })
	return out
}

// Values are the fields as text, by name.
func Values[T any](p T) map[string]string {
	out := map[string]string{}
	walk(reflect.ValueOf(p), func(name string, _ reflect.StructField, v reflect.Value) { out[name] = fmt.Sprint(v.Interface()) })
	delete(out, "")
	return out
}

// Clear sets the field of that name to zero and gives what it was.
func Clear[T any](p *T, name string) (value string, ok bool) {
	walk(reflect.ValueOf(p).Elem(), func(of string, _ reflect.StructField, v reflect.Value) {
		if of == name && name != "" {
			value, ok = fmt.Sprint(v.Interface()), true
			v.SetZero()
		}
	})
	return value, ok
}

// Without is the plan without the fields that are "of" something.
func Without[T any](p T, of string) T {
	walk(reflect.ValueOf(&p).Elem(), func(_ string, f reflect.StructField, v reflect.Value) {
		if f.Tag.Get("of") == of {
			v.SetZero()
		}
	})
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
func Words[T any](p T, s Style, but string) (out []string) {
	walk(reflect.ValueOf(p), func(name string, f reflect.StructField, v reflect.Value) {
		words, option, _ := strings.Cut(f.Tag.Get("words"), ",")
		of := f.Tag.Get("of")
		if words == "" || of != "" && of == but || s == Short && option == "title" {
			return
		}
		if said, unusual := say(name, f, v); unusual || s == Title && option == "always" && !v.IsZero() {
			out = append(out, said)
		}
	})
	return out
}

// Say says one field, its usual value too.
func Say[T any](p T, name string) (said string) {
	walk(reflect.ValueOf(p), func(of string, f reflect.StructField, v reflect.Value) {
		if of == name && name != "" {
			said, _ = say(name, f, v)
		}
	})
	return said
}

// say is a field in words, and whether its value is not the usual one.
func say(name string, f reflect.StructField, v reflect.Value) (said string, unusual bool) {
	words, _, _ := strings.Cut(f.Tag.Get("words"), ",")
	words, otherwise, _ := strings.Cut(words, "|")
	value, unusual := Text(name, f, v)
	switch {
	case words == "":
		words = strings.ReplaceAll(name, "_", " ") + " %s"
	case !unusual && otherwise != "":
		words = otherwise
	}
	plural := map[bool]string{true: "", false: "s"}[value == "1"]
	return strings.Replace(strings.Replace(words, "(s)", plural, 1), "%s", value, 1), unusual
}

// Text is a value in the unit that the field's name ends in, and whether it is not the usual one.
func Text(name string, f reflect.StructField, v reflect.Value) (value string, unusual bool) {
	value = text(name, v)
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

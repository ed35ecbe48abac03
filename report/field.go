package report

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/gobw/gobw/report/plain"
)

// field is one of a [Plan] or an [Environment]. From its tags derives what programs and people are told of it:
//
//	json   its name
//	words  how it is said, with %s for its value; after "|", how its usual value is said where plans differ in it.
//	       After a comma, "always": titles say the usual value, too; "title": short names do not say the field.
//	usual  the value of which nothing is said; without it the zero value
//	of     "size": the field depends on the message size; "bandwidth": of a latency test nothing is said of it
type field struct {
	reflect.StructField
	name  string
	value reflect.Value
}

// fieldsOf are those of a struct, given by a pointer to it, in their order.
func fieldsOf(of any) []field {
	var out []field
	for f, value := range reflect.ValueOf(of).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, field{f, name, value})
	}
	return out
}

// inWords is a field in words, and whether its value is not the usual one.
func (f field) inWords() (said string, unusual bool) {
	words, _, _ := strings.Cut(f.Tag.Get("words"), ",")
	words, otherwise, _ := strings.Cut(words, "|")
	value, unusual := f.text()
	switch {
	case words == "":
		words = strings.ReplaceAll(f.name, "_", " ") + " %s"
	case !unusual && otherwise != "":
		words = otherwise
	case f.name == "verified" && value == "ends":
		value = "first and last message"
	}
	plural := map[bool]string{true: "", false: "s"}[value == "1"]
	return strings.Replace(strings.Replace(words, "(s)", plural, 1), "%s", value, 1), unusual
}

// text is the value in the unit that the field's name ends in, and whether it is not the usual one.
func (f field) text() (value string, unusual bool) {
	value = fmt.Sprint(f.value.Interface())
	switch {
	case strings.HasSuffix(f.name, "cost_ns"): // of a clock: less than a time has room for
		value = plain.Number(f.value.Float()) + " ns"
	case strings.HasSuffix(f.name, "_per_ns"):
		value = plain.Number(f.value.Float())
	case strings.HasSuffix(f.name, "llc_bytes"):
		value = plain.Bytes(float64(f.value.Int()))
	case strings.HasSuffix(f.name, "_bits_per_s"):
		value = plain.Number(f.value.Float()/1e9) + " Gb/s"
	case strings.HasSuffix(f.name, "_ns"):
		value = strings.Replace(time.Duration(f.value.Float()).String(), "µ", "u", 1)
	}
	return value, !f.value.IsZero() && value != f.Tag.Get("usual")
}

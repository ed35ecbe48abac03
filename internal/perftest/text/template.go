package text

import (
	_ "embed" // the templates
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"text/template"
)

// templates are the parts of the text and of the JSON.
//
//go:embed text.tmpl
var templates string

// parsed are the templates, ready to be filled.
var parsed = sync.OnceValue(func() *template.Template { //nolint:gochecknoglobals // made once
	return template.Must(template.New("").Funcs(template.FuncMap{
		"on":     func(is bool) string { return either(is, "ON", "OFF") },
		"hex":    hexadecimal,
		"joined": func(words string) string { return strings.ReplaceAll(words, " ", "_") },
		"json": func(word string) string {
			b, _ := json.Marshal(word) // a string has no error
			return string(b)
		},
		"number": func(digits int, v float64) string { // JSON has no other
			return fmt.Sprintf("%.*f", digits, either(math.IsNaN(v) || math.IsInf(v, 0), 0, v))
		},
	}).Parse(templates))
})

// fill is a template with its data.
func fill(name string, data any) string {
	var b strings.Builder
	if err := parsed().ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the template asks for a field that is not there
	}
	return b.String()
}

func either[T any](is bool, yes, no T) T { //nolint:revive // a choice of words
	if is {
		return yes
	}
	return no
}

// hexadecimal writes a whole number as C's %#0nx does: the 0x counts in the width, and zero has none.
func hexadecimal(v any, width int) string {
	if digits := fmt.Sprintf("%x", v); digits != "0" {
		return fmt.Sprintf("0x%0*s", width-2, digits)
	}
	return fmt.Sprintf("%0*d", width, 0)
}

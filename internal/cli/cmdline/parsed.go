package cmdline

import (
	"encoding"
	"fmt"
	"reflect"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/plan"
)

// Faults are the mistakes of a command line. All are reported at once.
type Faults = plan.Faults

// Prefixed puts the flag's name before each line of an error; nil stays nil.
func Prefixed(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// parsed is a flag whose text is parsed as it is read.
type parsed struct {
	text  string
	parse func(text string) error
	joins bool // a list: given twice, it has the values of both
	given bool
}

func (p *parsed) String() string { return p.text }

// Type makes the help print it as a string.
func (p *parsed) Type() string { return "string" }

func (p *parsed) Set(text string) error {
	if p.joins && p.given {
		text = p.text + "," + text
	}
	p.text, p.given = text, true
	return p.parse(text)
}

// Parsed binds a flag to a field: parse turns its text into the value. The letter and usual, the text of the default,
// may be empty. An error of parse becomes a fault, because pflag itself stops at the first error.
func Parsed[T any](fs *pflag.FlagSet, wrong *Faults, field *T, name, letter, usual, usage string,
	parse func(text string) (T, error),
) {
	of := reflect.TypeFor[T]()
	p := &parsed{text: usual, joins: of.Kind() == reflect.Slice && of.Elem().Kind() != reflect.Uint8}
	f := fs.VarPF(p, name, letter, usage)
	p.parse = func(text string) error {
		v, err := parse(text)
		*field = v
		wrong.Note(Prefixed(FlagName(f), err))
		return nil
	}
	if usual != "" {
		_ = p.parse(usual)
	}
}

// Text parses what unmarshals itself from text.
func Text[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](text string) (v T, err error) {
	err = P(&v).UnmarshalText([]byte(text))
	return v, err
}

// FlagName is a flag as messages name it: "--duration (-D)".
func FlagName(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return "--" + f.Name
	}
	return "--" + f.Name + " (-" + f.Shorthand + ")"
}

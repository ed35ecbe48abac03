package cmdline

import "fmt"

// Faults are the mistakes of a command line: all are told at once.
type Faults []error

// Note keeps an error, if there is one.
func (f *Faults) Note(err error) {
	if err != nil {
		*f = append(*f, err)
	}
}

// If keeps a mistake where there is one.
func (f *Faults) If(wrong bool, format string, args ...any) {
	if wrong {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Range keeps a flag's number that is outside of its bounds.
func (f *Faults) Range(flag string, v, least, most int) {
	f.If(v < least || v > most, "%s %d: want %d to %d", flag, v, least, most)
}

// Prefixed puts the flag's name before each line of an error; nil stays nil.
func Prefixed(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

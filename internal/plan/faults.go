package plan

import "fmt"

// Faults are the mistakes of a test or of a command line: all are told at once.
type Faults []error

// Note keeps an error, if there is one.
func (f *Faults) Note(err error) {
	if err != nil {
		*f = append(*f, err)
	}
}

// Add keeps a mistake.
func (f *Faults) Add(format string, args ...any) { f.If(true, format, args...) }

// If keeps a mistake where there is one.
func (f *Faults) If(wrong bool, format string, args ...any) {
	if wrong {
		*f = append(*f, fmt.Errorf(format, args...))
	}
}

// Range keeps a number of a flag's that is outside of its bounds.
func (f *Faults) Range(flag string, v, least, most int) {
	f.If(v < least || v > most, "%s %d: want %d to %d", flag, v, least, most)
}

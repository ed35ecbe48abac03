package cmdline

import (
	"fmt"
)

// Faults are the mistakes of a command line: all are told at once.
type Faults []error

// Note keeps an error, if there is one.
func (f *Faults) Note(err error) {
	if err != nil {
		*f = append(*f, err)
	}
}

// Prefixed puts the flag's name before each line of an error; nil stays nil.
func Prefixed(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

package cmdline

import (
	"fmt"

	"github.com/gobw/gobw/internal/plan"
)

// Faults are the mistakes of a command line: all are told at once.
type Faults = plan.Faults

// Prefixed puts the flag's name before each line of an error; nil stays nil.
func Prefixed(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

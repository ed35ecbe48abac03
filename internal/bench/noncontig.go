package bench

import (
	"errors"

	"github.com/gobw/gobw/internal/control"
)

// newNoncontig is the workload of one point of the non-contiguous experiment.
func newNoncontig(control.Plan, int, int) (workload, error) {
	return nil, errors.New("the non-contiguous experiment is not in this build")
}

package report

// Noncontig is the outcome of the non-contiguous experiment: its grid and its verdicts.
type Noncontig struct{}

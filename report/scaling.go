package report

import "github.com/gobw/gobw/report/stats"

// Step is one rung of '--threads auto': how fast messages of one size went with so many threads, and whether that is more
// than with the number before it.
type Step struct {
	SizeBytes    uint64         `json:"size_bytes"`
	Threads      int            `json:"threads"`
	MessagesPerS float64        `json:"messages_per_s"`    // median of the runs
	Gain         float64        `json:"gain,omitempty"`    // the rate over that of the step before; the first has none
	Verdict      *stats.Verdict `json:"verdict,omitempty"` // of the gain
	Knee         bool           `json:"knee,omitempty"`    // the last step that was shown to gain: more threads than these bring nothing
}

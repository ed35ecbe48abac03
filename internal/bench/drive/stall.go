package drive

import (
	"fmt"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// StallError is a test in which nothing moves although both ends live.
type StallError struct {
	For       time.Duration
	Transport verbs.Transport
	Progress  job.Progress
}

func (e *StallError) Error() string {
	return fmt.Sprintf("nothing moved for %v: %d messages posted, %d complete, %d received",
		e.For.Round(time.Second/10), e.Progress.Posted, e.Progress.Completed, e.Progress.Received)
}

// Remedy says what usually causes it.
func (e *StallError) Remedy() string {
	if e.Transport != verbs.RC {
		return "a lost datagram ends a ping-pong, and receivers that are too slow lose many: use -c RC, or more receives (-r)"
	}
	return "the two ends may run different tests (size, operation, iterations, who sends): give both the same flags; or UDP port 4791 is blocked: run 'gobw doctor HOST'"
}

//go:build !amd64 && !arm64

package job

import "time"

var base = time.Now() //nolint:gochecknoglobals // the origin of a monotonic clock

func now() Ticks { return Ticks(time.Since(base)) }

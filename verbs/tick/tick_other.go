//go:build !amd64 && !arm64

package tick

import "time"

var base = time.Now() //nolint:gochecknoglobals // the origin of a monotonic clock

func now() Time { return Time(time.Since(base)) }

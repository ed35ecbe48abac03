//go:build !linux

package machine

import "errors"

const realtimeRemedy = "leave --priority out"

// realtimePriority is refused.
type realtimePriority struct{}

func (*realtimePriority) raiseProcess() error {
	return errors.New("this program knows real-time priority on Linux only")
}

func (*realtimePriority) lower() error { return nil }

func realtimeThread() bool { return false }

//go:build !linux

package machine

import (
	"errors"
	"time"
)

var (
	errNoAffinity = errors.New("this system does not pin threads to CPUs")
	errNoMask     = errors.New("no signal mask of a thread on this system")
)

func AllowedCPUs() ([]int, error) { return nil, errNoAffinity }

func pinThread(int) (func() error, error) { return nil, errNoAffinity }

func blockPreemption() (func() error, error) { return nil, errNoMask }

func nodeCPUs(int, []int) []int { return nil }

func threadID() int { return 0 }

func processTime(int) time.Duration { return 0 }

func emulated(string) bool { return false }

// LockedLimit is not known here.
func LockedLimit() int64 { return -1 }

// CurrentNode is unknown here.
func CurrentNode() int { return -1 }

// Priority is not known here.
func Priority() string { return "normal" }

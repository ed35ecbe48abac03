//go:build !linux

package machine

import "errors"

var (
	errNoAffinity = errors.New("this system does not pin threads to CPUs")
	errNoMask     = errors.New("no signal mask of a thread on this system")
)

func AllowedCPUs() ([]int, error) { return nil, errNoAffinity }

func pinThread(int) (func() error, error) { return nil, errNoAffinity }

func blockPreemption() (func() error, error) { return nil, errNoMask }

func nodeCPUs(int, []int) []int { return nil }

func followThread() (read func() schedule, end func() error) {
	return func() schedule { return schedule{} }, func() error { return nil }
}

// CurrentNode is unknown here.
func CurrentNode() int { return -1 }

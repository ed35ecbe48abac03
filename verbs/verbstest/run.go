package verbstest

import (
	"io"
	"slices"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/tick"
)

// End is one end of a pair: a device and the address that its peer reaches it by.
type End struct {
	Device   verbs.Device
	Port     int // counted from 1
	GIDIndex int
	GID      verbs.GID
}

// Pair is two ends that can reach each other; both may be one device. MTU is the path MTU to use.
type Pair struct {
	A, B End
	MTU  verbs.MTU
	// Connect, where set, connects a queue pair of A and one of B, both in RESET, with these options each, in place of
	// what the ends are told of each other. It returns the connection's handles, newest first, and closes them by
	// t.Cleanup, where no test has.
	Connect func(t testing.TB, a, b verbs.QueuePair, ao, bo verbs.ConnectOptions) []io.Closer
	// Largest bounds the longest message tried, in bytes; 0: what the device grants, up to 2^31.
	Largest uint64
	// Timestamps has all completions stamped, not only those of the tests that look at stamps.
	Timestamps bool
}

// Run drives the provider behind newPair through the whole suite, or through the groups that are named. newPair opens
// fresh devices and closes them by t.Cleanup; it is called once per group of tests.
func Run(t *testing.T, newPair func(t *testing.T) Pair, d Deviations, only ...string) {
	t.Helper()
	d.check(t)
	all := groups()
	for _, name := range only {
		if !slices.ContainsFunc(all, func(g group) bool { return g.name == name }) {
			t.Errorf("the suite has no group %q", name)
		}
	}
	for _, g := range all {
		if len(only) > 0 && !slices.Contains(only, g.name) {
			continue
		}
		t.Run(g.name, func(t *testing.T) { g.run(&test{t, &suite{Pair: newPair(t), Deviations: d}}) })
	}
}

func groups() []group {
	return []group{
		{"lacks", testLacks},
		{"device", testDevice},
		{"handles", testHandles},
		{"churn", testChurn},
		{"memory", testMemory},
		{"data", testData},
		{"largest message", testLargest},
		{"flags", testFlags},
		{"queue", testQueues},
		{"states", testStates},
		{"status", testStatuses},
		{"flush", testFlush},
		{"bounds", testBounds},
		{"domains", testDomains},
		{"atomics", testAtomics},
		{"datagrams", testDatagrams},
		{"multicast", testMulticast},
		{"shared receives", testSharedReceives},
		{"events", testEvents},
		{"windows", testWindows},
		{"visibility", testVisibility},
		{"timestamps", testTimestamps},
		{"jobs", testJobs},
		{"job edges", testJobEdges},
		{"many", testMany},
	}
}

// group is tests that have a device of their own, or one of a group's.
type group struct {
	name string
	run  func(t *test)
}

// test is a test of a group, with what all of them know.
type test struct {
	*testing.T
	*suite
}

type suite struct {
	Pair
	Deviations
	rate tick.Rate // 0: not measured yet, see ticks
}

// Run runs a part of the test.
func (t *test) Run(name string, run func(t *test)) bool {
	return t.T.Run(name, func(part *testing.T) { run(&test{part, t.suite}) })
}

// ticks is how many ticks of jobs' clock a time takes.
func (t *test) ticks(d time.Duration) tick.Time {
	if t.rate == 0 {
		t.rate = tick.Start().PerNanosecond()
	}
	return t.rate.Ticks(d)
}

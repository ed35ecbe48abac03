package bench

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/internal/testrun/meeting"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// threadable is the software device as one that lets several threads work at once: they take turns at
// its lock. Its jobs run over its verbs.
type threadable struct{ verbs.Device }

func (d threadable) Info() verbs.DeviceInfo {
	i := d.Device.Info()
	i.Limits.Threads = 0
	return i
}

func needCPUs(t *testing.T, n int) {
	t.Helper()
	if cpus, err := machine.AllowedCPUs(); err != nil || len(cpus) < n {
		t.Skipf("%d CPUs are needed, one for each thread: there are %v (%v)", n, cpus, err)
	}
}

// partTests are tests of which two threads, or two rails, each do a part, with all data compared where that can be.
func partTests() []partTest {
	return []partTest{
		{"write", plan.Spec{Operation: plan.Write, Iterations: 500, Verify: plan.VerifyAll}, false},
		{"read", plan.Spec{Operation: plan.Read, Iterations: 500, Verify: plan.VerifyAll}, false},
		{"send", plan.Spec{Operation: plan.Send, Iterations: 500, Verify: plan.VerifyAll, Runs: 2}, true},
		{
			"both directions",
			plan.Spec{Operation: plan.Send, Iterations: 300, Verify: plan.VerifyAll, Bidirectional: true},
			true,
		},
		{"reversed", plan.Spec{Operation: plan.Write, Iterations: 300, Verify: plan.VerifyAll, Reversed: true}, false},
		{"atomic", plan.Spec{Operation: plan.Atomic, Iterations: 300, Verify: plan.VerifyAll}, false},
		{"events", plan.Spec{Operation: plan.Send, Iterations: 300, Events: true}, true},
		{"margins", plan.Spec{Operation: plan.Write, Duration: 60 * time.Millisecond, Margin: 10 * time.Millisecond}, false},
		{"several sizes", plan.Spec{Operation: plan.Write, Sizes: []int{64, 4096}, Duration: 20 * time.Millisecond}, false},
		{"UC", plan.Spec{Operation: plan.Send, Transport: verbs.UC, Duration: 30 * time.Millisecond}, true},
		{"UD", plan.Spec{Operation: plan.Send, Transport: verbs.UD, Duration: 30 * time.Millisecond}, true},
	}
}

type partTest struct {
	name   string
	spec   plan.Spec
	remote bool // the other end posts or receives in parts, too
}

// runParts runs a test and checks each of its records, which tell of the parts of
// the end that sends and of the other's.
func runParts(t *testing.T, p *pair, tt partTest, parts func(r *report.Record) (here, there []report.Share),
	check func(t *testing.T, r *report.Record, res *Result),
) {
	t.Helper()
	t.Run(tt.name, func(t *testing.T) {
		s := tt.spec
		s.Kind, s.QPs = plan.Bandwidth, 3
		if s.Sizes == nil && s.Operation != plan.Atomic {
			s.Sizes = []int{512}
		}
		res, err := p.run(t, s)
		if err != nil {
			t.Fatal(err)
		}
		if want := max(len(s.Sizes), 1) * max(s.Runs, 1); len(res.Records) != want {
			t.Fatalf("%d records, want %d", len(res.Records), want)
		}
		for i := range res.Records {
			r := &res.Records[i]
			here, there := parts(r)
			checkShares(t, here, s.Margin > 0)
			if (len(there) > 0) != tt.remote {
				t.Errorf("the other end tells of %d parts", len(there))
			} else if tt.remote {
				checkShares(t, there, false)
			}
			if (s.Iterations > 0 || s.Margin > 0) && !s.Bidirectional && here[0].Messages+here[1].Messages != r.Messages {
				t.Errorf("the parts moved %d and %d of %d messages", here[0].Messages, here[1].Messages, r.Messages)
			}
			check(t, r, res)
		}
	})
}

// TestThreads runs tests whose queue pairs two threads share: the record holds what each thread
// did, at each end that posts or receives.
func TestThreads(t *testing.T) {
	if testing.Short() {
		t.Skip("short: TestRails runs the same parts")
	}
	needCPUs(t, 2)
	p := newPair(t, func(d verbs.Device) verbs.Device { return threadable{d} })
	for _, tt := range append(
		partTests(),
		partTest{"flush", plan.Spec{Operation: plan.Flush, Iterations: 300, Verify: plan.VerifyAll}, false},
		partTest{"lists", plan.Spec{Operation: plan.Write, Iterations: 320, PostList: 16, CQMod: 16}, false},
		partTest{
			"warm-up by rate", plan.Spec{Operation: plan.Send, Duration: 30 * time.Millisecond, WarmupSteady: true}, true,
		},
	) {
		tt.spec.Threads = 2
		parts := func(r *report.Record) (here, there []report.Share) { return r.PerThread, r.PeerThreads }
		runParts(t, p, tt, parts, func(t *testing.T, r *report.Record, _ *Result) {
			if r.Threads != 2 {
				t.Errorf("the record says %d threads", r.Threads)
			}
		})
	}
}

func checkShares(t *testing.T, shares []report.Share, window bool) {
	t.Helper()
	if len(shares) != 2 || shares[0].QPs != 2 || shares[1].QPs != 1 {
		t.Fatalf("got %+v, want threads of 2 queue pairs and of 1", shares)
	}
	for i, s := range shares {
		if s.Seconds <= 0 || !window && (s.Messages == 0 || s.MessagesPerS <= 0 || s.Bytes == 0) {
			t.Errorf("thread %d did nothing: %+v", i, s)
		}
	}
}

// TestThreadsOfOneEngine: the software device refuses threads where they would work, and serves a peer that has some.
func TestThreadsOfOneEngine(t *testing.T) {
	needCPUs(t, 2)
	p := newPair(t, func(d verbs.Device) verbs.Device { return d })
	_, err := p.run(t, plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, QPs: 2, Threads: 2})
	if err == nil || !strings.Contains(err.Error(), "--threads 2: roce0 works for one thread at a time") {
		t.Errorf("got %v", err)
	}
	p = newPair(t, func(d verbs.Device) verbs.Device { return d })
	p.client = threadable{p.client}
	res, err := p.run(t,
		plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, QPs: 3, Threads: 2, Iterations: 100, Verify: plan.VerifyEnds})
	if err != nil {
		t.Fatal(err)
	}
	checkShares(t, res.Records[0].PerThread, false)
	_, err = p.run(t, plan.Spec{Operation: plan.Send, Kind: plan.Bandwidth, QPs: 3, Threads: 2, Iterations: 100})
	if err == nil || !strings.Contains(err.Error(), "one thread at a time") {
		t.Errorf("a receiver that has one engine took two threads: %v", err)
	}
}

// managed is a device of RDMA CM whose queue pairs several threads may use.
type managed struct {
	verbs.Device
	verbs.ConnectionManager
	transport string
}

func (d managed) Info() verbs.DeviceInfo {
	i := d.Device.Info()
	i.Limits.Threads, i.TransportType = 0, d.transport
	return i
}

// Prepare has the device run the job as it would alone.
func (d managed) Prepare(j *job.Job) (job.Runner, error) { return job.Prepare(d.Device, j) }

// TestBothWaysUntilDone sends both ways for a time, with few receives: an end whose thread is done goes on posting
// receives, in lists, for as long as the peer sends.
func TestBothWaysUntilDone(t *testing.T) {
	needCPUs(t, 2)
	both := plan.Spec{
		Operation: plan.Send, Kind: plan.Bandwidth, Bidirectional: true, Duration: 20 * time.Millisecond, Sizes: []int{64},
		RDMACM: true,
		QPs:    4, Runs: 10, RxDepth: 8, TxDepth: 64, CQMod: 32,
	}
	if testing.Short() {
		both.Runs = 3
	}
	for _, tt := range []struct {
		name, transport string
		threads, list   int
		events          bool
	}{
		{"lists", "IB", 1, 8, false},
		{"lists, threads", "IB", 2, 8, false},
		{"odd lists, threads", "IB", 2, 3, false},
		{"lists, threads, events", "IB", 2, 5, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.list == 3 {
				t.Skip("short: lists of 8 and of 5")
			}
			m := &meeting.Manager{}
			open := func() verbs.Device {
				d := m.Open(t, openOurs)
				return managed{d, d.(verbs.ConnectionManager), tt.transport}
			}
			s := both
			s.Threads, s.RecvList, s.Events = tt.threads, tt.list, tt.events
			results, err := runBoth(t, open(), open(), s, control.Ours)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range results {
				if len(r.Records) != s.Runs {
					t.Errorf("%d records, want %d", len(r.Records), s.Runs)
				}
			}
		})
	}
}

// TestEndless runs a test that ends when its user has seen enough, with receives
// posted in lists: by itself, and by threads.
func TestEndless(t *testing.T) {
	needCPUs(t, 2)
	for _, dialect := range []control.Dialect{control.Ours, control.Perftest} {
		for _, threads := range []int{1, 2} {
			for _, both := range []bool{false, true} {
				if testing.Short() && (both != (threads == 2) || both != (dialect == control.Perftest)) {
					continue
				}
				t.Run(fmt.Sprintf("%v, %d threads, both ways %v", dialect, threads, both), func(t *testing.T) {
					m := &meeting.Manager{}
					open := func() verbs.Device {
						d := m.Open(t, openOurs)
						return managed{d, d.(verbs.ConnectionManager), "IB"}
					}
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					rows := 0
					results, err := runBothWith(ctx, open(), open(), plan.Spec{
						Operation: plan.Send, Kind: plan.Bandwidth, Bidirectional: both, Duration: 20 * time.Millisecond, Infinite: true,
						Sizes: []int{64}, RDMACM: true, QPs: 4, Threads: threads, RxDepth: 8, RecvList: 3, NoPeak: true,
					}, dialect, Options{Kept: func(*Result, bool) {
						if rows++; rows == 5 {
							cancel()
						}
					}})
					if !errors.Is(err, context.Canceled) {
						t.Errorf("ended with %v after %d rows, want its user's word", err, rows)
					}
					if r := results[1]; r == nil || len(r.Records) != 1 || rows < 5 {
						t.Errorf("%d rows, result %+v; want the last", rows, r)
					}
				})
			}
		}
	}
}

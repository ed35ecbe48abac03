//go:build linux && cgo

package ibv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// plantedPair is two connected ends on a fake device with what is planted there.
func plantedPair(t testing.TB, planted map[string]string) (x, y *endpoint) {
	t.Helper()
	return plantedPairOf(t, 0, planted)
}

// plantedPairOf is the same with so many requests in flight; 0: as many as by default.
func plantedPairOf(t testing.TB, depth int, planted map[string]string) (x, y *endpoint) {
	t.Helper()
	d := openFake(t, fakeVerbs(t, planted))
	x = newEndpoint(t, d, 1, verbs.QueuePairOptions{SendDepth: depth, SendSGEs: 16})
	y = newEndpoint(t, d, 1, verbs.QueuePairOptions{})
	connect(t, x, y)
	return x, y
}

// judgesTime skips a test in the kernel lab, whose emulated CPU is slower than what is planted.
func judgesTime(t *testing.T) {
	t.Helper()
	if os.Getenv("GOBW_IBV_DEVICE") != "" {
		t.Skip("a device is under test, in the kernel lab on an emulated CPU: this judges time")
	}
}

// TestPlantedTime holds the device to the cost that it was given: it is never faster, and in
// the best of some tries hardly slower.
func TestPlantedTime(t *testing.T) {
	judgesTime(t)
	const messages, entries, size = 500, 4, 1000
	x, y := plantedPair(t,
		map[string]string{"REQUEST_NS": "2000", "ENTRY_NS": "500", "BYTE_NS": "1", "LATENCY_NS": "20000"})
	want := messages*(2000+entries*500+size)*time.Nanosecond + 20*time.Microsecond
	ring := x.ring(verbs.OpWrite, 1, size, y, 0)
	q := &ring[0].Steps[0].Requests[0]
	q.SGEs[0].Length /= entries
	for range entries - 1 {
		q.SGEs = append(q.SGEs, q.SGEs[0])
	}
	best := time.Hour
	for range 10 {
		began := time.Now()
		run(t, x.device, &job.Job{CQs: []verbs.CompletionQueue{x.cq}, Lanes: []job.Lane{{
			QP: x.qps[0], Ring: ring, Count: messages, Window: 128, Signal: 1, Batch: 1,
		}}}, 30_000_000)
		best = min(best, time.Since(began))
	}
	if best < want || best > want+want/10 {
		t.Errorf("%d messages took %v at best, want %v", messages, best, want)
	}
}

// TestPlantedFaults has the device do wrong to one request.
func TestPlantedFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		check func(t *testing.T, err error, got, want []byte)
	}{
		{"CORRUPT", func(t *testing.T, err error, got, want []byte) {
			if at := 3*64 + 16; err != nil || got[at] != want[at]^0x40 {
				t.Errorf("%v, byte %d is %#x where %#x was sent", err, at, got[at], want[at])
			}
			got[3*64+16] ^= 0x40
			if !bytes.Equal(got, want) {
				t.Error("another byte is wrong, too")
			}
		}},
		{"FAIL", func(t *testing.T, err error, _, _ []byte) {
			if e := (*verbs.CompletionError)(nil); !errors.As(err, &e) || e.Completion.Status != verbs.RetryExceeded {
				t.Errorf("%v, want that the retries are exceeded", err)
			}
		}},
		{"LOSE", func(t *testing.T, err error, _, _ []byte) {
			if err == nil || !strings.Contains(err.Error(), "a completion of another message than the next") {
				t.Errorf("%v, want that a completion is missing", err)
			}
		}},
	} {
		for _, inGo := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, loop in Go: %v", tt.name, inGo), func(t *testing.T) {
				x, y := plantedPair(t, map[string]string{tt.name: "4"})
				for i := range x.buffer.Bytes() {
					x.buffer.Bytes()[i] = byte(i)
				}
				r, err := job.Prepare(x.device, &job.Job{InGo: inGo, CQs: []verbs.CompletionQueue{x.cq}, Lanes: []job.Lane{{
					QP: x.qps[0], Ring: x.ring(verbs.OpWrite, 8, 33, y, 0), Count: 8, Window: 8, Signal: 1, Batch: 1,
				}}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = r.Close() }()
				p, err := r.Run(job.Now() + 30_000_000)
				if err == nil && !p.Done {
					err = os.ErrDeadlineExceeded
				}
				tt.check(t, err, y.buffer.Bytes()[1<<19:1<<19+7*64+33], striped(x.buffer.Bytes()))
			})
		}
	}
}

// striped is what eight messages of 33 bytes, 64 apart, leave of memory.
func striped(from []byte) []byte {
	to := make([]byte, 7*64+33)
	for k := range 8 {
		copy(to[k*64:k*64+33], from[k*64:])
	}
	return to
}

// TestPlantedCounters has the counters of the port begin anew while requests are carried out.
func TestPlantedCounters(t *testing.T) {
	sysfs := t.TempDir()
	x, y := plantedPair(t,
		map[string]string{"SYSFS": sysfs, "COUNTERS": "counters/port_xmit_discards:65530:4", "COUNTED": "100"})
	value := func() string {
		b, err := os.ReadFile(filepath.Join(sysfs, "class/infiniband/fake0/ports/1/counters/port_xmit_discards"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(b))
	}
	before := value()
	run(t, x.device, &job.Job{CQs: []verbs.CompletionQueue{x.cq}, Lanes: []job.Lane{{
		QP: x.qps[0], Ring: x.ring(verbs.OpWrite, 8, 64, y, 0), Count: 100, Window: 8, Signal: 1, Batch: 1,
	}}}, 30_000_000)
	if after := value(); before != "65530" || after != "4" {
		t.Errorf("%s before, %s after, want 65530 and 4", before, after)
	}
}

// TestPlantedPace: messages that are late are made up for, so that the average is what was asked, at a pace near what a
// message costs. Once the CPU stands still for as long as the kernel lets a real-time thread wait.
func TestPlantedPace(t *testing.T) {
	judgesTime(t)
	const messages, pace, bound = 20000, 10 * time.Microsecond, 100 * time.Millisecond
	planted := map[string]string{"REQUEST_NS": "2000", "LATENCY_NS": "2000", "HALT_MS": "50", "HALT_AT": "5000"}
	began, ticks := time.Now(), job.Now()
	time.Sleep(20 * time.Millisecond)
	perNs := float64(job.Now()-ticks) / float64(time.Since(began))
	const want = (messages - 1) * pace
	best := time.Hour
	for round := 0; round < 20 && best > want+want/50; round++ { // a busy machine only ever adds
		x, y := plantedPair(t, planted)
		began := time.Now()
		run(t, x.device, &job.Job{
			Pace: job.Ticks(perNs * float64(pace)), MakeUp: job.Ticks(perNs * float64(bound)),
			CQs: []verbs.CompletionQueue{x.cq}, Lanes: []job.Lane{{
				QP: x.qps[0], Ring: x.ring(verbs.OpWrite, 8, 64, y, 0), Count: messages, Window: 16, Signal: 1, Batch: 1,
			}},
		}, 30_000_000)
		best = min(best, time.Since(began))
	}
	if best < want-want/100 || best > want+want/50 {
		t.Errorf("%d messages at a pace of %v took %v at best, want %v", messages, pace, best, want)
	}
}

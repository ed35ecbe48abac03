package job

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gobw/gobw/verbs"
)

// fakeQP is a queue pair as far as Validate looks at it.
type fakeQP struct {
	verbs.QueuePair
	qpn       uint32
	transport verbs.Transport
}

func (q fakeQP) QPN() uint32                { return q.qpn }
func (q fakeQP) Transport() verbs.Transport { return q.transport }

type fakeCQ struct{ verbs.CompletionQueue }

func oneMessage(op verbs.Opcode) []Message {
	return []Message{{Steps: []Step{{Requests: []verbs.SendRequest{{Opcode: op}}}}}}
}

func TestJobValidate(t *testing.T) {
	qp := fakeQP{qpn: 17, transport: verbs.RC}
	cqs := []verbs.CompletionQueue{fakeCQ{}}
	good := Lane{QP: qp, Ring: oneMessage(verbs.OpWrite), Count: 1, Window: 4, Signal: 2, Batch: 2}
	with := func(edit func(*Lane)) []Lane {
		l := good
		edit(&l)
		return []Lane{l}
	}
	for _, tt := range []struct {
		name string
		job  Job
		want []string // parts of the error; none: valid
	}{
		{"valid", Job{Lanes: []Lane{good}, CQs: cqs}, nil},
		{"no lanes, no queues", Job{}, []string{"no lanes"}},
		{
			"everything at once",
			Job{Lanes: with(func(l *Lane) { l.Window, l.QP = 0, nil }), Pace: -1},
			[]string{"no completion queues", "pace of -1", "lane 0: no queue pair", "window 0"},
		},
		{"endless", Job{Lanes: with(func(l *Lane) { l.Count = 0 }), CQs: cqs}, []string{"sends for ever"}},
		{"ends by stop", Job{Lanes: with(func(l *Lane) { l.Count = 0 }), CQs: cqs, Stop: new(atomic.Uint32)}, nil},
		{"stuck", Job{Lanes: with(func(l *Lane) { l.Signal, l.Batch = 3, 2 }), CQs: cqs, Stop: nil}, nil},
		{
			"stuck window",
			Job{Lanes: with(func(l *Lane) { l.Signal, l.Batch = 3, 4 }), CQs: cqs},
			[]string{"gets stuck; want a window of at least 6"},
		},
		{"twice", Job{Lanes: []Lane{good, good}, CQs: cqs}, []string{"lanes 0 and 1 share qp 0x11"}},
		{
			"UC READ", Job{
				Lanes: with(func(l *Lane) { l.QP, l.Ring = fakeQP{qpn: 1, transport: verbs.UC}, oneMessage(verbs.OpRead) }),
				CQs:   cqs,
			}, []string{"UC has no RDMA_READ"},
		},
		{
			"empty message",
			Job{Lanes: with(func(l *Lane) { l.Ring = []Message{{}} }), CQs: cqs},
			[]string{"message 0: its last step posts nothing"},
		},
		{
			"expects without receives",
			Job{Lanes: with(func(l *Lane) { l.Expect = 3 }), CQs: cqs},
			[]string{"3 messages expected without receives"},
		},
		{
			"lists without receives",
			Job{Lanes: with(func(l *Lane) { l.ReceiveList = 3 }), CQs: cqs},
			[]string{"receives posted in lists of 3"},
		},
		{"lists that never fill", Job{Lanes: with(func(l *Lane) {
			l.Receives, l.Posted, l.Expect, l.ReceiveList = make([]verbs.ReceiveRequest, 4), 4, 20, 5
		}), CQs: cqs}, []string{"4 receives are posted: a list of 5 never becomes due"}},
		{"a short last list", Job{Lanes: with(func(l *Lane) {
			l.Receives, l.Posted, l.Expect, l.ReceiveList = make([]verbs.ReceiveRequest, 4), 4, 8, 5
		}), CQs: cqs}, nil},
		{
			"ping-pong without a byte", Job{
				Shape: PingPong, Lanes: with(func(l *Lane) { l.Batch, l.Await = 1, AwaitLastByte }), CQs: cqs,
			}, []string{"set FlagIn and FlagOut"},
		},
		{"ping-pong on two lanes", Job{Shape: PingPong, Lanes: []Lane{good, good}, CQs: cqs}, []string{"2 lanes"}},
		{"serve for ever", Job{Shape: Serve}, []string{"never ends"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.job.Validate()
			if (err == nil) != (len(tt.want) == 0) {
				t.Fatalf("%v, want parts %q", err, tt.want)
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}

package job

import (
	"fmt"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/gobw/gobw/verbs"
)

// Job is a measurement as data, compiled before the clock starts: what to post on which queue pairs, how much to keep
// in flight, what to wait for and when to stop. A device prepares it once and runs it alone: between Prepare and the
// end nobody else posts on its queue pairs or polls its completion queues.
//
// The meaning of a job is what the loop over a [Driver] does; a runner of another kind is compared with it.
type Job struct {
	Shape Shape
	// First tells, for PingPong, that this end moves first.
	First bool
	Lanes []Lane
	// CQs are all completion queues of the lanes, polled round robin. All lanes' queue pairs complete into them.
	CQs []verbs.CompletionQueue
	// Stop ends the job when it becomes non-zero. Posting goes on to the lane's next signaled message, so that none stays
	// behind whose completion nobody asked for; what is in flight is awaited, unless Abandon. Receives are not awaited.
	Stop    *atomic.Uint32
	Abandon bool
	// Channel, where set, is waited on instead of spinning when nothing completes (event mode, -e). All CQs belong to it.
	Channel verbs.CompletionChannel
	Record  *Recorder
	// Pace is the time between the starts of two messages of a lane; 0: as fast as it goes. A ping-pong's samples then
	// begin when a message is posted, and have no pause in them; one end alone should have a pace.
	Pace Ticks
	// MakeUp bounds the lateness that is made up for: messages that could not be posted when they were due follow each
	// other sooner, until the rate is as if none had been late. 0: Pace is the least time between two messages.
	MakeUp Ticks
	// Burst is how many messages of a lane may follow each other at once before it waits: the next
	// burst is due when Pace has passed for each message of this one. 0: 1.
	Burst int
	// InGo has the loop of this package run the job even where the device has a quicker one. Jobs with work for the CPU
	// always run in this loop, and figures of one loop can be compared.
	InGo bool
	// Trace, where set, is told every event in order: for the conformance suite, not for measuring.
	Trace func(TraceEvent)
}

// Shape is how a job moves.
type Shape uint8

// Shapes.
const (
	// Stream keeps every lane's window full until its count or the deadline, reposts receives, and ends when all that was
	// sent has completed and all that is expected has arrived.
	Stream Shape = iota
	// PingPong alternates on its only lane: send one message, await the peer's (or the own completion), and again.
	PingPong
	// Serve posts nothing but makes progress, so that a software device serves its peer promptly; it ends by Stop.
	Serve
)

func (s Shape) String() string {
	return name(s, "Shape", "stream", "ping-pong", "serve")
}

// Await is what ends one step of a ping-pong.
type Await uint8

// Awaits.
const (
	AwaitCompletion Await = iota // the own completion: READ, atomics, and any operation at window 1
	AwaitReceive                 // the peer's message, by its receive completion; the own completion is reaped on the way
	AwaitLastByte                // the peer's WRITE, by the last byte of the buffer it goes to
)

// Lane is one queue pair's part in a job, in both directions.
type Lane struct {
	QP verbs.QueuePair
	// Ring is what this end sends: message k is Ring[k % len]. Empty: this lane only receives.
	Ring []Message
	// Count is how many messages to send; 0 with a Ring: until Stop.
	Count uint64
	// Window is the number of messages in flight (posted, not yet known to be complete). A signaled completion retires
	// all messages up to its own. A batch is posted when all of it fits, so a Window below Signal + Batch less their
	// greatest common divisor could get stuck: Validate refuses it.
	Window int
	// Signal requests a completion on every Signal-th message, and on the last: 1 for all. At most Window.
	Signal int
	// Batch is the number of messages posted as one list; at most Window.
	Batch int
	// Group, where set, is how many messages belong together, and Groups how many such groups may be in flight: the first
	// message of another waits until all of an earlier one are known complete. Batch must be 1 then.
	Group, Groups int

	// Receives is the ring of receives that this end keeps posted: receive k is Receives[k % len]. Prepare
	// does not post them: call [Lane.PostInitial] before the peer may send. Each receive completion reposts
	// one while any remain due, see Posted.
	Receives []verbs.ReceiveRequest
	// SRQ takes the receives instead of the QP.
	SRQ verbs.SharedReceiveQueue
	// Posted is how many receives of the ring are posted when the job starts: [Lane.PostInitial] sets it. Receive
	// completion n (from 0) reposts receive Posted+n while that is below Expect, or always where Expect is 0.
	Posted uint64
	// Expect is how many messages to receive; 0 with Receives: until Stop.
	Expect uint64
	// ReceiveList is how many receives are posted again as one list, once so many have completed; the last list may be
	// shorter. 0: as many as a poll has brought. Posted must be at least ReceiveList, or no list ever becomes due.
	ReceiveList int
	// Unpack is done when receive k completes: Unpack[k % len]; empty: nothing.
	Unpack []Work

	// PingPong: what ends a step.
	Await Await
	// AwaitLastByte: before message k (from 1) the byte at FlagOut, the last of what is sent, becomes
	// byte(k); the step ends when the byte at FlagIn equals the count expected. Both lie outside the Go
	// heap, in a [verbs.Buffer]: C keeps them.
	FlagOut, FlagIn *byte
}

// Message is one message of a lane: its steps are done in order. All but non-contiguous pipelines have one step. Only
// the last request of the last step may be signaled by the runner, which owns the Signaled flag and the ID of every
// request; a message counts as complete when that request does.
type Message struct {
	Steps []Step
	Bytes uint64 // payload, for the recorder
	// Done is work after the message's own completion (unpacking what a READ fetched); it needs Signal 1.
	Done Work
}

// Step packs, then posts one list.
type Step struct {
	Pack     Work
	Requests []verbs.SendRequest
}

// Work is a copy done by the CPU inside a job: a kernel and its argument, which lives outside
// the Go heap. The zero Work does nothing.
type Work struct {
	Go  func(arg unsafe.Pointer)
	Arg unsafe.Pointer
}

// IsZero tells whether there is nothing to do.
func (w Work) IsZero() bool { return w.Go == nil }

// Runner is a prepared job. It belongs to one goroutine, locked to its thread.
type Runner interface {
	// Run works until the job is done, has failed, or the clock reaches the given time (a few milliseconds ahead), and
	// resumes where it left. It allocates nothing. It may be called again after Done: for the peer's sake it takes what
	// still comes and keeps receives posted. It counts that in the progress, but does not measure it. After an error it
	// must not be called again.
	Run(until Ticks) (Progress, error)
	// Received is how many messages a lane has received so far.
	Received(lane int) uint64
	// Close frees what Prepare made. It does not touch the queue pairs.
	Close() error
}

// Preparer is implemented by devices that run jobs themselves.
type Preparer interface {
	// Prepare compiles a job so that running it allocates, locks and logs nothing.
	Prepare(j *Job) (Runner, error)
}

// Prepare compiles a job for the device of its queue pairs: by the device itself where it
// runs jobs, else as a loop over its verbs.
func Prepare(d verbs.Device, j *Job) (Runner, error) {
	if p, ok := d.(Preparer); ok {
		return p.Prepare(j)
	}
	return NewVerbsRunner(d, j)
}

// NeedsGo tells whether only the loop of this package runs the job: InGo asks for that, or
// there is work for the CPU, or a pace.
func (j *Job) NeedsGo() bool {
	if j.InGo || j.Pace > 0 {
		return true
	}
	for i := range j.Lanes {
		l := &j.Lanes[i]
		if len(l.Unpack) > 0 ||
			slices.ContainsFunc(l.Ring,
				func(m Message) bool { return len(m.Steps) != 1 || !m.Steps[0].Pack.IsZero() || !m.Done.IsZero() }) {
			return true
		}
	}
	return false
}

// Progress is how far a job has come, since its start.
type Progress struct {
	Done      bool
	Posted    uint64 // messages posted
	Completed uint64 // messages known complete at this end
	Received  uint64 // messages received
	BytesOut  uint64 // payload of completed messages
	BytesIn   uint64 // payload of received messages
	FirstPost Ticks  // when the first post began; 0: nothing posted yet
	FirstIn   Ticks  // when the Run that saw the first receive began: only [Progress.Since] sets it
	LastDone  Ticks  // when the latest completion or receive was seen
}

// TraceEvent is one step of a runner as the conformance suite compares it.
type TraceEvent struct {
	Kind TraceKind
	Lane int
	N    uint64 // message or receive number, from 0
}

// TraceKind is the kind of a trace event.
type TraceKind uint8

// Trace kinds.
const (
	TracePost TraceKind = iota
	TraceComplete
	TraceReceive
	TraceRepost
)

func (k TraceKind) String() string {
	return name(k, "TraceKind", "post", "complete", "receive", "repost")
}

// name is the name of an enumeration's value, or "Type(7)" for one that has none.
func name[T ~uint8](v T, typ string, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", typ, uint8(v))
}

// PostInitial fills a lane's receive queue: as many receives as depth, but no more than are expected.
func (l *Lane) PostInitial(depth int) error {
	n := uint64(depth)
	if l.Expect > 0 {
		n = min(n, l.Expect)
	}
	for l.Posted = 0; l.Posted < n; l.Posted++ {
		if err := l.PostReceives(l.Posted, 1); err != nil {
			return err
		}
	}
	return nil
}

// PostReceives posts n receives of the lane as one list, from receive k on, which is Receives[k % len].
func (l *Lane) PostReceives(k uint64, n int) error {
	return l.postList(l.listed(nil, int(k%uint64(len(l.Receives))), n))
}

// listed is n receives of the ring from place at on: a slice of the ring, or a copy in room where they go over its end.
func (l *Lane) listed(room []verbs.ReceiveRequest, at, n int) []verbs.ReceiveRequest {
	if at+n <= len(l.Receives) {
		return l.Receives[at : at+n]
	}
	room = append(room[:0], l.Receives[at:]...)
	for len(room) < n {
		room = append(room, l.Receives[:min(n-len(room), len(l.Receives))]...)
	}
	return room
}

func (l *Lane) postList(list []verbs.ReceiveRequest) error {
	if l.SRQ != nil {
		return l.SRQ.PostReceive(list)
	}
	return l.QP.PostReceive(list)
}

// KeepsReceives tells whether a job posts receives again for as long as it is run, also when it is done: those
// of a stream without an end of its own.
func (j *Job) KeepsReceives() bool {
	return j.Shape == Stream &&
		slices.ContainsFunc(j.Lanes, func(l Lane) bool { return len(l.Receives) > 0 && l.Expect == 0 })
}

// Rotate makes a ring begin at its element n, counted round and round.
func Rotate[T any](ring []T, n uint64) []T {
	if len(ring) == 0 {
		return ring
	}
	k := int(n % uint64(len(ring)))
	return append(append([]T(nil), ring[k:]...), ring[:k]...)
}

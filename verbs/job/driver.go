package job

import (
	"context"
	"time"

	"github.com/gobw/gobw/verbs"
)

// Driver is a device as the loop sees it: it takes compiled requests in batches, and gives completions. Its methods are
// called by one goroutine; those between Enter and Leave allocate nothing.
type Driver interface {
	// Compile takes what a lane posts, once, before the job starts. A group is a list of requests that are posted
	// together: a message, or one step of it.
	Compile(lane int, l *Lane, groups [][]verbs.SendRequest) error
	// Enter begins a slice: the device belongs to the loop until Leave.
	Enter() error
	Leave()

	// Append puts requests on the lane's list, and Flush posts the list. AtOnce says that the list has left when Flush
	// returns; else it leaves when the device makes progress.
	Append(b Batch) error
	Flush(lane int, atOnce bool) error
	// Lists tells whether a list is more to the device than its requests: then a stream
	// posts each batch as a list of its own.
	Lists() bool
	// PostReceives posts n receives of the lane's ring, from place at on, beginning anew at its end.
	PostReceives(lane, at, n int) error

	// Progress makes the device receive and send what it can without waiting, and tells whether it did.
	Progress(now Ticks) (bool, error)
	// Poll takes completions from the job's queues.
	Poll(out []verbs.Completion) (int, error)
	// Idle is called when nothing moved. A job with a channel may wait there for an event, up to the limit; 0: not at all.
	Idle(limit Ticks) error

	Close() error
}

// Meter is a driver that accounts for its own posts and polls, where the job's recorder asks for CPU. Spent is how long
// they took since it was last called; of polls, those count that found something.
type Meter interface {
	Spent() (posting, polling Ticks)
}

// Batch is a run of a lane's groups, from First on, beginning anew after the last.
type Batch struct {
	Lane, First, N int
	ID             uint64 // of the first group's requests; each further group's is one more
	Signaled       bool   // the last request asks for a completion
	// Lazy says that nobody waits for the completion alone: the device may put off asking the peer for an acknowledgement.
	Lazy bool
}

// verbsDriver drives any device through its verbs.
type verbsDriver struct {
	job    *Job
	lanes  []verbsLane
	next   int  // the queue that is polled first
	armed  bool // the queues will announce an event, and have been polled since
	sleeps bool // the job only serves, and the device does so by itself
	idle   int  // rounds since it last yielded the processor
}

type verbsLane struct {
	*Lane
	groups [][]verbs.SendRequest
	list   []verbs.SendRequest
	posts  []verbs.ReceiveRequest // room for a list that goes over the ring's end
}

// NewVerbsRunner prepares a job to be run over PostSend, PostReceive and Poll of its device.
func NewVerbsRunner(d verbs.Device, j *Job) (Runner, error) {
	return NewRunner(j, NewVerbsDriver(d, j))
}

// NewVerbsDriver drives a device by its verbs.
func NewVerbsDriver(d verbs.Device, j *Job) Driver {
	sleeps := j.Shape == Serve && d.Info().ServesItself
	return &verbsDriver{job: j, lanes: make([]verbsLane, len(j.Lanes)), sleeps: sleeps}
}

func (d *verbsDriver) Compile(lane int, l *Lane, groups [][]verbs.SendRequest) error {
	longest := 0
	for _, g := range groups {
		longest = max(longest, len(g))
	}
	d.lanes[lane] = verbsLane{Lane: l, groups: groups, list: make([]verbs.SendRequest, 0, longest*max(l.Batch, 1))}
	return nil
}

func (d *verbsDriver) Enter() error { return nil }
func (d *verbsDriver) Leave()       {}
func (d *verbsDriver) Close() error { return nil }

func (d *verbsDriver) Append(b Batch) error {
	l := &d.lanes[b.Lane]
	at := b.First
	for k := range b.N {
		for _, q := range l.groups[at] {
			q.ID = b.ID + uint64(k)
			q.Flags &^= verbs.Signaled
			l.list = append(l.list, q)
		}
		at = wrap(at, 1, len(l.groups))
	}
	if b.Signaled {
		l.list[len(l.list)-1].Flags |= verbs.Signaled
	}
	return nil
}

func (d *verbsDriver) Flush(lane int, _ bool) error {
	l := &d.lanes[lane]
	if len(l.list) == 0 {
		return nil
	}
	err := l.QP.PostSend(l.list)
	l.list = l.list[:0]
	return err
}

func (d *verbsDriver) Lists() bool { return true }

func (d *verbsDriver) PostReceives(lane, at, n int) error {
	l := &d.lanes[lane]
	if cap(l.posts) < n {
		l.posts = make([]verbs.ReceiveRequest, 0, n)
	}
	return l.postList(l.listed(l.posts, at, n))
}

// Progress does nothing: polling drives a software device.
func (d *verbsDriver) Progress(Ticks) (bool, error) { return false, nil }

func (d *verbsDriver) Poll(out []verbs.Completion) (n int, err error) {
	for range d.job.CQs {
		got, err := d.job.CQs[d.next].Poll(out[n:])
		if n += got; err != nil || n == len(out) {
			return n, err
		}
		d.next = wrap(d.next, 1, len(d.job.CQs))
	}
	return n, nil
}

// Idle arms the queues first, so that they are polled once more before it waits. Where it spins, it yields the
// processor to the other end's thread, which may need it, but rarely, and never to Go's scheduler: on a locked
// thread that takes longer than most answers.
func (d *verbsDriver) Idle(limit Ticks) error {
	if d.sleeps {
		time.Sleep(serveWait)
		return nil
	}
	if d.job.Channel == nil || limit == 0 {
		if d.idle++; d.idle == yieldEvery {
			d.idle = 0
			YieldProcessor()
		}
		return nil
	}
	if !d.armed {
		for _, cq := range d.job.CQs {
			if err := cq.Arm(verbs.NotifyAny); err != nil {
				return err
			}
		}
		d.armed = true
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), eventWait)
	defer cancel()
	if _, err := d.job.Channel.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // nothing yet: look at the clock and the stop word
		}
		return err
	}
	d.armed = false
	return nil
}

const (
	// eventWait is how long a job waits for an event before it looks at the clock and the stop word.
	eventWait = 10 * time.Millisecond
	// yieldEvery rounds without work take tens of microseconds.
	yieldEvery = 64
	// serveWait is the same for one that only serves.
	serveWait = time.Millisecond
)

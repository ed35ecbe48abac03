package roce

import (
	"slices"

	"github.com/gobw/gobw/verbs/tick"
)

// clock makes sure that the engine looks at the queue pair when its requester wants that.
func (q *queuePair) clock() {
	at := q.request.Deadline()
	if at == tick.Never {
		return
	}
	if !q.timed {
		q.timed = true
		q.e.timed = append(q.e.timed, q)
	}
	q.e.timer(at)
}

// timer makes sure that the engine looks at its clocks at a time.
func (e *engine) timer(at tick.Time) {
	if at < e.nextTimer {
		e.nextTimer = at
	}
}

// restartClocks starts all clocks anew. The cycle counter of many machines begins at 0 again when they wake from
// suspend to memory: by the old deadlines nothing would be due for as long as they had been up.
func (e *engine) restartClocks(now tick.Time) {
	for _, q := range e.timed {
		q.request.RestartClocks(now)
	}
	e.nextTimer = now
	if e.network != nil {
		e.network.Restart(int64(now))
	}
}

// runTimers gives every queue pair whose deadline has come its tick.
func (e *engine) runTimers(now tick.Time) {
	e.nextTimer = tick.Never
	e.timed = slices.DeleteFunc(e.timed, func(q *queuePair) bool {
		if now >= q.request.Deadline() {
			q.onTick(now)
		}
		next := q.request.Deadline()
		q.timed = next != tick.Never
		e.timer(next)
		return !q.timed
	})
}

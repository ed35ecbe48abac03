package roce

import "github.com/gobw/gobw/verbs/tick"

// clock makes sure that the engine looks at the queue pair when its requester wants that.
func (q *queuePair) clock() {
	at := q.request.deadline()
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

// runTimers gives every queue pair whose deadline has come its tick.
func (e *engine) runTimers(now tick.Time) {
	e.nextTimer = tick.Never
	for i := 0; i < len(e.timed); i++ {
		q := e.timed[i]
		if now >= q.request.deadline() {
			q.onTick(now)
		}
		if !q.timed {
			i-- // it failed and took itself off the list
			continue
		}
		next := q.request.deadline()
		if next == tick.Never {
			e.untime(q)
			i--
			continue
		}
		e.timer(next)
	}
}

// untime takes a queue pair off the list of those with clocks.
func (e *engine) untime(q *queuePair) {
	if !q.timed {
		return
	}
	q.timed = false
	for i, other := range e.timed {
		if other == q {
			last := len(e.timed) - 1
			e.timed[i] = e.timed[last]
			e.timed = e.timed[:last]
			return
		}
	}
}

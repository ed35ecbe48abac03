package job

import (
	"sync/atomic"
	"unsafe"
)

// alternate does what a ping-pong can do now. The end that moves first posts and awaits in each step, the other awaits
// and posts. A sample is the time from the end of one step's await to the next one's, so that nothing falls between two
// samples; the end that does not move first has none for its first step.
func (r *loop) alternate(now Ticks, ended bool) (moved, done bool, err error) {
	l := &r.lanes[0]
	finished := l.Count > 0 && r.steps == l.Count
	if finished || ended {
		last := l.posted - l.posted%uint64(l.Signal)
		if finished {
			last = l.posted
		}
		if l.retired >= last {
			return true, true, nil
		}
		moved, err = r.listen(now)
		return moved, false, err
	}
	sendsFirst := r.job.First || l.Await == AwaitCompletion
	if !r.sent && sendsFirst {
		if now < l.nextPost || l.posted-l.retired >= uint64(l.Window) {
			moved, err = r.listen(now)
			return moved, false, err
		}
		if r.steps == 0 || r.job.Pace > 0 {
			r.stepStart = Now()
		}
		if err := r.postNext(l, now); err != nil {
			return false, false, err
		}
		r.sent = true
	}
	if moved, err = r.listen(now); err != nil || !l.arrived(r.steps) {
		return moved, false, err
	}
	if !r.sent || sendsFirst {
		r.lap, r.lapped = r.endStep(Now(), sendsFirst)
		if l.Await == AwaitLastByte {
			r.progress.LastDone = r.stepStart
		}
	}
	if !sendsFirst {
		r.sent = true // do not stamp again while the window is full
		if now < l.nextPost || l.posted-l.retired >= uint64(l.Window) {
			return moved, false, nil
		}
		if r.job.Pace > 0 {
			r.stepStart = Now() // no pause is part of a sample
		}
		if err := r.postNext(l, now); err != nil {
			return false, false, err
		}
	}
	r.sent = false
	r.steps++
	return true, false, nil
}

// endStep takes the end of an await, and returns the step's sample, if it has one.
func (r *loop) endStep(now Ticks, sendsFirst bool) (lap Ticks, is bool) {
	device := !r.record.Clock.IsZero()
	lap, is = now-r.stepStart, r.record.Samples && (r.steps > 0 || sendsFirst && !device)
	if device && is {
		r.record.Elapsed += lap
		lap = Ticks(r.record.Clock.Between(r.stepAwaited, r.awaited))
	}
	r.stepStart, r.stepAwaited = now, r.awaited
	return lap, is
}

// listen does what was put off until the answer had gone out, then drives the device one round.
func (r *loop) listen(now Ticks) (moved bool, err error) {
	if len(r.owing) > 0 || r.lapped {
		if err := r.catchUp(); err != nil {
			return false, err
		}
	}
	return r.poll(now)
}

// postNext posts the next message, which leaves at once.
func (r *loop) postNext(l *lane, now Ticks) error {
	if l.Await == AwaitLastByte {
		storeByte(l.FlagOut, byte(l.posted+1))
	}
	return r.post(l, 1, now)
}

// arrived tells whether what ends step k has happened.
func (l *lane) arrived(k uint64) bool {
	switch l.Await {
	case AwaitCompletion:
		return l.retired > k
	case AwaitReceive:
		return l.received > k
	case AwaitLastByte:
		return LoadByte(l.FlagIn) == byte(k+1)
	default:
		return false
	}
}

// LoadByte reads a byte that a device may write, with acquire order, by the aligned
// word around it: Go has no atomic bytes.
func LoadByte(p *byte) byte {
	offset := uintptr(unsafe.Pointer(p)) & 3
	word := atomic.LoadUint32((*uint32)(unsafe.Add(unsafe.Pointer(p), -int(offset))))
	return (*[4]byte)(unsafe.Pointer(&word))[offset]
}

// storeByte writes a byte that a device reads, after everything stored before.
func storeByte(p *byte, b byte) {
	*p = b
	offset := uintptr(unsafe.Pointer(p)) & 3
	atomic.AddUint32((*uint32)(unsafe.Add(unsafe.Pointer(p), -int(offset))), 0) // a full barrier
}

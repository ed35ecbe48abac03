package machine

import (
	"errors"

	"github.com/gobw/gobw/verbs"
)

// The words of --priority, and what the environment of a result says.
const (
	PriorityNormal   = "normal"
	PriorityRealtime = "realtime"
)

// CheckPriority tells whether this process may have the priority that was asked for.
func (c CPUChoice) CheckPriority() error {
	if !c.Realtime {
		return nil
	}
	if c.CPUs == nil && keepsNothing("/proc/sys/kernel/sched_rt_runtime_us") {
		return &verbs.Error{
			Verb: "--priority realtime", Err: errors.New("with kernel.sched_rt_runtime_us -1, other programs get no time on the measuring CPU"),
			Fix: "sysctl kernel.sched_rt_runtime_us=950000, or choose the measuring CPU: --cpu N",
		}
	}
	var p realtimePriority
	return errors.Join(p.raise(), p.lower())
}

// keepsNothing reads how much of a second the kernel lets threads of real-time priority have, in microseconds; -1: all of it.
func keepsNothing(file string) bool { return firstLine(file) == "-1" }

// raise puts this process before all others of the host, its threads as they are now; once more, those made since. Where no priority
// was asked for, p is nil.
func (p *realtimePriority) raise() error {
	if p == nil {
		return nil
	}
	if err := p.raiseProcess(); err != nil {
		return errors.Join(&verbs.Error{Verb: "--priority realtime", Err: err, Fix: realtimeRemedy}, p.lower())
	}
	return nil
}

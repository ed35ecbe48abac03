package plan

import (
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// Steps is how requests walk through memory: request k goes to Start + (k mod Places) × Stride.
type Steps struct{ Start, Stride, Places int }

// At is where request k lies.
func (s Steps) At(k uint64) int { return s.Start + int(k%uint64(s.Places))*s.Stride }

// stepsWithin walk a page as perftest does: by the size rounded up to a cache line, and not at all
// where a page holds less than two messages.
func (s *Settled) stepsWithin(size int) Steps {
	if size > s.page/2 {
		return Steps{Places: 1}
	}
	stride := int(align(uint64(max(size, 1)), uint64(s.line)))
	return Steps{Stride: stride, Places: max(s.page/stride, 1)}
}

// SendSteps is how messages of a size walk through the slot that they are sent from. Latency tests do not walk; where
// every message is compared, each has a place of its own.
func (s *Settled) SendSteps(size int) Steps {
	switch {
	case s.Spec.Kind == Latency:
		return Steps{Places: 1}
	case s.spread > 0:
		return Steps{Stride: int(align(uint64(s.largest+verbs.GRHBytes), uint64(s.line))), Places: s.spread}
	default:
		return s.stepsWithin(size)
	}
}

// ReceiveSteps is how receives walk, and how long each is: those that may outlive a round, because the test keeps them
// posted or because messages may be lost, do not depend on the size, and UD leaves room for the header.
func (s *Settled) ReceiveSteps(size int) (Steps, int) {
	length := size
	if s.OpenEnded() || s.Spec.Transport != verbs.RC {
		length = s.largest
	}
	switch {
	case s.spread > 0:
		return s.SendSteps(size), s.largest
	case s.Spec.Kind == Latency:
		return Steps{Places: 1}, length
	case s.Spec.Transport == verbs.UD:
		return s.stepsWithin(length + verbs.GRHBytes), length
	default:
		return s.stepsWithin(length), length
	}
}

// RingLength is after how many messages of a round places and mix both begin anew.
func (s *Settled) RingLength(size int) int {
	places, cycle := s.SendSteps(size).Places, len(s.Spec.Cycle(size))
	return places / job.GCD(places, cycle) * cycle
}

// Rings are the lengths of the longest rings of a queue pair at this end: of messages to send, and of receives.
func (s *Settled) Rings() (messages, receives int) {
	if s.Point != nil {
		return s.Point.rings(s)
	}
	for _, size := range s.Spec.Sizes {
		if s.Sends() {
			messages = max(messages, s.RingLength(size))
		}
		switch {
		case !s.Receives():
		case s.Row.Addressed(): // with immediate: the data goes elsewhere
			receives = max(receives, 1)
		default:
			steps, _ := s.ReceiveSteps(size)
			receives = max(receives, steps.Places)
		}
	}
	return messages, receives
}

package bench

import (
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

// Role is an end's part in a test. It does not depend on who dialled.
type Role uint8

// Roles.
const (
	Initiator Role = iota // posts the requests (in a bidirectional test: like the other end)
	Target                // is written to, read from, or receives
)

func (r Role) String() string { return [...]string{"initiator", "target"}[r] }

// RoleOf tells the part of the end that dialled, or did not, in a plan.
func RoleOf(p control.Plan, dialled Dialled) Role {
	if bool(dialled) != p.Reversed {
		return Initiator
	}
	return Target
}

// Dialled tells the client from the server.
type Dialled bool

// Opcode is the request that a plan posts.
func Opcode(p control.Plan) verbs.Opcode {
	switch p.Operation {
	case control.Read:
		return verbs.OpRead
	case control.Send:
		if p.SendImm {
			return verbs.OpSendWithImmediate
		}
		return verbs.OpSend
	case control.Atomic:
		if p.AtomicType == verbs.OpCompareSwap {
			return verbs.OpCompareSwap
		}
		return verbs.OpFetchAdd
	default:
		if p.WriteImm {
			return verbs.OpWriteWithImmediate
		}
		return verbs.OpWrite
	}
}

// answers tells whether both ends send in turn: a latency test of an operation that the peer can see arrive.
func answers(p control.Plan) bool {
	return p.Kind == control.Latency && (p.Operation == control.Send || p.Operation == control.Write)
}

// sends tells whether this end posts requests.
func sends(p control.Plan, r Role) bool { return r == Initiator || p.Bidirectional || answers(p) }

// receives tells whether this end posts receives.
func receives(p control.Plan, r Role) bool {
	return Opcode(p).NeedsReceive() && (r == Target || p.Bidirectional || answers(p))
}

// limited tells READ and atomics, whose number in flight the devices limit, from the rest.
func limited(p control.Plan) bool {
	return p.Operation == control.Read || p.Operation == control.Atomic
}

// grhBytes is the room that a UD receive leaves in front for the global routing header.
const grhBytes = 40

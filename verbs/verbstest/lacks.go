package verbstest

import (
	"testing"

	"github.com/gobw/gobw/verbs"
)

// testLacks holds the device to refusing what its table says that it lacks: a row that is no longer true fails.
func testLacks(t *testing.T, s *suite) {
	refused := map[Case]func(t *testing.T) (taken bool){
		HasUnconnected: func(t *testing.T) bool { return takesTransport(t, s, verbs.UC) || takesTransport(t, s, verbs.UD) },
		HasImmediate: func(t *testing.T) bool {
			return takesOpcode(t, s, verbs.OpSendWithImmediate) || takesOpcode(t, s, verbs.OpWriteWithImmediate)
		},
		HasAtomics: func(t *testing.T) bool {
			return s.pair.A.Device.Info().Limits.Atomic || takesOpcode(t, s, verbs.OpFetchAdd) || takesOpcode(t, s, verbs.OpCompareSwap)
		},
		HasPKeys: func(*testing.T) bool {
			keys, err := s.pair.A.Device.PKeys(max(s.pair.A.Port, 1))
			return err == nil && len(keys) > 0
		},
		HasEmptyLists: func(t *testing.T) bool {
			return newRig(t, s, rigOptions{}).b.qp.PostReceive([]verbs.ReceiveRequest{{ID: 1}}) == nil
		},
		ConnectsByHand: func(t *testing.T) bool {
			r := newRig(t, s, rigOptions{short: verbs.StateRTS - verbs.StateInit})
			return verbs.ConnectQP(r.a.qp, r.connectOptions(r.a, rigOptions{})) == nil
		},
	}
	for _, v := range s.dev {
		if !v.Refused {
			continue
		}
		t.Run(string(v.Case), func(t *testing.T) {
			if taken, known := refused[v.Case]; !known {
				t.Error("the suite does not know how to see that this is refused")
			} else if taken(t) {
				t.Errorf("the device has it: take the row away (%s; %s)", v.Reason, v.Source)
			}
		})
	}
}

func takesTransport(t *testing.T, s *suite, transport verbs.Transport) bool {
	t.Helper()
	d := s.pair.A.Device
	pd := got(d.AllocPD()).closing(t, "domain")
	cq := got(d.CreateCQ(verbs.CompletionQueueOptions{})).closing(t, "CQ")
	qp, err := pd.CreateQP(verbs.QueuePairOptions{Transport: transport, SendCQ: cq})
	if err == nil {
		closing(t, "QP", qp)
	}
	return err == nil
}

func takesOpcode(t *testing.T, s *suite, op verbs.Opcode) bool {
	t.Helper()
	r := newRig(t, s, rigOptions{})
	return r.a.qp.PostSend([]verbs.SendRequest{r.a.request(1, op, 8)}) == nil
}

// needOpcode skips a test of what the device lacks.
func (s *suite) needOpcode(t *testing.T, op verbs.Opcode) {
	t.Helper()
	if op.HasImmediate() && s.dev.lacks(HasImmediate) || (op == verbs.OpFetchAdd || op == verbs.OpCompareSwap) && s.dev.lacks(HasAtomics) {
		t.Skipf("the device has no %v", op)
	}
}

// transports are those of the list that the device has.
func (s *suite) transports(list ...verbs.Transport) (has []verbs.Transport) {
	for _, t := range list {
		if t == verbs.RC || !s.dev.lacks(HasUnconnected) {
			has = append(has, t)
		}
	}
	return has
}

// refused is the status of a request that the peer refuses.
func (s *suite) refused(op verbs.Opcode, usual verbs.Status) verbs.Status {
	if op == verbs.OpRead {
		return s.dev.status(RefusedReadByPeer, usual)
	}
	return s.dev.status(RefusedByPeer, usual)
}

// notAllowed is the status of a request for which the peer's memory or queue pair has no right.
func (s *suite) notAllowed(op verbs.Opcode, usual verbs.Status) verbs.Status {
	if _, deviates := s.dev.find(ReadRights); deviates && op == verbs.OpRead {
		return s.dev.status(ReadRights, usual)
	}
	return s.refused(op, usual)
}

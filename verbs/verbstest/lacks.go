package verbstest

import (
	"slices"

	"github.com/gobw/gobw/verbs"
)

// testLacks holds the device to refusing what its table says that it lacks: a row that is no longer true fails.
func testLacks(t *test) {
	for _, v := range t.Deviations {
		if !v.Refused {
			continue
		}
		t.on(string(v.Case), rigOptions{}, func(r *rig) {
			create := func(transport verbs.Transport) error {
				return closed(r.a.pd.CreateQP(verbs.QueuePairOptions{Transport: transport, SendCQ: r.a.sendCQ}))
			}
			post := func(op verbs.Opcode) error { return r.a.try(r.a.request(1, op, 8)) }
			var tried []error
			switch v.Case {
			case HasUnconnected:
				tried = []error{create(verbs.UC), create(verbs.UD)}
			case HasImmediate:
				tried = []error{post(verbs.OpSendWithImmediate), post(writeImmediate)}
			case HasAtomics:
				tried = []error{post(fetchAdd), post(compareSwap)}
			case HasPKeys:
				if keys, err := r.a.end.Device.PKeys(max(r.a.end.Port, 1)); err == nil && len(keys) > 0 {
					tried = []error{nil}
				}
			case HasEmptyLists:
				tried = []error{postReceive(r.b.qp, 1)}
			case ConnectsByHand:
				r = newRig(r.test, rigOptions{short: verbs.StateRTS - verbs.StateInit})
				tried = []error{verbs.ConnectQP(r.a.qp, r.connectOptions(r.a, rigOptions{}))}
			default:
				r.Error("the suite does not know how to see that this is refused")
			}
			if slices.Contains(tried, nil) {
				r.Errorf("the device has it: take the row away (%s; %s)", v.Reason, v.Source)
			}
		})
	}
}

// needOpcode skips a test of what the device lacks.
func (t *test) needOpcode(op verbs.Opcode) {
	t.Helper()
	if op.HasImmediate() && t.lacks(HasImmediate) || (op == fetchAdd || op == compareSwap) &&
		t.lacks(HasAtomics) {
		t.Skipf("the device has no %v", op)
	}
}

// transports are those of the list that the device has.
func (t *test) transports(list ...verbs.Transport) (has []verbs.Transport) {
	for _, v := range list {
		if v == verbs.RC || !t.lacks(HasUnconnected) {
			has = append(has, v)
		}
	}
	return has
}

// refused is the status of a request that the peer refuses.
func (t *test) refused(op verbs.Opcode, usual verbs.Status) verbs.Status {
	if op == read {
		return t.status(RefusedReadByPeer, usual)
	}
	return t.status(RefusedByPeer, usual)
}

// notAllowed is the status of a request for which the peer's memory or queue pair has no right.
func (t *test) notAllowed(op verbs.Opcode, usual verbs.Status) verbs.Status {
	if t.deviates(ReadRights) && op == read {
		return t.status(ReadRights, usual)
	}
	return t.refused(op, usual)
}

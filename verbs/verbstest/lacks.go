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
		t.Run(string(v.Case), func(t *test) {
			r := newRig(t, rigOptions{})
			create := func(transport verbs.Transport) error {
				return closed(r.a.pd.CreateQP(verbs.QueuePairOptions{Transport: transport, SendCQ: r.a.sendCQ}))
			}
			post := func(op verbs.Opcode) error { return r.a.qp.PostSend([]verbs.SendRequest{r.a.request(1, op, 8)}) }
			var tried []error
			switch v.Case {
			case HasUnconnected:
				tried = []error{create(verbs.UC), create(verbs.UD)}
			case HasImmediate:
				tried = []error{post(verbs.OpSendWithImmediate), post(verbs.OpWriteWithImmediate)}
			case HasAtomics:
				tried = []error{post(verbs.OpFetchAdd), post(verbs.OpCompareSwap)}
			case HasPKeys:
				if keys, err := r.a.end.Device.PKeys(max(r.a.end.Port, 1)); err == nil && len(keys) > 0 {
					tried = []error{nil}
				}
			case HasEmptyLists:
				tried = []error{r.b.qp.PostReceive([]verbs.ReceiveRequest{{ID: 1}})}
			case ConnectsByHand:
				r = newRig(t, rigOptions{short: verbs.StateRTS - verbs.StateInit})
				tried = []error{verbs.ConnectQP(r.a.qp, r.connectOptions(r.a, rigOptions{}))}
			default:
				t.Error("the suite does not know how to see that this is refused")
			}
			if slices.Contains(tried, nil) {
				t.Errorf("the device has it: take the row away (%s; %s)", v.Reason, v.Source)
			}
		})
	}
}

// needOpcode skips a test of what the device lacks.
func (t *test) needOpcode(op verbs.Opcode) {
	t.Helper()
	if op.HasImmediate() && t.lacks(HasImmediate) || (op == verbs.OpFetchAdd || op == verbs.OpCompareSwap) &&
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
	if op == verbs.OpRead {
		return t.status(RefusedReadByPeer, usual)
	}
	return t.status(RefusedByPeer, usual)
}

// notAllowed is the status of a request for which the peer's memory or queue pair has no right.
func (t *test) notAllowed(op verbs.Opcode, usual verbs.Status) verbs.Status {
	if _, deviates := t.find(ReadRights); deviates && op == verbs.OpRead {
		return t.status(ReadRights, usual)
	}
	return t.refused(op, usual)
}

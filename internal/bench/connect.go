package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// connect exchanges facts and addresses and connects the queue pairs.
func (r *run) connect(ctx context.Context, spec plan.Spec) error {
	tables, err := r.rails.Tables(r.o.GIDIndex)
	if err != nil {
		return err
	}
	remote, err := r.exchangeFacts(ctx, spec, tables)
	if err != nil {
		return err
	}
	r.result.Warnings = append(r.result.Warnings, r.plan.Notes...)
	if r.plan.Ours() && len(remote.Rails) < len(r.rails)-1 {
		return fmt.Errorf("the peer has %d devices, the test has %d", len(remote.Rails)+1, len(r.rails))
	}
	ends := endpoint.Ends{
		Local: r.session.LocalAddr(), Remote: r.session.RemoteAddr().Addr(), Dialled: r.session.Dialled(),
	}
	server, err := r.rails.ChooseGIDs(tables, append([][]verbs.GIDEntry{remote.GIDs}, remote.Rails...), r.o.GIDIndex, ends)
	if err != nil {
		return err
	}
	r.describe()
	if r.end, err = endpoint.New(r.rails, r.plan, endpoint.Options{Step: r.o.Step}); err != nil {
		if _, said := errors.AsType[*verbs.Error](err); said {
			return err
		}
		return &verbs.Error{Verb: "set up", Device: r.rails[0].Device.Info().Name, Err: err}
	}
	if r.spec.RDMACM {
		if err := r.end.Join(ctx, r.session, server); err != nil {
			return err
		}
	}
	peer, err := r.session.Exchange(ctx, r.end.Addresses())
	if err != nil {
		return err
	}
	if r.o.DLID != 0 {
		for q := range peer {
			peer[q].LID = r.o.DLID
		}
	}
	if err := r.end.Connect(peer, r.o.Policy.Data); err != nil {
		return err
	}
	if r.plan.SendsToGroup() {
		time.Sleep(groupSpreads)
	}
	r.describe()
	if r.o.Connected != nil {
		r.o.Connected(r.plan, r.end)
	}
	return r.end.Ready(func() error { return r.session.Sync(ctx, control.PhaseConnected, 0, false) })
}

// exchangeFacts settles the test with what both ends are.
func (r *run) exchangeFacts(ctx context.Context, spec plan.Spec, tables [][]verbs.GIDEntry) (control.Facts, error) {
	local, err := endpoint.LocalFacts(r.rails[0].Device, r.rails[0].Port.Number)
	if err != nil {
		return local, err
	}
	local.MTU, local.MaxOutstanding, local.GIDs, local.Rails = r.plan.MTU, r.plan.Outstanding, tables[0], tables[1:]
	descriptors, client := descriptorsOf(&spec), r.session.Dialled()
	if descriptors != nil && client && !r.o.List.came {
		local.List = r.o.List.packed
	}
	remote, err := r.session.Facts(ctx, local)
	if err != nil {
		return remote, err
	}
	if descriptors != nil {
		if !client && r.o.List.digest != descriptors.Digest {
			if err := r.o.List.take(remote.List, descriptors); err != nil {
				return remote, err
			}
		}
		r.o.List.came = true
	}
	return remote, r.settle(spec, plan.Peer{
		Perftest: !r.plan.Ours(), PageBytes: remote.PageBytes, LineBytes: remote.CacheLineBytes, MTU: remote.MTU,
		Outstanding: remote.MaxOutstanding,
	})
}

func descriptorsOf(spec *plan.Spec) *plan.Descriptors {
	if spec.Noncontig == nil {
		return nil
	}
	return spec.Noncontig.Descriptors
}

// groupSpreads is how long switches get to learn who has joined a group; perftest waits as long.
const groupSpreads = 50 * time.Millisecond

// describe notes what this end is, as far as it is known.
func (r *run) describe() {
	here := &r.result.Here
	r.rails.Describe(here)
	if r.end == nil {
		return
	}
	here.MTU = r.end.MTU.Bytes()
	if api := r.end.PostAPI(); api != verbs.PostAuto {
		here.PostAPI = api.String()
	}
}

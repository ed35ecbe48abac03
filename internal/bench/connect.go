package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
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
	r.result.Warnings = append(r.result.Warnings, r.plan.Notes()...)
	if r.plan.Ours() && len(remote.Rails) < len(r.rails)-1 {
		return fmt.Errorf("the peer has %d devices, the test has %d", len(remote.Rails)+1, len(r.rails))
	}
	ends := endpoint.Ends{Local: r.session.LocalAddr(), Remote: r.session.RemoteAddr().Addr(), Dialled: r.session.Dialled()}
	server, err := r.rails.ChooseGIDs(tables, append([][]verbs.GIDEntry{remote.GIDs}, remote.Rails...), r.o.GIDIndex, ends)
	if err != nil {
		return err
	}
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
	addresses := r.end.Addresses()
	peer, err := r.session.Exchange(ctx, addresses)
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
	r.noteConnection(addresses)
	return r.end.Ready(func() error { return r.session.Sync(ctx, control.PhaseConnected, 0, false) })
}

// exchangeFacts settles the test with what both ends are.
func (r *run) exchangeFacts(ctx context.Context, spec plan.Spec, tables [][]verbs.GIDEntry) (control.Facts, error) {
	env := machine.Host()
	r.rails[:1].Describe(&env)
	local, err := endpoint.LocalFacts(r.rails[0].Device, r.rails[0].Port.Number)
	if err != nil {
		return local, err
	}
	local.MTU, local.MaxOutstanding, local.GIDs, local.Rails = r.plan.MTU(), r.plan.Outstanding(), tables[0], tables[1:]
	if local.Environment, err = json.Marshal(env); err != nil {
		return control.Facts{}, err
	}
	remote, err := r.session.Facts(ctx, local)
	if err != nil {
		return remote, err
	}
	if err := r.noteEnvironments(env, remote); err != nil {
		return remote, err
	}
	return remote, r.settle(spec, plan.Peer{
		Perftest: !r.plan.Ours(), PageBytes: remote.PageBytes, LineBytes: remote.CacheLineBytes, MTU: remote.MTU, Outstanding: remote.MaxOutstanding,
	})
}

// groupSpreads is how long switches get to learn who has joined a group; perftest waits as long.
const groupSpreads = 50 * time.Millisecond

// noteEnvironments keeps both ends' descriptions.
func (r *run) noteEnvironments(mine report.Environment, remote control.Facts) error {
	if len(remote.Environment) > 0 {
		r.theirs = &report.Environment{}
		if err := json.Unmarshal(remote.Environment, r.theirs); err != nil {
			return fmt.Errorf("the peer's environment: %w", err)
		}
	}
	res := r.result
	switch {
	case r.session.Dialled() || r.theirs == nil:
		res.Client, res.Server = mine, r.theirs
		r.mine = &res.Client
	default:
		res.Client, res.Server = *r.theirs, &mine
		r.mine, r.theirs = res.Server, &res.Client
	}
	return nil
}

func (r *run) noteConnection(addresses []control.Address) {
	l, first := r.mine, &r.rails[0]
	r.rails.DescribeAll(l)
	l.MTU = r.end.MTU().Bytes()
	postAPI, peer := r.end.PostAPI(), r.end.Peer()
	if postAPI != verbs.PostAuto {
		l.PostAPI = postAPI.String()
	}
	if r.theirs != nil {
		r.theirs.MTU = l.MTU
		if peer[0].HasGID {
			r.theirs.GID, r.theirs.GIDType = peer[0].GID.String(), l.GIDType
		}
	}
	if r.o.Connected == nil {
		return
	}
	c := Connection{
		Plan: r.plan, Local: addresses, Remote: peer, MTU: r.end.MTU(), Inline: r.end.Inline(),
		Device: first.Device.Info(), Port: first.Port, PostAPI: postAPI,
	}
	if first.UseGID {
		c.GID = &first.GID
	}
	if r.spec.DualPort && r.rails[1].UseGID {
		c.SecondGID = &r.rails[1].GID
	}
	r.o.Connected(c)
}

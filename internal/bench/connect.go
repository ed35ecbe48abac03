package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/gobw/gobw/internal/bench/machine"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// connect exchanges facts and addresses and connects the queue pairs.
func (r *run) connect(ctx context.Context, spec plan.Spec) error {
	tables, err := r.tables()
	if err != nil {
		return err
	}
	remote, err := r.exchangeFacts(ctx, spec, tables)
	if err != nil {
		return err
	}
	r.result.Warnings = append(r.result.Warnings, r.plan.Notes()...)
	server, err := r.chooseGIDs(tables, remote)
	if err != nil {
		return err
	}
	if r.end, err = newEndpoint(r.rails, r.plan, endpointOptions{mtu: r.plan.MTU(), planted: r.o.Planted, step: r.o.Step}); err != nil {
		if _, said := errors.AsType[*verbs.Error](err); said {
			return err
		}
		return setupOf("set up", r.rails[0].device.Info().Name, err)
	}
	if r.spec.RDMACM {
		if err := r.joinAll(ctx, server); err != nil {
			return err
		}
	}
	addresses := r.end.addresses()
	if r.peer, err = r.session.Exchange(ctx, addresses); err != nil {
		return err
	}
	if r.spec.RDMACM {
		if r.peer, err = r.end.pair(r.peer); err != nil {
			return err
		}
	}
	if r.o.DLID != 0 {
		for q := range r.peer {
			r.peer[q].LID = r.o.DLID
		}
	}
	if err := r.end.connect(r.peer, r.o.Policy.Data); err != nil {
		return err
	}
	if r.plan.SendsToGroup() {
		time.Sleep(groupSpreads)
	}
	r.noteConnection(addresses)
	return r.end.timed("ready", r.end.created, func() error { return r.session.Sync(ctx, control.PhaseConnected, 0, false) })
}

// exchangeFacts settles the test with what both ends are.
func (r *run) exchangeFacts(ctx context.Context, spec plan.Spec, tables [][]verbs.GIDEntry) (control.Facts, error) {
	info := r.rails[0].device.Info()
	env := describe(machine.Host(), r.rails[0].device, r.rails[0].port)
	local := control.Facts{
		PageBytes: os.Getpagesize(), CacheLineBytes: machine.CacheLine(), MTU: r.plan.MTU(), MaxOutstanding: r.plan.Outstanding(), GIDs: tables[0], Rails: tables[1:],
		Limits: &info.Limits,
	}
	var err error
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
		Perftest: !r.ours, PageBytes: remote.PageBytes, LineBytes: remote.CacheLineBytes, MTU: remote.MTU, Outstanding: remote.MaxOutstanding,
	})
}

// groupSpreads is how long switches get to learn who has joined a group; perftest waits as long.
const groupSpreads = 50 * time.Millisecond

func setupOf(verb, device string, err error) error {
	return &verbs.Error{Verb: verb, Device: device, Err: err}
}

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
	l.MTU = r.end.mtu.Bytes()
	postAPI := verbs.PostsBy(r.end.qps[0])
	if postAPI != verbs.PostAuto {
		l.PostAPI = postAPI.String()
	}
	if first.useGID {
		l.GIDIndex, l.GID, l.GIDType = first.gid.Index, first.gid.GID.String(), first.gid.Type.String()
	}
	describeRails(l, r.rails)
	if r.theirs != nil {
		r.theirs.MTU = l.MTU
		if r.peer[0].HasGID {
			r.theirs.GID, r.theirs.GIDType = r.peer[0].GID.String(), l.GIDType
		}
	}
	if r.o.Connected == nil {
		return
	}
	c := Connection{
		Plan: r.plan, Role: r.plan.Role(), Local: addresses, Remote: r.peer, MTU: r.end.mtu, Inline: r.end.inline,
		Outstanding: r.plan.Outstanding(), Device: first.device.Info(), Port: first.port, PostAPI: postAPI,
	}
	if first.useGID {
		gid := first.gid
		c.GID = &gid
	}
	if r.spec.DualPort && r.rails[1].useGID {
		second := r.rails[1].gid
		c.SecondGID = &second
	}
	r.o.Connected(c)
}

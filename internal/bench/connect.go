package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// connect exchanges facts and addresses and connects the queue pairs.
func (r *run) connect(ctx context.Context, spec plan.Spec) error {
	table, err := r.device.GIDs(r.port.Number)
	if err != nil {
		return err
	}
	if table, err = r.narrow(table); err != nil {
		return err
	}
	remote, err := r.exchangeFacts(ctx, spec, table)
	if err != nil {
		return err
	}
	r.result.Plan = r.plan
	r.result.Warnings = append(r.result.Warnings, r.plan.Notes()...)
	o := endpointOptions{mtu: r.plan.MTU(), port: r.port, numaNode: -1, planted: r.o.Planted}
	if node := r.numaNode(); node >= 0 && numaNodes() > 1 {
		o.numaNode = node
	}
	reason, err := r.chooseGID(&o, table, remote.GIDs)
	if err != nil {
		return err
	}
	if r.end, err = newEndpoint(r.device, r.plan, o); err != nil {
		if _, said := errors.AsType[*verbs.Error](err); said {
			return err
		}
		return setupOf("set up", r.device.Info().Name, err)
	}
	if r.spec.RDMACM {
		if err := r.joinAll(ctx, &o); err != nil {
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
	if err := r.checkPeer(); err != nil {
		return err
	}
	if err := r.end.connect(r.peer); err != nil {
		return err
	}
	r.noteConnection(addresses, o, reason)
	return r.session.Sync(ctx, control.PhaseConnected, 0, false)
}

// exchangeFacts settles the test with what both ends are.
func (r *run) exchangeFacts(ctx context.Context, spec plan.Spec, table []verbs.GIDEntry) (control.Facts, error) {
	info := r.device.Info()
	env := describe(Host(), r.device, r.port)
	local := control.Facts{
		PageBytes: os.Getpagesize(), CacheLineBytes: cacheLine(), MTU: r.plan.MTU(), MaxOutstanding: r.plan.Outstanding(), GIDs: table,
		Limits: &info.Limits,
	}
	var err error
	if local.Environment, err = json.Marshal(environmentFacts{env, r.o.End}); err != nil {
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

// numaNode is where thread and buffers belong; -1: anywhere.
func (r *run) numaNode() int {
	if r.o.NUMANode != nil {
		return *r.o.NUMANode
	}
	return r.device.Info().NUMANode
}

// narrow leaves only the line of the GID table that was asked for, or that the device was bound to.
func (r *run) narrow(table []verbs.GIDEntry) ([]verbs.GIDEntry, error) {
	name := r.device.Info().Name
	if r.o.GIDIndex != nil {
		e, err := GIDWithIndex(table, *r.o.GIDIndex)
		if err != nil {
			return nil, setupOf("choose GID", name, err)
		}
		return []verbs.GIDEntry{e}, nil
	}
	if d, has := r.device.(interface {
		DefaultGID() (verbs.GIDEntry, error)
	}); has {
		e, err := d.DefaultGID()
		if err != nil {
			return nil, err
		}
		return []verbs.GIDEntry{e}, nil
	}
	return table, nil
}

func setupOf(verb, device string, err error) error {
	return &verbs.Error{Verb: verb, Device: device, Err: err}
}

func (r *run) chooseGID(o *endpointOptions, mine, theirs []verbs.GIDEntry) (string, error) {
	if r.port.LinkLayer == verbs.LinkInfiniBand && r.o.GIDIndex == nil {
		return "InfiniBand: LIDs", nil
	}
	o.useGID = true
	if len(theirs) == 0 {
		var err error
		o.gid, err = ChooseGID(mine, r.o.Local)
		return fmt.Sprintf("%v %v: the peer does not tell its table", o.gid.Type, o.gid.GID.Addr()), err
	}
	client, server := mine, theirs
	at := ControlAddresses{Client: r.o.Local, Server: r.o.Remote}
	if !r.session.Dialled() {
		client, server = theirs, mine
		at = ControlAddresses{Client: r.o.Remote, Server: r.o.Local}
	}
	pair, err := ChooseGIDs(client, server, at)
	if err != nil {
		return "", err
	}
	o.gid = pair.Client
	if !r.session.Dialled() {
		o.gid = pair.Server
	}
	o.server = pair.Server.GID
	return pair.Reason, nil
}

// checkPeer refuses addresses that cannot be what the plan needs.
func (r *run) checkPeer() error {
	need := uint64(r.end.slots.RecvBytes())
	for q, a := range r.peer {
		if a.HasGID {
			if err := r.o.Policy.CheckAddress(a.GID.Addr()); err != nil {
				return err
			}
		}
		if a.Bytes != 0 && a.Bytes < need && r.plan.Row().Addressed() {
			return fmt.Errorf("the peer's queue pair %d offers %d bytes, the test needs %d", q, a.Bytes, need)
		}
		if r.end.useGID && !a.HasGID {
			return fmt.Errorf("this end uses GIDs, the peer sent none: give -x to both ends or to neither")
		}
	}
	return nil
}

// noteEnvironments keeps both ends' descriptions.
func (r *run) noteEnvironments(mine report.Environment, remote control.Facts) error {
	var theirs *report.Environment
	if len(remote.Environment) > 0 {
		var e environmentFacts
		if err := json.Unmarshal(remote.Environment, &e); err != nil {
			return fmt.Errorf("the peer's environment: %w", err)
		}
		theirs, r.result.PeerEnd = &e.Environment, e.End
	}
	if r.session.Dialled() || theirs == nil {
		r.result.Client, r.result.Server = mine, theirs
	} else {
		r.result.Client, r.result.Server = *theirs, &mine
	}
	return nil
}

// local is this end's environment in the result.
func (r *run) local() *report.Environment {
	if r.session.Dialled() || r.result.Server == nil {
		return &r.result.Client
	}
	return r.result.Server
}

func (r *run) noteConnection(addresses []control.Address, o endpointOptions, reason string) {
	for _, e := range []*report.Environment{&r.result.Client, r.result.Server} {
		if e != nil {
			e.MTU = o.mtu.Bytes()
		}
	}
	l := r.local()
	postAPI := r.end.qps[0].Capabilities().PostAPI
	if postAPI != verbs.PostAuto {
		l.PostAPI = postAPI.String()
	}
	if o.useGID {
		l.GIDIndex, l.GID, l.GIDType = o.gid.Index, o.gid.GID.String(), o.gid.Type.String()
	}
	if other := r.remote(); other != nil && r.peer[0].HasGID {
		other.GID, other.GIDType = r.peer[0].GID.String(), l.GIDType
	}
	if r.o.Connected == nil {
		return
	}
	c := Connection{
		Plan: r.plan, Role: r.plan.Role(), Local: addresses, Remote: r.peer, MTU: o.mtu, GIDReason: reason, Inline: r.end.inline,
		Outstanding: r.plan.Outstanding(), Device: r.device.Info(), Port: r.port, CPU: -1, PostAPI: postAPI,
	}
	if o.useGID {
		c.GID = &o.gid
	}
	r.o.Connected(c)
}

// remote is the peer's environment in the result, nil if it did not tell.
func (r *run) remote() *report.Environment {
	if r.session.Dialled() {
		return r.result.Server
	}
	return &r.result.Client
}

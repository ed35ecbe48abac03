package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gobw/gobw/internal/bench/drive"
	"github.com/gobw/gobw/internal/bench/endpoint"
	"github.com/gobw/gobw/internal/bench/machine"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/rdmacm"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
	"github.com/gobw/gobw/verbs/tick"
)

// Options choose how this end runs a plan. The zero value works; none of it is known to the peer.
type Options struct {
	Rails    []verbs.Device // this end's further devices, for a test that runs on several at once
	CPU      machine.CPUChoice
	Port     int    // device port, counted from 1; 0: the first that is ACTIVE
	DLID     uint16 // the peer's LID in place of the one it tells; 0: that
	GIDIndex *int   // line of the GID table; nil: the one that reaches the peer
	Stall    time.Duration
	Policy   plan.Policy   // what this end grants
	NUMANode *int          // where thread and buffers are to be; nil: at the device, -1: wherever the kernel wants
	Linger   time.Duration // how long the queue pairs outlive a test that went well
	After    int           // runs that were measured before: the records' runs are counted from there
	List     *List         // of descriptors, for all tests of a session; nil: none was brought, and none is kept
	WhatLeft bool          // where nobody counts what arrived, the figures are of what left, as perftest's
	// Lingering is told when that time begins.
	Lingering func()
	// Connected is told once, before the first message, what the two ends agreed on, and
	// by which objects this end is connected.
	Connected func(*plan.Settled, *endpoint.Endpoint)
	// Step is told each step of a queue pair's life before and after the test: create, init, connect (to RTR, and RTS
	// where this end posts; by RDMA CM, from RESET), destroy; and ready, the time until all are connected at both ends.
	Step func(name string, took time.Duration)
	// Measured is told each whole record as it is made, with this end's samples.
	Measured func(report.Record, report.Samples)
	// Kept is told all that was measured so far, which a kill may not take away: after each record, and at last before the
	// queue pairs are closed, which a driver may not return from.
	Kept func(r *Result, last bool)
	// Progress is told about ten times a second how far a round has come. It is called between two slices of the
	// measurement: it must return at once.
	Progress func(drive.Progress)
}

// defaultStall is how long nothing may move before a test is given up.
const defaultStall = 10 * time.Second

// Result is what a run measured; after an error, what it had measured before.
type Result struct {
	Here     report.Environment  // this end
	Peer     *report.Environment // nil: it has not told
	Label    string
	Records  []report.Record
	Warnings []string
}

// Run agrees on a test with the peer and measures it. At the server spec is its own in perftest's dialect and nil in
// ours; where the client has no further test, the result is nil. An error of this end is told to the peer and the
// session is closed; the result then holds what was measured before.
func Run(ctx context.Context, s control.Session, spec *plan.Spec, dev verbs.Device, o Options) (*Result, error) {
	r := &run{session: s, o: o, clock: tick.Start()}
	res, err := r.all(ctx, spec, dev)
	switch {
	case errors.Is(err, context.Canceled):
		s.Fail(control.ErrStopped)
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		s.Fail(context.Cause(ctx))
	case err != nil:
		s.Fail(err)
	}
	if peer, is := errors.AsType[*control.PeerError](err); is {
		peer.Refused = r.quiet == nil
	}
	return res, err
}

// countable refuses a test without a figure before it runs: of a WRITE over UC nobody tells how many arrived. A grid
// compares what the initiator's requests take.
func (r *run) countable() error {
	s := r.plan.Spec
	counted := s.Transport == verbs.RC || r.plan.Row.NeedsReceive() || s.Verify == plan.VerifyAll
	if counted || s.Kind != plan.Bandwidth || !r.plan.Ours() || r.plan.Point != nil || r.o.WhatLeft {
		return nil
	}
	length := plain.When(s.Duration > 0, " with -n in place of -D")
	return &plan.Error{Problems: []error{fmt.Errorf(
		"no bandwidth: %v does not report which WRITEs arrived; add --imm, or --verify=all%s", s.Transport, length)}}
}

// run is one plan being measured.
type run struct {
	session control.Session
	rails   endpoint.Rails // this end's devices; once the test is agreed on, those that it runs on
	o       Options

	plan     *plan.Settled
	spec     plan.Spec // of plan
	end      *endpoint.Endpoint
	quiet    *machine.Quiet
	clock    tick.Clock
	perNs    tick.Rate
	result   *Result
	rec      *job.Recorder // of all rounds
	peerLeft bool          // the client of an endless test was stopped
}

func (r *run) all(ctx context.Context, spec *plan.Spec, dev verbs.Device) (*Result, error) {
	var err error
	if r.rails, err = endpoint.OpenRails(append([]verbs.Device{dev}, r.o.Rails...), r.o.Port, r.o.NUMANode); err != nil {
		return nil, err
	}
	if spec != nil {
		if err := r.settle(*spec, r.unknownPeer()); err != nil { // before the peer hears of it
			return nil, err
		}
		if err := r.countable(); err != nil {
			return nil, err
		}
		proposal := r.plan.Proposal()
		// nobody else's datagrams get in by a number that all know
		if r.plan.Ours() && proposal.Transport == verbs.UD && spec.QKey == 0 {
			proposal.QKey = 1 + rand.Uint32N(1<<31-1) // the highest bit is the kernel's (InfiniBand specification, 10.2.5)
		}
		spec = &proposal
	}
	agreed, err := r.session.Propose(ctx, spec)
	if err != nil || agreed == nil {
		return nil, err
	}
	if spec != nil && r.plan.Ours() {
		if err := spec.Same(agreed); err != nil {
			return nil, fmt.Errorf("the server accepted a different test: %w", err)
		}
	}
	if r.o.Policy.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.o.Policy.Duration,
			fmt.Errorf("the test takes longer than %v, the limit of this end", r.o.Policy.Duration))
		defer cancel()
	}
	if spec != nil { // it was examined before the peer heard of it
		agreed = new(r.plan.Agreed(*agreed))
	} else if err := r.settle(*agreed, r.unknownPeer()); err != nil {
		return nil, err
	}
	r.rails = r.rails[:r.spec.Rails]
	r.result = &Result{Here: machine.Host()}
	for _, on := range r.rails {
		r.result.Label = cmp.Or(r.result.Label, Label(on.Device.Info()))
	}
	if err = r.connect(ctx, *agreed); err == nil {
		err = r.measure(ctx)
	}
	if err == nil && r.o.Kept != nil {
		r.o.Kept(r.result, true)
	}
	if err == nil && r.o.Linger > 0 {
		if r.o.Lingering != nil {
			r.o.Lingering()
		}
		select {
		case <-time.After(r.o.Linger):
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	if r.end != nil {
		if closed := r.end.Close(); err == nil {
			err = closed
		}
	}
	return r.result, err
}

// unknownPeer is one that has told nothing yet.
func (r *run) unknownPeer() plan.Peer {
	return plan.Peer{Perftest: r.session.Dialect() != control.Ours}
}

// settle makes the test of this end.
func (r *run) settle(spec plan.Spec, peer plan.Peer) error {
	if spec.RDMACM {
		if _, err := rdmacm.ConnectionManagerOf(r.rails[0].Device); err != nil {
			return err
		}
	}
	on := r.rails
	if r.result == nil { // it is not known yet which of them are needed
		on = r.rails[:min(max(spec.Rails, 1), len(r.rails))]
	}
	info, port := on.Common()
	limits := endpoint.Limits(info, port, r.session.Dialled())
	limits.Rails = len(r.rails)
	if r.o.List == nil {
		r.o.List = &List{}
	}
	var err error
	if limits.List, err = r.o.List.transfer(spec.Noncontig); err != nil {
		return err
	}
	settled, err := plan.Settle(spec, limits, peer, r.o.Policy)
	if err != nil {
		return err
	}
	r.plan, r.spec = settled, settled.Spec
	return nil
}

// Label is what every output says of a device without hardware; empty: it has some.
func Label(d verbs.DeviceInfo) string {
	if !d.Software {
		return ""
	}
	label := "software device"
	if d.Driver != d.Provider {
		label += " (" + d.Driver + ")"
	}
	if label += ", not a NIC"; d.EmulatedNetwork != "" {
		label += "; emulated network " + d.EmulatedNetwork
	}
	return label
}

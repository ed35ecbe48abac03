package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/verbs"
)

// Options choose how this end runs a plan. The zero value works; none of it is known to the peer.
type Options struct {
	CPU      CPUChoice
	Port     int        // device port, counted from 1; 0: the first that is ACTIVE
	GIDIndex *int       // line of the GID table; nil: the one that reaches the peer
	Local    netip.Addr // this end's address of the control connection, if known
	Remote   netip.Addr // the peer's
	Stall    time.Duration
	NUMANode *int          // where thread and buffers are to be; nil: at the device, -1: wherever the kernel wants
	Linger   time.Duration // how long the queue pairs outlive a test that went well
	// Lingering is told when that time begins.
	Lingering func()
	// End is what this end says of itself to a doctor at the other, in JSON; nil: nothing.
	End json.RawMessage
	// Connected is told once, before the first message, what the two ends agreed on.
	Connected func(Connection)
	// Measured is told each record as it is made, with this end's samples.
	Measured func(report.Record, report.Samples)
	// Progress is told about ten times a second how far a round has come. It is called between two slices of the
	// measurement: it must return at once.
	Progress func(Progress)
}

// defaultStall is how long nothing may move before a test is given up.
const defaultStall = 10 * time.Second

// Connection is what both ends agreed on.
type Connection struct {
	Plan          control.Plan
	Role          Role
	Local, Remote []control.Address
	MTU           verbs.MTU
	GID           *verbs.GIDEntry // nil: LIDs are used
	GIDReason     string
	Inline        int
	Outstanding   int
	Device        verbs.DeviceInfo
	Port          verbs.PortInfo
	CPU           int // the measuring thread's, -1: not pinned
}

// Progress is how far a test has come.
type Progress struct {
	Size         int // bytes
	SizeIndex    int
	Sizes        int
	Run, Runs    int
	Warmup       bool
	Share        float64 // of this round, 0…1; negative where unknown
	BitsPerS     float64 // over the last tenth of a second, or up to the last completion where they come less often
	MessagesPerS float64
	Messages     uint64
}

// Result is what a run measured; after an error, what it had measured before.
type Result struct {
	Plan     control.Plan
	Role     Role
	Client   report.Environment
	Server   *report.Environment
	Label    string
	Records  []report.Record
	Warnings []string
	PeerEnd  json.RawMessage // the peer's Options.End
}

// environmentFacts is this end's environment as it crosses the wire.
type environmentFacts struct {
	report.Environment
	End json.RawMessage `json:"end,omitempty"`
}

// Run agrees on a plan with the peer and measures it. At the server the plan argument is its own in perftest's dialect
// and nil in ours; where the client has no further test, the result is nil. An error of this end is told to the peer
// and the session is closed; the result then holds what was measured before.
func Run(ctx context.Context, s control.Session, plan *control.Plan, dev verbs.Device, o Options) (*Result, error) {
	r := &run{session: s, device: dev, o: o, ours: s.Dialect() == control.Ours, recorders: map[int]*verbs.Recorder{}}
	res, err := r.all(ctx, plan)
	if err != nil {
		s.Fail(tellPeer(err))
	}
	if peer, is := errors.AsType[*control.PeerError](err); is {
		peer.Refused = r.quiet == nil
	}
	return res, err
}

// tellPeer words this end's error for the peer.
func tellPeer(err error) error {
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted by its user")
	}
	return err
}

// gcEvery is after how many rounds the garbage is collected: a round leaves little.
const gcEvery = 16

// run is one plan being measured.
type run struct {
	session control.Session
	device  verbs.Device
	o       Options
	ours    bool

	plan        control.Plan
	role        Role
	port        verbs.PortInfo
	end         *Endpoint
	peer        []control.Address
	quiet       *quiet
	clock       verbs.TickClock
	perNs       float64
	clockCostNs float64
	outstanding int // READs and atomics in flight per queue pair
	result      *Result
	recorders   map[int]*verbs.Recorder // by raw samples kept
}

func (r *run) all(ctx context.Context, plan *control.Plan) (*Result, error) {
	port, err := ChoosePort(r.device, r.o.Port)
	if err != nil {
		return nil, err
	}
	r.port = port
	if plan != nil {
		if err := r.manageable(*plan); err != nil {
			return nil, err
		}
		settled, err := Settle(*plan, r.device.Info(), port)
		if err != nil {
			return nil, err
		}
		plan = &settled
	}
	agreed, err := r.session.Propose(ctx, plan)
	if err != nil || agreed == nil {
		return nil, err
	}
	if r.plan, err = Settle(*agreed, r.device.Info(), port); err != nil {
		return nil, err
	}
	if err := r.manageable(r.plan); err != nil {
		return nil, err
	}
	if r.plan.Verify != "" && !r.ours {
		return nil, errors.New("data verification needs gobw at the other end: perftest sends random bytes")
	}
	r.role = RoleOf(r.plan, Dialled(r.session.Dialled()))
	r.result = &Result{Plan: r.plan, Role: r.role, Label: r.device.Info().Label}
	if err := r.connect(ctx); err != nil {
		return r.finish(ctx, err)
	}
	return r.finish(ctx, r.measure(ctx))
}

// linger lets the queue pairs live on for a while.
func (r *run) linger(ctx context.Context) error {
	if r.o.Lingering != nil {
		r.o.Lingering()
	}
	select {
	case <-time.After(r.o.Linger):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// finish closes the endpoint and fills in what only the end knows.
func (r *run) finish(ctx context.Context, err error) (*Result, error) {
	if r.end != nil {
		if err == nil && r.o.Linger > 0 {
			err = r.linger(ctx)
		}
		if cerr := r.end.Close(); cerr != nil && err == nil {
			err = cerr
		}
	}
	return r.result, err
}

// ChoosePort is the port asked for, or the first ACTIVE one.
func ChoosePort(dev verbs.Device, n int) (verbs.PortInfo, error) {
	info := dev.Info()
	if n > info.Ports {
		return verbs.PortInfo{}, &verbs.Error{Verb: "choose port", Device: info.Name, Err: fmt.Errorf("--ib-port (-i) %d: the device has %d", n, info.Ports)}
	}
	if n > 0 {
		p, err := dev.Port(n)
		if err == nil && p.State != verbs.PortActive {
			err = portDown(info, p)
		}
		return p, err
	}
	var first error
	for i := 1; i <= max(info.Ports, 1); i++ {
		p, err := dev.Port(i)
		if err == nil && p.State == verbs.PortActive {
			return p, nil
		}
		if err == nil {
			err = portDown(info, p)
		}
		if first == nil {
			first = err
		}
	}
	return verbs.PortInfo{}, first
}

func portDown(info verbs.DeviceInfo, p verbs.PortInfo) error {
	fix := "check cable and transceiver, or bring the network interface up"
	if p.State == verbs.PortInit {
		fix = "no subnet manager answers: start opensm on one host of the fabric"
	}
	return &verbs.Error{Verb: fmt.Sprintf("use port %d", p.Number), Device: info.Name, Err: fmt.Errorf("state is %v", p.State), Fix: fix}
}

// connect exchanges facts and addresses and connects the queue pairs.
func (r *run) connect(ctx context.Context) error {
	info := r.device.Info()
	mine := max(min(info.Limits.MaxRDAtomic, info.Limits.MaxInitRDAtomic), 1)
	if r.plan.Outstanding > 0 {
		mine = min(mine, r.plan.Outstanding)
	}
	if !limited(r.plan) {
		mine = 1
	}
	table, err := r.device.GIDs(r.port.Number)
	if err != nil {
		return err
	}
	if table, err = r.narrow(table); err != nil {
		return err
	}
	mtu := r.port.ActiveMTU
	if r.plan.MTU != 0 {
		mtu = r.plan.MTU
	}
	env := describe(Host(), r.device, r.port)
	local := control.Facts{
		PageBytes: os.Getpagesize(), CacheLineBytes: cacheLine(), MTU: mtu, MaxOutstanding: mine, GIDs: table, Limits: &info.Limits,
	}
	if local.Environment, err = json.Marshal(environmentFacts{env, r.o.End}); err != nil {
		return err
	}
	remote, err := r.session.Facts(ctx, local)
	if err != nil {
		return err
	}
	if err := r.noteEnvironments(env, remote); err != nil {
		return err
	}
	o := endpointOptions{
		role: r.role, page: max(local.PageBytes, min(remote.PageBytes, 1<<21)), line: max(local.CacheLineBytes, min(remote.CacheLineBytes, 1<<12)),
		mtu: min(mtu, remote.MTU), port: r.port, openEnded: r.ours || r.plan.Infinite, numaNode: -1,
	}
	if o.mtu == 0 {
		o.mtu = mtu
	}
	if node := r.numaNode(); node >= 0 && numaNodes() > 1 {
		o.numaNode = node
	}
	if r.plan.AllSizes && r.plan.Transport == verbs.UD { // -a ends at the path's MTU, which both ends know by now
		for len(r.plan.Sizes) > 1 && r.plan.Sizes[len(r.plan.Sizes)-1] > o.mtu.Bytes() {
			r.plan.Sizes = r.plan.Sizes[:len(r.plan.Sizes)-1]
		}
	}
	if err := checkDatagrams(r.plan, o.mtu); err != nil {
		return err
	}
	reason, err := r.chooseGID(&o, table, remote.GIDs)
	if err != nil {
		return err
	}
	outstanding := mine
	if remote.MaxOutstanding > 0 {
		outstanding = min(outstanding, remote.MaxOutstanding)
	}
	if r.end, err = newEndpoint(r.device, r.plan, o); err != nil {
		if _, said := errors.AsType[*verbs.Error](err); said {
			return err
		}
		return setupOf("set up", info.Name, err)
	}
	if r.plan.RDMACM {
		if err := r.joinAll(ctx, &o, outstanding); err != nil {
			return err
		}
	}
	addresses := r.end.addresses(outstanding)
	if r.peer, err = r.session.Exchange(ctx, addresses); err != nil {
		return err
	}
	if r.plan.RDMACM {
		if r.peer, err = r.end.pair(r.peer); err != nil {
			return err
		}
	}
	if err := r.checkPeer(); err != nil {
		return err
	}
	if err := r.end.connect(r.peer, outstanding); err != nil {
		return err
	}
	r.outstanding = outstanding
	r.noteConnection(addresses, o, reason, outstanding)
	return r.session.Sync(ctx, control.PhaseConnected, 0, false)
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

func checkDatagrams(p control.Plan, mtu verbs.MTU) error {
	for _, s := range p.Sizes {
		if p.Transport == verbs.UD && s > mtu.Bytes() {
			return fmt.Errorf("--size (-s) %d: a UD message is one packet, at most the path MTU of %d bytes", s, mtu.Bytes())
		}
	}
	return nil
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
	need := uint64(r.plan.LargestSize())
	for q, a := range r.peer {
		if a.Bytes != 0 && a.Bytes < need && Opcode(r.plan) != verbs.OpSend && Opcode(r.plan) != verbs.OpSendWithImmediate {
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

func (r *run) noteConnection(addresses []control.Address, o endpointOptions, reason string, outstanding int) {
	for _, e := range []*report.Environment{&r.result.Client, r.result.Server} {
		if e != nil {
			e.MTU = o.mtu.Bytes()
		}
	}
	l := r.local()
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
		Plan: r.plan, Role: r.role, Local: addresses, Remote: r.peer, MTU: o.mtu, GIDReason: reason, Inline: r.end.inline,
		Outstanding: outstanding, Device: r.device.Info(), Port: r.port, CPU: -1,
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

// measure runs all rounds on a quiet thread.
func (r *run) measure(ctx context.Context) (err error) {
	if r.quiet, err = beQuiet(r.o.CPU, r.numaNode()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.quiet.restore()) }()
	r.clock = verbs.StartTickClock()
	r.perNs = r.clock.PerNanosecond()
	r.clockCostNs = clockCost() / r.perNs
	l := r.local()
	l.PinnedCPU, l.GOMAXPROCS, l.ClockCostNs = r.quiet.cpu, r.quiet.maxProcs, r.clockCostNs
	rounds := r.rounds()
	for n := 1; r.plan.Infinite; n++ { // until the context ends
		if err := r.round(ctx, round{run: n, last: true}); err != nil {
			return err
		}
	}
	for i, rd := range rounds {
		rd.last = i == len(rounds)-1
		if err := r.round(ctx, rd); err != nil {
			return err
		}
		if i%gcEvery == gcEvery-1 {
			runtime.GC() // nothing is measured now
		}
	}
	r.perNs = r.clock.PerNanosecond()
	l.TicksPerNs, l.PreemptSignal = r.perNs, !r.quiet.deaf
	return r.session.Sync(ctx, control.PhaseFinished, max(len(r.plan.Sizes)-1, 0), true)
}

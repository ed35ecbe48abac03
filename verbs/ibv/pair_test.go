//go:build linux && cgo

package ibv

import (
	"os"
	"testing"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// nullDevice opens a device without hardware behind it: of the library in GOBW_NULLVERBS, which
// costs less per message, or of testdata.
func nullDevice(tb testing.TB) verbs.Device {
	tb.Helper()
	dir := os.Getenv("GOBW_NULLVERBS")
	if dir == "" {
		return openFake(tb, fakeVerbs(tb, nil))
	}
	p := New()
	p.lib.name = dir + "/libibverbs.so.1"
	names, err := p.Devices()
	if err != nil || len(names) == 0 {
		tb.Fatalf("devices of %s: %v, %v", p.lib.name, names, err)
	}
	d, err := p.Open(names[0].Name)
	if err != nil {
		tb.Fatal(err)
	}
	closeLater(tb, d)
	return d
}

// anyDevice is the real device of GOBW_IBV_DEVICE, or else one without hardware.
func anyDevice(tb testing.TB) verbs.Device {
	tb.Helper()
	if os.Getenv("GOBW_IBV_DEVICE") != "" {
		return realDevice(tb)
	}
	return nullDevice(tb)
}

func closeLater(tb testing.TB, c interface{ Close() error }) {
	tb.Helper()
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Errorf("close %T: %v", c, err)
		}
	})
}

// endpoint is one end of some connected queue pairs.
type endpoint struct {
	device verbs.Device
	pd     verbs.ProtectionDomain
	cq     verbs.CompletionQueue
	qps    []verbs.QueuePair
	ah     verbs.AddressHandle // UD: to the same port
	mr     verbs.MemoryRegion
	buffer *verbs.Buffer
}

func newEndpoint(tb testing.TB, d verbs.Device, qps int, o verbs.QueuePairOptions, by ...verbs.Posting) *endpoint {
	tb.Helper()
	return newEndpointIn(tb, d, nil, qps, o, by...)
}

// newEndpointIn makes an endpoint in a domain; nil: its own. It posts by the first of by; none: as the device chooses.
func newEndpointIn(tb testing.TB, d verbs.Device, pd verbs.ProtectionDomain, qps int, o verbs.QueuePairOptions,
	by ...verbs.Posting,
) *endpoint {
	tb.Helper()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	e := &endpoint{device: d, pd: pd}
	var err error
	if pd == nil {
		e.pd, err = d.AllocPD()
		must(err)
		closeLater(tb, e.pd)
	}
	e.cq, err = d.CreateCQ(verbs.CompletionQueueOptions{Depth: 4096})
	must(err)
	closeLater(tb, e.cq)
	e.buffer, err = verbs.Alloc(1<<20, verbs.MemoryOptions{Touch: true})
	must(err)
	closeLater(tb, e.buffer)
	e.mr, err = e.pd.RegisterMemory(e.buffer, 0, e.buffer.Len(),
		verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead|verbs.AccessRemoteAtomic)
	must(err)
	closeLater(tb, e.mr)
	o.SendCQ = e.cq
	for range qps {
		qp, err := verbs.CreateQPPosting(e.pd, o, append(by, verbs.Posting{})[0])
		must(err)
		closeLater(tb, qp)
		e.qps = append(e.qps, qp)
	}
	if o.Transport == verbs.UD {
		gid := bestGID(tb, d)
		e.ah, err = e.pd.CreateAH(verbs.AddressVector{DGID: gid.GID, SGIDIndex: gid.Index, UseGID: true, Port: 1})
		must(err)
		closeLater(tb, e.ah)
	}
	return e
}

// connect brings the queue pairs of both ends to RTS.
func connect(tb testing.TB, a, b *endpoint) {
	tb.Helper()
	gid := bestGID(tb, a.device)
	o := verbs.ConnectOptions{
		Access:        verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic,
		PathMTU:       verbs.MTU1024,
		AddressVector: verbs.AddressVector{DGID: gid.GID, SGIDIndex: gid.Index, UseGID: true}, MaxRDAtomic: 16,
		MaxDestRDAtomic: 16,
		MinRNRTimer:     12, Timeout: 14, RetryCount: 7, RNRRetry: 7, QKey: 0x11111111,
	}
	for i := range a.qps {
		for _, ends := range [][2]verbs.QueuePair{{a.qps[i], b.qps[i]}, {b.qps[i], a.qps[i]}} {
			o.DestQPN = ends[1].QPN()
			if err := verbs.InitQP(ends[0], o); err != nil {
				tb.Fatal(err)
			}
			if err := verbs.ConnectQP(ends[0], o); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

// ring makes n messages of that size to the peer's queue pair, stepping over the
// buffers by cache lines as perftest does.
func (e *endpoint) ring(op verbs.Opcode, n, size int, peer *endpoint, qp int) []job.Message {
	ring := make([]job.Message, n)
	for k := range ring {
		at := uint64(k * max(size, 64))
		q := verbs.SendRequest{
			Opcode: op, SGEs: []verbs.SGE{{Addr: e.mr.Addr() + at, Length: uint32(size), LKey: e.mr.LKey()}},
			RemoteAddr: peer.mr.Addr() + 1<<19 + at, RKey: peer.mr.RKey(),
		}
		if e.ah != nil {
			q.AH, q.RemoteQPN, q.RemoteQKey = e.ah, peer.qps[qp].QPN(), 0x11111111
		}
		ring[k] = job.Message{Bytes: uint64(size), Steps: []job.Step{{Requests: []verbs.SendRequest{q}}}}
	}
	return ring
}

// receives makes n receives of that size in the second half of the buffer.
func (e *endpoint) receives(n, size int) []verbs.ReceiveRequest {
	ring := make([]verbs.ReceiveRequest, n)
	for k := range ring {
		at := uint64(1<<19 + k*max(size, 64))
		ring[k] = verbs.ReceiveRequest{
			ID: uint64(k), SGEs: []verbs.SGE{{Addr: e.mr.Addr() + at, Length: uint32(size), LKey: e.mr.LKey()}},
		}
	}
	return ring
}

// run runs a job to its end in slices of that many ticks.
func run(tb testing.TB, d verbs.Device, j *job.Job, slice job.Ticks) job.Progress {
	tb.Helper()
	return runAnd(tb, d, j, slice, nil)
}

// prepare compiles a job: for the loop in Go where GOBW_IBV_LOOP is "go", so that what C saves
// can be counted (scripts/bench-count).
func prepare(d verbs.Device, j *job.Job) (job.Runner, error) {
	if os.Getenv("GOBW_IBV_LOOP") == "go" {
		return job.NewVerbsRunner(d, j)
	}
	return job.Prepare(d, j)
}

// runAnd is run, and something else as soon as a message is posted.
func runAnd(tb testing.TB, d verbs.Device, j *job.Job, slice job.Ticks, then func()) job.Progress {
	tb.Helper()
	r, err := prepare(d, j)
	if err != nil {
		tb.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			tb.Error(err)
		}
	}()
	for {
		p, err := r.Run(job.Now() + slice)
		if err != nil {
			tb.Fatal(err)
		}
		if p.Done {
			return p
		}
		if p.Posted > 0 && then != nil {
			then()
			then = nil
		}
	}
}

//go:build linux && cgo

package ibv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/job"
)

// postDevice is a fake device that perftest posts to with ibv_wr_*, or, with part 0, by ibv_post_send.
func postDevice(t testing.TB, part string, absent ...string) verbs.Device {
	t.Helper()
	return openFake(t, fakeVerbs(t, map[string]string{"PART": part}, absent...))
}

// TestPostAPIIsPerftests holds the choice against perftest's table, as its --help and ib_dev_name have it.
func TestPostAPIIsPerftests(t *testing.T) {
	for _, tt := range []struct {
		name         string
		vendor, part uint32
		want         verbs.PostAPI
	}{
		{"Connect-IB", 0x2c9, 4113, verbs.PostWR},
		{"ConnectX-7", 0x2c9, 4129, verbs.PostWR},
		{"ConnectX-3", 0x2c9, 4099, verbs.PostSend},
		{"BlueField-3", 0x15b3, 41692, verbs.PostWR},
		{"EFA 2", 0x1d0f, 61346, verbs.PostWR},
		{"hns", 0x19e5, 41506, verbs.PostWR},
		{"Yunsilicon", 0x1f67, 7, verbs.PostWR},
		{"Soft-RoCE", 0xffffff, 0, verbs.PostSend},
		{"Intel E810 (irdma)", 0x8086, 5522, verbs.PostSend},
		{"an Intel part with a ConnectX number", 0x8086, 4129, verbs.PostSend},
		{"bnxt", 0x14e4, 5968, verbs.PostSend},
	} {
		if got := perftestPostAPI(tt.vendor, tt.part); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestPostAPIChosen asks for each interface on devices that have both, one, or that would prefer the one they lack.
func TestPostAPIChosen(t *testing.T) {
	const both, none = "4129", "refused"
	for _, tt := range []struct {
		name     string
		settings map[string]string
		absent   []string
		ask      verbs.PostAPI
		want     string
	}{
		{"perftest's choice: wr", map[string]string{"PART": both}, nil, verbs.PostAuto, "wr"},
		{"perftest's choice: post_send", map[string]string{"PART": "0"}, nil, verbs.PostAuto, "post_send"},
		{"--use_old_post_send", map[string]string{"PART": both}, nil, verbs.PostSend, "post_send"},
		{"wr where perftest would not", map[string]string{"PART": "0"}, nil, verbs.PostWR, "wr"},
		{"no such symbol, auto", map[string]string{"PART": both}, []string{"ibv_qp_to_qp_ex"}, verbs.PostAuto, "post_send"},
		{"no such symbol, by name", map[string]string{"PART": both}, []string{"ibv_qp_to_qp_ex"}, verbs.PostWR, none},
		{"a short context, auto", map[string]string{"PART": both, "CONTEXT": "48"}, nil, verbs.PostAuto, "post_send"},
		{"a short context, by name", map[string]string{"PART": both, "CONTEXT": "48"}, nil, verbs.PostWR, none},
		{"an old context, by name", map[string]string{"PART": both, "CONTEXT": "0"}, nil, verbs.PostWR, none},
		{
			"the driver does not have it, auto",
			map[string]string{"PART": both, "FAULTS": "create_qp_ex=95"},
			nil,
			verbs.PostAuto, "post_send",
		},
		{
			"the driver does not have it, by name",
			map[string]string{"PART": both, "FAULTS": "create_qp_ex=95"},
			nil,
			verbs.PostWR, none,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := openFake(t, fakeVerbs(t, tt.settings, tt.absent...))
			pd, cq := domainAndQueue(t, d)
			qp, err := verbs.CreateQPPosting(pd, verbs.QueuePairOptions{SendCQ: cq}, verbs.Posting{API: tt.ask})
			if tt.want == none {
				if err == nil || !errors.Is(err, syscall.EOPNOTSUPP) || !strings.Contains(err.Error(), "ibv_wr_*") {
					t.Fatalf("%v, want a refusal that names what was asked for", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			closeLater(t, qp)
			if got := verbs.PostsBy(qp).String(); got != tt.want {
				t.Errorf("posts by %s, want %s", got, tt.want)
			}
		})
	}
}

func domainAndQueue(t testing.TB, d verbs.Device) (verbs.ProtectionDomain, verbs.CompletionQueue) {
	t.Helper()
	pd, err := d.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, pd)
	cq, err := d.CreateCQ(verbs.CompletionQueueOptions{})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, cq)
	return pd, cq
}

// TestSendsBoundOperations posts what the queue pair was not made for: a driver has no function there to call.
func TestSendsBoundOperations(t *testing.T) {
	d := postDevice(t, "4129")
	x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{}, verbs.Posting{Sends: verbs.OpcodesOf(verbs.OpWrite)}),
		newEndpoint(t, d, 1, verbs.QueuePairOptions{})
	connect(t, x, y)
	write, read := x.ring(verbs.OpWrite, 1, 32, y, 0)[0].Steps[0].Requests[0], x.ring(verbs.OpRead, 1, 32,
		y, 0)[0].Steps[0].Requests[0]
	err := x.qps[0].PostSend([]verbs.SendRequest{write, read})
	if p, ok := errors.AsType[*verbs.PostError](err); !ok || p.Index != 1 || !strings.Contains(err.Error(), "RDMA_READ") {
		t.Errorf("%v, want a PostError at 1 that names READ", err)
	}
}

// TestPostErrorCountsWhatWasPosted refuses the third of five requests for every reason: the two before it are
// posted and complete, the rest are not.
func TestPostErrorCountsWhatWasPosted(t *testing.T) {
	for _, part := range []string{"0", "4129"} {
		d, other := postDevice(t, part), postDevice(t, part)
		for _, tt := range []struct {
			name  string
			spoil func(e *endpoint, r *verbs.SendRequest)
		}{
			{"a bind of nothing", func(e *endpoint, r *verbs.SendRequest) { r.Opcode, r.Bind = verbs.OpBindMW, nil }},
			{"a bind of another device's window", func(e *endpoint, r *verbs.SendRequest) {
				r.Opcode, r.Bind = verbs.OpBindMW, &verbs.MemoryWindowBind{Window: foreignWindow(t, other), Region: e.mr}
			}},
			{"a list too long", func(e *endpoint, r *verbs.SendRequest) { r.SGEs = append(r.SGEs, r.SGEs[0], r.SGEs[0]) }},
			{"an inline READ", func(e *endpoint, r *verbs.SendRequest) { r.Opcode, r.Flags = verbs.OpRead, verbs.Inline }},
		} {
			t.Run(tt.name+", part "+part, func(t *testing.T) {
				x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{}), newEndpoint(t, d, 1, verbs.QueuePairOptions{})
				connect(t, x, y)
				var list []verbs.SendRequest
				for k := range 5 {
					r := x.ring(verbs.OpWrite, 1, 32, y, 0)[0].Steps[0].Requests[0]
					r.ID, r.Flags = uint64(k), verbs.Signaled
					list = append(list, r)
				}
				tt.spoil(x, &list[2])
				err := x.qps[0].PostSend(list)
				if p, ok := errors.AsType[*verbs.PostError](err); !ok || p.Index != 2 {
					t.Fatalf("%v, want a PostError at 2", err)
				}
				var c [8]verbs.Completion
				if n, err := x.cq.Poll(c[:]); err != nil || n != 2 || c[0].ID != 0 || c[1].ID != 1 {
					t.Errorf("%d completions %+v, %v; want those of requests 0 and 1", n, c[:n], err)
				}
			})
		}
	}
}

// TestForeignAddressHandle posts a datagram to an address handle of another device.
func TestForeignAddressHandle(t *testing.T) {
	d := postDevice(t, "0")
	x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{Transport: verbs.UD}), newEndpoint(t, d,
		1, verbs.QueuePairOptions{Transport: verbs.UD})
	connect(t, x, y)
	r := x.ring(verbs.OpSend, 1, 32, y, 0)[0].Steps[0].Requests[0]
	r.AH = foreignHandle(t, postDevice(t, "0"))
	err := x.qps[0].PostSend([]verbs.SendRequest{r})
	if p, ok := errors.AsType[*verbs.PostError](err); !ok || p.Index != 0 ||
		!strings.Contains(err.Error(), "another device") {
		t.Errorf("%v, want a PostError at 0 that tells of another device", err)
	}
}

// TestListsOfSoftwareDevices: the driver of rxe sent lists wrong by ibv_wr_*, so the other interface takes its place
// where this one was not asked for by name.
func TestListsOfSoftwareDevices(t *testing.T) {
	p := fakeVerbs(t, map[string]string{"PART": "4129"})
	// without a parent: software
	if err := os.MkdirAll(filepath.Join(p.sysfs, "class", "infiniband", "fake0"), 0o700); err != nil {
		t.Fatal(err)
	}
	pd, cq := domainAndQueue(t, openFake(t, p))
	for _, tt := range []struct {
		ask  verbs.PostAPI
		sges int
		want string
	}{{verbs.PostAuto, 1, "wr"}, {verbs.PostAuto, 3, "post_send"}, {verbs.PostWR, 1, "wr"}, {verbs.PostWR, 3, "refused"}} {
		qp, err := verbs.CreateQPPosting(pd, verbs.QueuePairOptions{SendCQ: cq, SendSGEs: tt.sges},
			verbs.Posting{API: tt.ask})
		if tt.want == "refused" {
			if !errors.Is(err, verbs.ErrUnsupported) || !strings.Contains(err.Error(), "rdma-core") {
				t.Errorf("%v, %d entries: %v", tt.ask, tt.sges, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, qp)
		if got := verbs.PostsBy(qp).String(); got != tt.want {
			t.Errorf("%v, %d entries: %s, want %s", tt.ask, tt.sges, got, tt.want)
		}
	}
}

func foreignHandle(t *testing.T, d verbs.Device) verbs.AddressHandle {
	t.Helper()
	pd, _ := domainAndQueue(t, d)
	g := bestGID(t, d)
	ah, err := pd.CreateAH(verbs.AddressVector{DGID: g.GID, SGIDIndex: g.Index, UseGID: true, Port: 1})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, ah)
	return ah
}

func foreignWindow(t *testing.T, d verbs.Device) verbs.MemoryWindow {
	t.Helper()
	pd, _ := domainAndQueue(t, d)
	w, err := pd.AllocMW()
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, w)
	return w
}

// TestPostErrorOfFullQueue stops in the middle of a list where the driver says so, and nowhere by ibv_wr_*.
func TestPostErrorOfFullQueue(t *testing.T) {
	for part, want := range map[string]int{"0": 4, "4129": 0} {
		d := postDevice(t, part)
		o := verbs.QueuePairOptions{SendDepth: 4}
		x, y := newEndpoint(t, d, 1, o), newEndpoint(t, d, 1, o)
		connect(t, x, y)
		r := x.ring(verbs.OpWrite, 1, 32, y, 0)[0].Steps[0].Requests[0]
		err := x.qps[0].PostSend([]verbs.SendRequest{r, r, r, r, r, r})
		if p, ok := errors.AsType[*verbs.PostError](err); !ok || p.Index != want || !errors.Is(err, verbs.ErrQueueFull) {
			t.Errorf("part %s: %v, want a PostError of a full queue at %d", part, err, want)
		}
	}
}

// oldLibraries are the symbols that releases of rdma-core lack, from their version scripts.
func oldLibraries() map[string][]string {
	v34 := []string{"ibv_reg_dmabuf_mr"}
	v32 := append([]string{"_ibv_query_gid_table"}, v34...)
	v28 := append([]string{"ibv_reg_mr_iova2"}, v32...)
	return map[string][]string{
		"rdma-core 33": v34, "rdma-core 30": v32, "rdma-core 25": v28,
		"rdma-core 22": append([]string{"ibv_qp_to_qp_ex"}, v28...),
	}
}

// TestOldLibraries starts on each, says what is missing and what that switches off, and measures.
func TestOldLibraries(t *testing.T) {
	for name, absent := range oldLibraries() {
		t.Run(name, func(t *testing.T) {
			p := fakeVerbs(t, map[string]string{"PART": "4129"}, absent...)
			port := filepath.Join(p.sysfs, "class", "infiniband", "fake0", "ports", "1")
			// where the library has no table
			for file, text := range map[string]string{"gids/0": "::ffff:10.0.0.1", "gid_attrs/types/0": "RoCE v2"} {
				path := filepath.Join(port, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			l, err := p.Library()
			if err != nil || len(l.Missing) != len(absent) {
				t.Fatalf("library %+v, %v; want %d symbols missing", l, err, len(absent))
			}
			for _, m := range l.Missing {
				if m.Without == "" {
					t.Errorf("%s is missing, and nothing says what that switches off", m.Name)
				}
			}
			d := openFake(t, p)
			x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{}), newEndpoint(t, d, 1, verbs.QueuePairOptions{})
			connect(t, x, y)
			j := &job.Job{
				CQs: []verbs.CompletionQueue{x.cq},
				Lanes: []job.Lane{
					{QP: x.qps[0], Ring: x.ring(verbs.OpWrite, 8, 32, y, 0), Count: 100, Window: 16, Signal: 4, Batch: 1},
				},
			}
			if got := run(t, d, j, 1<<40); got.Completed != 100 {
				t.Errorf("%+v, want 100 messages completed", got)
			}
		})
	}
}

// TestRequiredSymbolsMissing takes required symbols away, one and all: a refusal
// that names them, and nothing is called.
func TestRequiredSymbolsMissing(t *testing.T) {
	var all []string
	lib := libibverbs()
	for _, s := range lib.symbols() {
		if s.Without == "" {
			all = append(all, s.Name)
		}
	}
	for _, absent := range [][]string{{"ibv_create_qp"}, all[1:]} {
		_, err := fakeVerbs(t, nil, absent...).Devices()
		if err == nil || verbs.RemedyOf(err) == "" {
			t.Fatalf("without %v: %v, remedy %q", absent, err, verbs.RemedyOf(err))
		}
		for _, name := range absent {
			if !strings.Contains(err.Error(), name+"@IBVERBS_1.") {
				t.Errorf("without %s: %v", name, err)
			}
		}
	}
}

// TestFaults lets each verb fail with what drivers answer: the error names the verb, the device and the errno, has a
// remedy, and everything made before closes.
func TestFaults(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOMEM, syscall.EINVAL, syscall.EPERM, syscall.EIO, syscall.EOPNOTSUPP} {
		for verb, words := range map[string]string{
			"get_device_list": "list RDMA devices", "open_device": "open device", "query_device": "query device",
			"alloc_pd":  "allocate protection domain",
			"create_cq": "create completion queue", "create_comp_channel": "create completion channel",
			"create_qp":  "create RC queue pair",
			"create_srq": "create shared receive queue", "reg_mr": "bytes of memory", "modify_qp": "modify queue pair to INIT",
			"create_ah": "create address handle",
		} {
			t.Run(fmt.Sprintf("%s %v", verb, errno), func(t *testing.T) {
				err := useEverything(t, fakeVerbs(t, map[string]string{"FAULTS": fmt.Sprintf("%s=%d", verb, int(errno))}))
				if err == nil || !errors.Is(err, errno) || !strings.Contains(err.Error(), words) || verbs.RemedyOf(err) == "" {
					t.Errorf("%v, remedy %q; want %q with %v and a remedy", err, verbs.RemedyOf(err), words, errno)
				}
			})
		}
	}
}

// useEverything calls each verb once, and returns the first error.
func useEverything(t *testing.T, p *Provider) error {
	t.Helper()
	d, err := p.Open("fake0")
	if err != nil {
		return err
	}
	closeLater(t, d)
	ch, err := d.CreateCompletionChannel()
	if err != nil {
		return err
	}
	closeLater(t, ch)
	pd, err := d.AllocPD()
	if err != nil {
		return err
	}
	closeLater(t, pd)
	cq, err := d.CreateCQ(verbs.CompletionQueueOptions{})
	if err != nil {
		return err
	}
	closeLater(t, cq)
	srq, err := pd.CreateSRQ(verbs.SharedReceiveQueueOptions{})
	if err != nil {
		return err
	}
	closeLater(t, srq)
	b, err := verbs.Alloc(4096, verbs.MemoryOptions{})
	if err != nil {
		return err
	}
	closeLater(t, b)
	mr, err := pd.RegisterMemory(b, 0, b.Len(), verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	closeLater(t, mr)
	g := bestGID(t, d)
	ah, err := pd.CreateAH(verbs.AddressVector{DGID: g.GID, SGIDIndex: g.Index, UseGID: true, Port: 1})
	if err != nil {
		return err
	}
	closeLater(t, ah)
	qp, err := pd.CreateQP(verbs.QueuePairOptions{SendCQ: cq, SRQ: srq})
	if err != nil {
		return err
	}
	closeLater(t, qp)
	return verbs.InitQP(qp, verbs.ConnectOptions{})
}

// TestVanished tears the device out under a running job: the event says so, posting and making say so, the job does not
// hang, and everything closes.
func TestVanished(t *testing.T) {
	for _, part := range []string{"0", "4129"} {
		d := openFake(t, fakeVerbs(t, map[string]string{"PART": part, "VANISH": "1000"}))
		x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{}), newEndpoint(t, d, 1, verbs.QueuePairOptions{})
		connect(t, x, y)
		j := &job.Job{
			CQs: []verbs.CompletionQueue{x.cq},
			Lanes: []job.Lane{
				{QP: x.qps[0], Ring: x.ring(verbs.OpWrite, 8, 32, y, 0), Count: 1 << 40, Window: 16, Signal: 4, Batch: 1},
			},
		}
		r, err := job.Prepare(d, j)
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, r)
		var p job.Progress
		for end := time.Now().Add(time.Minute); err == nil && time.Now().Before(end) && p.Posted < 1000; {
			p, err = r.Run(job.Now() + 1_000_000)
		}
		select {
		case e := <-d.Events():
			if e.Type != verbs.EventDeviceFatal {
				t.Errorf("part %s: event %v, want DEVICE_FATAL", part, e.Type)
			}
		case <-time.After(time.Minute):
			t.Fatalf("part %s: no event; %+v, %v", part, p, err)
		}
		for what, err := range map[string]error{
			"post":  x.qps[0].PostSend([]verbs.SendRequest{{Opcode: verbs.OpWrite}}),
			"alloc": second(d.AllocPD()),
			"port":  second(d.Port(1)),
		} {
			if !errors.Is(err, syscall.EIO) || verbs.RemedyOf(err) == "" {
				t.Errorf("part %s: %s on a device that is gone: %v, remedy %q", part, what, err, verbs.RemedyOf(err))
			}
		}
	}
}

// TestStateUntold walks a queue pair to RTS on a device that does not tell states.
func TestStateUntold(t *testing.T) {
	d := openFake(t, fakeVerbs(t, map[string]string{"UNTOLD": "1"}))
	x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{}), newEndpoint(t, d, 1, verbs.QueuePairOptions{})
	connect(t, x, y)
	if s := x.qps[0].State(); s != verbs.StateRTS {
		t.Errorf("state %v, want RTS", s)
	}
}

func second[T any](_ T, err error) error { return err }

// TestPostingAllocatesNothing runs a stream by each interface, with requests of one kind and of several.
func TestPostingAllocatesNothing(t *testing.T) {
	for _, part := range []string{"0", "4129"} {
		for _, mixed := range []bool{false, true} {
			d := postDevice(t, part)
			x, y := newEndpoint(t, d, 1, verbs.QueuePairOptions{}), newEndpoint(t, d, 1, verbs.QueuePairOptions{})
			connect(t, x, y)
			ring := x.ring(verbs.OpWrite, 64, 32, y, 0)
			if mixed {
				ring[5] = x.ring(verbs.OpRead, 1, 32, y, 0)[0]
			}
			j := &job.Job{
				CQs: []verbs.CompletionQueue{x.cq}, Stop: new(atomic.Uint32),
				Lanes: []job.Lane{{QP: x.qps[0], Ring: ring, Window: 64, Signal: 16, Batch: 1}},
			}
			r, err := job.Prepare(d, j)
			if err != nil {
				t.Fatal(err)
			}
			if n := testing.AllocsPerRun(20, func() {
				if _, err := r.Run(job.Now() + 300_000); err != nil {
					t.Fatal(err)
				}
			}); n != 0 {
				t.Errorf("part %s, mixed %t: a run allocates %v times, want 0", part, mixed, n)
			}
			j.Stop.Store(1)
			if p, err := r.Run(1 << 62); err != nil || !p.Done {
				t.Errorf("part %s: stopped: %+v, %v", part, p, err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

//go:build linux && cgo

package ibv

// #include "post.h"
// #include "shim.h"
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	"github.com/gobw/gobw/verbs"
)

// perftestPostsWR names the devices on which stock perftest posts with ibv_wr_*: it goes by these numbers, not by what the
// device offers (perftest 26.04, verify_params_with_device_context and ib_dev_name). On all others it calls ibv_post_send.
var perftestPostsWR = [...]struct { //nolint:gochecknoglobals // a table
	vendor uint32 // 0: any that is not in notByPart
	parts  []uint32
}{
	{0, []uint32{ // Connect-IB, ConnectX-4 to ConnectX-10, their virtual functions, BlueField to BlueField-4
		4113, 4115, 4116, 4117, 4118, 4119, 4120, 4121, 4122, 4123, 4124, 4125, 4126, 4127, 4129, 4131, 4133, 4135,
		41682, 41683, 41686, 41692, 41695,
	}},
	{0, []uint32{61344, 61345, 61346, 61347, 61348}},               // EFA
	{0, []uint32{41506, 41507, 41508, 41509, 41510, 41512, 41519}}, // hns
	{vendorYunsilicon, nil},                                        // every part
}

const vendorYunsilicon = 0x1f67

// notByPart are the vendors whose part numbers mean something else: Chelsio, Intel, Synopsys, Nebula-Matrix, Pensando.
var notByPart = [...]uint32{0x1425, 0x8086, 0x209b, vendorYunsilicon, 0x1f0f, 0x1dd8} //nolint:gochecknoglobals // a table

// perftestPostAPI is what stock perftest posts with on a device.
func perftestPostAPI(vendor, part uint32) verbs.PostAPI {
	for _, row := range perftestPostsWR {
		switch {
		case row.vendor != 0 && row.vendor == vendor,
			row.vendor == 0 && slices.Contains(row.parts, part) && !slices.Contains(notByPart[:], vendor):
			return verbs.PostWR
		}
	}
	return verbs.PostSend
}

// create makes the queue pair for the interface asked for. Where perftest's choice is not there, ibv_post_send takes its place
// and the capabilities say so; one that was asked for by name is refused.
func (q *queuePair) create(a *C.struct_vb_qp_init_attr, o verbs.QueuePairOptions) error {
	d := q.p.d
	want := o.PostAPI
	if want == verbs.PostAuto {
		want = perftestPostAPI(d.info.VendorID, d.info.PartID)
	}
	if want == verbs.PostWR {
		var err error
		if o.SendSGEs > 1 {
			err = d.faultyLists()
		}
		if err == nil {
			err = q.createExtended(a, o)
		}
		if err == nil || !isUnsupported(err) {
			return err
		}
		if o.PostAPI == verbs.PostWR {
			return fmt.Errorf("posting with ibv_wr_*: %w", err)
		}
	}
	var err error
	if q.qp, err = C.vb_create_qp(d.v, q.p.pd, a); q.qp == nil {
		return err
	}
	q.post, q.caps.PostAPI = d.context.ops.post_send, verbs.PostSend
	return nil
}

// createExtended makes a queue pair for ibv_wr_*. Nothing named: all the operations that the transport and the device have.
func (q *queuePair) createExtended(a *C.struct_vb_qp_init_attr, o verbs.QueuePairOptions) error {
	sends := o.Sends
	tries := []verbs.Opcodes{sends}
	if sends == 0 {
		all := verbs.Opcodes(0)
		for o := verbs.OpWrite; o <= verbs.OpSendWithInvalidate; o++ {
			if q.transport.Supports(o) {
				all |= verbs.OpcodesOf(o)
			}
		}
		moving := all &^ verbs.OpcodesOf(verbs.OpLocalInvalidate, verbs.OpBindMW, verbs.OpSendWithInvalidate)
		tries = []verbs.Opcodes{all, moving, moving &^ verbs.OpcodesOf(verbs.OpCompareSwap, verbs.OpFetchAdd)}
	}
	var err error
	for _, ops := range tries {
		if q.qp, err = C.vb_create_qp_ex(q.p.d.v, q.p.pd, a, C.uint64_t(ops)); q.qp != nil {
			q.post, q.caps.PostAPI, q.sendable = C.vb_poster(q.qp, nil, 0), verbs.PostWR, ops
			return nil
		}
		if !isUnsupported(err) {
			break
		}
	}
	return err
}

// isUnsupported tells "no such interface, or not for these operations" from other failures.
func isUnsupported(err error) bool {
	return errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, verbs.ErrUnsupported)
}

// faultyLists tells whether ibv_wr_* of a software device sends lists of several entries wrong. That of rxe did until rdma-core
// 57.3, 63.1 and 64: the first entry's length as often as there are entries; and of a list inline nothing (rdma-core 406cd2ad0,
// 1e8ed0aff). Nothing tells the release, so the device writes a few bytes to itself, once.
func (d *device) faultyLists() error {
	d.probed.Do(func() {
		if d.info.Software {
			d.listFault = d.probeLists()
		}
	})
	return d.listFault
}

// probeLists is nil where the bytes arrive, and where nothing can be said.
func (d *device) probeLists() error {
	var open []io.Closer
	defer func() {
		for _, c := range slices.Backward(open) {
			_ = c.Close()
		}
	}()
	cq, err := d.CreateCQ(verbs.CompletionQueueOptions{Depth: 4})
	if err != nil {
		return nil //nolint:nilerr // whoever asked for a queue pair is told
	}
	open = append(open, cq)
	p, err := d.AllocPD()
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	open = append(open, p)
	const access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite
	buf, err := verbs.Alloc(4096, verbs.MemoryOptions{})
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	open = append(open, buf)
	mr, err := p.RegisterMemory(buf.Bytes(), access)
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	open = append(open, mr)
	o := verbs.QueuePairOptions{SendCQ: cq, SendDepth: 4, SendSGEs: 2, InlineBytes: 32, Sends: verbs.OpcodesOf(verbs.OpWrite)}
	qp, err := p.(*protectionDomain).createQP(o, (*queuePair).createExtended)
	if err != nil {
		return nil //nolint:nilerr // likewise
	}
	open = append(open, qp)
	port, err := d.Port(1)
	gids, gidErr := d.GIDs(1)
	if err != nil || gidErr != nil || len(gids) == 0 {
		return nil //nolint:nilerr // likewise
	}
	g := gids[len(gids)-1]
	self := verbs.ConnectOptions{
		Access: access, PathMTU: port.ActiveMTU, DestQPN: qp.QPN(), Timeout: 14, RetryCount: 1, MinRNRTimer: 12,
		AddressVector: verbs.AddressVector{DGID: g.GID, SGIDIndex: g.Index, UseGID: true, DLID: port.LID},
	}
	if verbs.InitQP(qp, self) != nil || verbs.ConnectQP(qp, self) != nil {
		return nil
	}
	b := buf.Bytes()
	for i := range 32 {
		b[i] = byte(i + 1)
	}
	for _, flags := range []verbs.SendFlags{verbs.Signaled, verbs.Signaled | verbs.Inline} {
		clear(b[32:64])
		err := qp.PostSend([]verbs.SendRequest{{
			Opcode: verbs.OpWrite, Flags: flags, RemoteAddr: mr.Addr() + 32, RKey: mr.RKey(),
			SGEs: []verbs.SGE{{Addr: mr.Addr(), Length: 8, LKey: mr.LKey()}, {Addr: mr.Addr() + 8, Length: 24, LKey: mr.LKey()}},
		}})
		var c [1]verbs.Completion
		for n, deadline := 0, time.Now().Add(time.Second); n == 0 && err == nil && time.Now().Before(deadline); {
			n, err = cq.Poll(c[:])
		}
		if err == nil && c[0].Opcode == verbs.CompletedWrite && c[0].Status == verbs.Success && !bytes.Equal(b[:32], b[32:64]) {
			return fmt.Errorf("this driver sends lists of several entries wrong, as rdma-core's rxe before 57.3, 63.1 and 64: %w", verbs.ErrUnsupported)
		}
	}
	return nil
}

//go:build linux && cgo

package ibv

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/gobw/gobw/verbs"
)

// perftestPostsWR are the part numbers of the devices on which stock perftest posts with ibv_wr_*: it goes by
// these, not by what the device offers (perftest 26.04, verify_params_with_device_context and ib_dev_name).
// On all others it calls ibv_post_send.
var perftestPostsWR = [...]uint32{ //nolint:gochecknoglobals // a table
	// Connect-IB, ConnectX-4 to ConnectX-10, their virtual functions, BlueField to BlueField-4
	4113, 4115, 4116, 4117, 4118, 4119, 4120, 4121, 4122, 4123, 4124, 4125, 4126, 4127, 4129, 4131, 4133, 4135,
	41682, 41683, 41686, 41692, 41695,
	61344, 61345, 61346, 61347, 61348, // EFA
	41506, 41507, 41508, 41509, 41510, 41512, 41519, // hns
}

// vendorYunsilicon is the vendor on all of whose devices it does.
const vendorYunsilicon = 0x1f67

// notByPart are the vendors whose part numbers mean something else: Chelsio, Intel, Synopsys, Nebula-Matrix, Pensando.
var notByPart = [...]uint32{0x1425, 0x8086, 0x209b, 0x1f0f, 0x1dd8} //nolint:gochecknoglobals // a table

// perftestPostAPI is what stock perftest posts with on a device.
func perftestPostAPI(vendor, part uint32) verbs.PostAPI {
	if vendor == vendorYunsilicon || slices.Contains(perftestPostsWR[:], part) && !slices.Contains(notByPart[:], vendor) {
		return verbs.PostWR
	}
	return verbs.PostSend
}

// create makes the queue pair for the interface asked for. Where perftest's choice is not there, ibv_post_send takes
// its place and [verbs.PostsBy] says so; one that was asked for by name is refused.
func (q *queuePair) create(pd *C.struct_vb_pd, a *C.struct_vb_qp_init_attr, by verbs.Posting) (err error) {
	d := q.d
	want := by.API
	if want == verbs.PostAuto {
		want = perftestPostAPI(d.info.VendorID, d.info.PartID)
	}
	if want == verbs.PostWR {
		if err = q.createExtended(pd, a, by.Sends); err == nil || !isUnsupported(err) {
			return err
		}
		if by.API == verbs.PostWR {
			return fmt.Errorf("posting with ibv_wr_*: %w", err)
		}
	}
	q.qp, err = C.vb_create_qp(d.v, pd, a)
	q.post, q.api = d.context.ops.post_send, verbs.PostSend
	return refusal(q.qp, err)
}

// createExtended makes a queue pair for ibv_wr_*. Nothing named: all the operations
// that the transport and the device have.
func (q *queuePair) createExtended(pd *C.struct_vb_pd, a *C.struct_vb_qp_init_attr, sends verbs.Opcodes) (err error) {
	// that of rxe sent the first entry as often as there are entries (rdma-core 406cd2ad0, 1e8ed0aff)
	if q.d.info.Software && a.cap.max_send_sge > 1 {
		return fmt.Errorf("of lists of several entries: %w for software devices, whose drivers in rdma-core before 57.3, "+
			"63.1 and 64 send them wrong", verbs.ErrUnsupported)
	}
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
	for _, ops := range tries {
		if q.qp, err = C.vb_create_qp_ex(q.d.v, pd, a, C.uint64_t(ops)); q.qp != nil {
			q.post, q.api, q.sendable = C.vb_poster(q.qp, nil, 0), verbs.PostWR, ops
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

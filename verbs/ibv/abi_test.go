//go:build linux && cgo

package ibv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/verbs"
)

const (
	realHeader   = "/usr/include/infiniband/verbs.h"
	realCMHeader = "/usr/include/rdma/rdma_cma.h"
)

// compiler is the C compiler to run over a file, or a reason to skip.
func compiler(t testing.TB, file string) string {
	t.Helper()
	if _, err := os.Stat(file); err != nil {
		t.Skip("the test's sources are not here: run it with go test, not as a binary elsewhere")
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		testrun.Missing(t, "a C compiler")
	}
	return cc
}

// compile runs the C compiler over a file, for its verdict alone.
func compile(t *testing.T, file string) {
	t.Helper()
	if _, err := os.Stat(realHeader); err != nil {
		testrun.Missing(t, realHeader+" (package libibverbs-dev)")
	}
	if out, err := exec.Command(compiler(t, file), "-std=gnu11", "-fsyntax-only", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestABI asserts every layout of abi.h against the real header.
func TestABI(t *testing.T) { compile(t, filepath.Join("testdata", "abi.c")) }

// TestRDMACMABI asserts every layout of rdmacm.h against the real header.
func TestRDMACMABI(t *testing.T) {
	if _, err := os.Stat(realCMHeader); err != nil {
		testrun.Missing(t, realCMHeader+" (package librdmacm-dev)")
	}
	compile(t, filepath.Join("testdata", "rdmacm_abi.c"))
}

// TestABIConstants asserts the numbers of package verbs that go to libibverbs as they are.
func TestABIConstants(t *testing.T) {
	var b strings.Builder
	b.WriteString("#include <infiniband/verbs.h>\n")
	for name, v := range map[string]uint64{
		"IBV_WR_RDMA_WRITE": uint64(verbs.OpWrite), "IBV_WR_RDMA_WRITE_WITH_IMM": uint64(verbs.OpWriteWithImmediate),
		"IBV_WR_SEND": uint64(verbs.OpSend), "IBV_WR_SEND_WITH_IMM": uint64(verbs.OpSendWithImmediate),
		"IBV_WR_RDMA_READ":          uint64(verbs.OpRead),
		"IBV_WR_ATOMIC_CMP_AND_SWP": uint64(verbs.OpCompareSwap), "IBV_WR_ATOMIC_FETCH_AND_ADD": uint64(verbs.OpFetchAdd),
		"IBV_WR_LOCAL_INV": uint64(verbs.OpLocalInvalidate), "IBV_WR_BIND_MW": uint64(verbs.OpBindMW),
		"IBV_WR_SEND_WITH_INV": uint64(verbs.OpSendWithInvalidate),
		"IBV_SEND_FENCE":       uint64(verbs.Fence), "IBV_SEND_SIGNALED": uint64(verbs.Signaled),
		"IBV_SEND_SOLICITED": uint64(verbs.Solicited), "IBV_SEND_INLINE": uint64(verbs.Inline),
		"IBV_ACCESS_LOCAL_WRITE": uint64(verbs.AccessLocalWrite), "IBV_ACCESS_REMOTE_WRITE": uint64(verbs.AccessRemoteWrite),
		"IBV_ACCESS_REMOTE_READ":      uint64(verbs.AccessRemoteRead),
		"IBV_ACCESS_REMOTE_ATOMIC":    uint64(verbs.AccessRemoteAtomic),
		"IBV_ACCESS_MW_BIND":          uint64(verbs.AccessMWBind),
		"IBV_ACCESS_ON_DEMAND":        uint64(verbs.AccessOnDemand),
		"IBV_ACCESS_RELAXED_ORDERING": uint64(verbs.AccessRelaxedOrdering),
		"IBV_ACCESS_OPTIONAL_RANGE":   uint64(optionalAccess),
		"IBV_QPT_RC":                  uint64(verbs.RC), "IBV_QPT_UC": uint64(verbs.UC), "IBV_QPT_UD": uint64(verbs.UD),
		"IBV_QPS_RESET": uint64(verbs.StateReset), "IBV_QPS_INIT": uint64(verbs.StateInit),
		"IBV_QPS_RTR": uint64(verbs.StateRTR),
		"IBV_QPS_RTS": uint64(verbs.StateRTS), "IBV_QPS_SQD": uint64(verbs.StateSQD), "IBV_QPS_SQE": uint64(verbs.StateSQE),
		"IBV_QPS_ERR":  uint64(verbs.StateError),
		"IBV_QP_STATE": uint64(verbs.AttrState), "IBV_QP_CUR_STATE": uint64(verbs.AttrCurrentState),
		"IBV_QP_EN_SQD_ASYNC_NOTIFY": uint64(verbs.AttrSQDAsyncNotify),
		"IBV_QP_ACCESS_FLAGS":        uint64(verbs.AttrAccess), "IBV_QP_PKEY_INDEX": uint64(verbs.AttrPKeyIndex),
		"IBV_QP_PORT": uint64(verbs.AttrPort),
		"IBV_QP_QKEY": uint64(verbs.AttrQKey), "IBV_QP_AV": uint64(verbs.AttrAddressVector),
		"IBV_QP_PATH_MTU": uint64(verbs.AttrPathMTU),
		"IBV_QP_TIMEOUT":  uint64(verbs.AttrTimeout), "IBV_QP_RETRY_CNT": uint64(verbs.AttrRetryCount),
		"IBV_QP_RNR_RETRY": uint64(verbs.AttrRNRRetry),
		"IBV_QP_RQ_PSN":    uint64(verbs.AttrRecvPSN), "IBV_QP_MAX_QP_RD_ATOMIC": uint64(verbs.AttrMaxRDAtomic),
		"IBV_QP_MIN_RNR_TIMER": uint64(verbs.AttrMinRNRTimer),
		"IBV_QP_SQ_PSN":        uint64(verbs.AttrSendPSN), "IBV_QP_MAX_DEST_RD_ATOMIC": uint64(verbs.AttrMaxDestRDAtomic),
		"IBV_QP_CAP": uint64(verbs.AttrCapabilities), "IBV_QP_DEST_QPN": uint64(verbs.AttrDestQPN),
		"IBV_WC_SUCCESS": uint64(verbs.Success), "IBV_WC_WR_FLUSH_ERR": uint64(verbs.FlushError),
		"IBV_WC_RETRY_EXC_ERR":     uint64(verbs.RetryExceeded),
		"IBV_WC_RNR_RETRY_EXC_ERR": uint64(verbs.RNRRetryExceeded), "IBV_WC_GENERAL_ERR": uint64(verbs.GeneralError),
		"IBV_WC_SEND": uint64(verbs.CompletedSend), "IBV_WC_RDMA_READ": uint64(verbs.CompletedRead),
		"IBV_WC_LOCAL_INV": uint64(verbs.CompletedLocalInv),
		"IBV_WC_BIND_MW":   uint64(verbs.CompletedBindMW), "IBV_WC_RECV": uint64(verbs.CompletedReceive),
		"IBV_WC_RECV_RDMA_WITH_IMM": uint64(verbs.CompletedReceiveWithImmediate),
		"IBV_WC_GRH":                uint64(verbs.WithGRH), "IBV_WC_WITH_IMM": uint64(verbs.WithImmediate),
		"IBV_WC_WITH_INV":    uint64(verbs.WithInvalidate),
		"IBV_EVENT_PORT_ERR": uint64(verbs.EventPortError), "IBV_EVENT_GID_CHANGE": uint64(verbs.EventGIDChange),
		"IBV_EVENT_WQ_FATAL":            uint64(verbs.EventWorkQueueFatal),
		"IBV_EVENT_QP_LAST_WQE_REACHED": uint64(verbs.EventQPLastWQEReached), "IBV_SRQ_LIMIT": srqLimit,
		"IBV_MTU_4096":    uint64(verbs.MTU4096),
		"IBV_PORT_ACTIVE": uint64(verbs.PortActive), "IBV_LINK_LAYER_ETHERNET": uint64(verbs.LinkEthernet),
		"IBV_GID_TYPE_ROCE_V2": uint64(verbs.GIDRoCEv2),
		"IBV_ODP_SUPPORT":      odpSupport, "IBV_ODP_SUPPORT_SEND": uint64(verbs.PagedSend),
		"IBV_ODP_SUPPORT_RECV":  uint64(verbs.PagedReceive),
		"IBV_ODP_SUPPORT_WRITE": uint64(verbs.PagedWrite), "IBV_ODP_SUPPORT_READ": uint64(verbs.PagedRead),
		"IBV_ODP_SUPPORT_ATOMIC":        uint64(verbs.PagedAtomic),
		"IBV_ODP_SUPPORT_SRQ_RECV":      uint64(verbs.PagedSharedReceive),
		"IBV_DEVICE_MEM_MGT_EXTENSIONS": capMemoryManagement, "IBV_DEVICE_MEM_WINDOW_TYPE_2A": capMemoryWindow2A,
		"IBV_DEVICE_MEM_WINDOW_TYPE_2B": capMemoryWindow2B,
	} {
		fmt.Fprintf(&b, "_Static_assert((unsigned long long)(%s) == %dull, %q);\n", name, v, name)
	}
	file := filepath.Join(t.TempDir(), "constants.c")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	compile(t, file)
}

package search

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/gobw/gobw/internal/plan"
	engine "github.com/gobw/gobw/internal/search"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/verbs"
)

//go:embed program/verbs.c
var program string

// program is a C program of verbs calls that runs a point's test, where perftest cannot; empty: this one cannot, either.
func (m *meter) program(p engine.Point) string {
	spec := m.spec(p)
	settled, err := plan.Settle(spec, m.limits, plan.Peer{}, plan.Policy{})
	if m.gid < 0 || m.beside(p) > 0 || m.perftest(p) != "" || m.limits.Device.Software || err != nil {
		return ""
	}
	spec = settled.Spec()
	opcode, has := map[plan.Operation]string{plan.Write: "RDMA_WRITE", plan.Read: "RDMA_READ", plan.Send: "SEND"}[spec.Operation]
	if !has || spec.Kind != plan.Bandwidth || spec.Threads > 1 || spec.Rails > 1 || spec.Events || spec.SRQ || spec.PostAPI == verbs.PostWR {
		return ""
	}
	for _, f := range m.others() {
		if f.Name != "gid-index" && f.Name != "ib-port" {
			return ""
		}
	}
	size := spec.Sizes[0]
	lane, queues := settled.Lane(size, 0), settled.Queues()
	mix := plain.Each(spec.Cycle(size), func(part plan.Part) string { return fmt.Sprintf("{%d, %d}", part.Bytes, part.SGEs) })
	both := 0
	if spec.Bidirectional {
		both = 1
	}
	return strings.Replace(program, "// SETTINGS\n", fmt.Sprintf(`#define DEVICE %q
#define TCP_PORT "18517"
#define TYPE IBV_QPT_%v
#define OPCODE IBV_WR_%s
#define MTU IBV_MTU_%v
enum { IB_PORT = %d, GID_INDEX = %d, READS = %d, BIDIRECTIONAL = %d, QPS = %d, TX_DEPTH = %d, RX_DEPTH = %d };
enum { POST_LIST = %d, CQ_MOD = %d, INLINE = %d, MAX_SGE = %d, LARGEST = %d };
static const struct { int bytes, sges; } mix[] = {%s};
`, m.limits.Device.Name, spec.Transport, opcode, settled.MTU(), m.limits.Port.Number, m.gid, max(settled.Outstanding(), 1), both, spec.QPs, lane.Window, queues.RecvWRs,
		lane.Batch, lane.Signal, max(queues.Inline, 0), queues.SendSGEs, size, strings.Join(mix, ", ")), 1)
}

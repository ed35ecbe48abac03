package verbs_test

import (
	"fmt"
	"log"
	"net/netip"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// Two queue pairs of one device are connected with each other, and the first WRITEs into the memory of the second, whose owner does
// nothing. The device is the software one, so that this runs anywhere: ibv.New() finds real ones. Two programs exchange over a
// socket what is passed on here: see examples/hello.
func Example() {
	dev, err := roce.New(roce.Options{Address: netip.MustParseAddr("127.0.0.1")}).Open("roce0")
	check(err)
	defer closing(dev)
	gids, err := dev.GIDs(1)
	check(err)

	// A protection domain, a completion queue, and memory that the device may use.
	pd, err := dev.AllocPD()
	check(err)
	defer closing(pd)
	cq, err := dev.CreateCQ(verbs.CompletionQueueOptions{})
	check(err)
	defer closing(cq)
	buf, err := verbs.Alloc(4096, verbs.MemoryOptions{})
	check(err)
	defer closing(buf)
	mr, err := pd.RegisterMemory(buf.Bytes(), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	check(err)
	defer closing(mr)

	// RESET to INIT to RTR to RTS, each to the other.
	var qps [2]verbs.QueuePair
	for i := range qps {
		qps[i], err = pd.CreateQP(verbs.QueuePairOptions{Transport: verbs.RC, SendCQ: cq})
		check(err)
		defer closing(qps[i])
	}
	for i, qp := range qps {
		o := verbs.ConnectOptions{
			Access: verbs.AccessRemoteWrite, DestQPN: qps[1-i].QPN(),
			AddressVector: verbs.AddressVector{UseGID: true, DGID: gids[0].GID, SGIDIndex: gids[0].Index},
		}
		check(verbs.InitQP(qp, o))
		check(verbs.ConnectQP(qp, o))
	}

	// Post, and poll until the completion is there: for RC it means that the bytes are, too.
	n := copy(buf.Bytes(), "hello verbs")
	check(qps[0].PostSend([]verbs.SendRequest{{
		ID: 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{mr.SGE(0, n)},
		RemoteAddr: mr.Addr() + 2048, RKey: mr.RKey(),
	}}))
	done := make([]verbs.Completion, 1)
	for found := 0; found == 0; {
		found, err = cq.Poll(done)
		check(err)
	}
	fmt.Println(done[0].Opcode, done[0].Status.String())
	fmt.Printf("%s\n", buf.Bytes()[2048:2048+n])
	// Output:
	// RDMA_WRITE SUCCESS
	// hello verbs
}

func check(err error) {
	if err != nil {
		log.Panic(err, "; ", verbs.RemedyOf(err))
	}
}

// closing closes a handle when the example ends, newest first.
func closing(c interface{ Close() error }) { check(c.Close()) }

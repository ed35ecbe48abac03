package verbs_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// Two queue pairs of one device are connected with each other, and the first WRITEs into the memory of the second,
// whose owner does nothing. The device is the software one, so that this runs anywhere: ibv.New() finds real ones. Two
// programs exchange over a socket what is passed on here: see examples/hello.
func Example() {
	dev, err := roce.New(roce.Options{Address: netip.MustParseAddr("127.0.0.1")}).Open("roce0")
	check(err)
	defer closing(dev)
	gid, err := dev.DefaultGID()
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
	mr, err := pd.RegisterMemory(buf, 0, buf.Len(), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	check(err)
	defer closing(mr)

	// RESET to INIT to RTR to RTS, each to the other.
	var qps [2]verbs.QueuePair
	for i := range qps {
		qps[i], err = pd.CreateQP(verbs.QueuePairOptions{Transport: verbs.RC, SendCQ: cq})
		check(err)
		defer closing(qps[i])
	}
	var addresses [2]verbs.Address
	for i, qp := range qps {
		addresses[i], err = verbs.AddressOf(qp, 1, gid, mr)
		check(err)
	}
	o := verbs.DefaultConnect()
	o.Access = verbs.AccessRemoteWrite
	for i, qp := range qps {
		check(verbs.Connect(qp, gid, addresses[i], addresses[1-i], o))
	}

	// Post, and poll until the completion is there: for RC it means that the bytes are, too.
	n := copy(buf.Bytes(), "hello verbs")
	check(qps[0].PostSend([]verbs.SendRequest{{
		ID: 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{mr.SGE(0, n)},
		RemoteAddr: mr.Addr() + 2048, RKey: mr.RKey(),
	}}))
	done, err := verbs.Await(context.Background(), cq, 1)
	check(err)
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

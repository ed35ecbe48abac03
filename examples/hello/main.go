// Command hello is the first RDMA program: one end WRITEs a string into the memory of the other, whose CPU has no part
// in it. Start "hello" on one host and "hello HOST" on the other, on any RDMA device, or on none: then on roce0.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/gobw/gobw/examples/ends"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
	"github.com/gobw/gobw/verbs/roce"
)

func main() {
	host, writes := "", len(os.Args) > 1
	if writes {
		host = os.Args[1]
	}
	conn := ends.Meet(host) // the ends tell each other by TCP what they must know
	// A device, its address on the connection's network, and what all else belongs to: a protection domain.
	dev := ends.Must(verbs.Open("", ibv.New(), roce.New(roce.Options{})))
	gid := ends.Must(verbs.ChooseGID(dev, 1, conn.Here()))
	pd := ends.Must(dev.AllocPD())
	// Memory that the peer may write to, a queue that tells what became of requests, and a queue pair, in RESET.
	buf := ends.Must(verbs.Alloc(64, verbs.MemoryOptions{}))
	mr := ends.Must(pd.RegisterMemory(buf, 0, buf.Len(), verbs.AccessLocalWrite|verbs.AccessRemoteWrite))
	cq := ends.Must(dev.CreateCQ(verbs.CompletionQueueOptions{}))
	qp := ends.Must(pd.CreateQP(verbs.QueuePairOptions{Transport: verbs.RC, SendCQ: cq}))

	// Exchange addresses, and connect: INIT, RTR, RTS. Both ends are connected when both have said so.
	mine := ends.Must(verbs.AddressOf(qp, 1, gid, mr))
	theirs := ends.Swap(conn, mine)
	options := verbs.DefaultConnect()
	options.Access = verbs.AccessRemoteWrite
	ends.Check(verbs.Connect(qp, gid, mine, theirs, options))
	ends.Swap(conn, "connected")

	length := 0
	if writes { // The completion of a WRITE over RC means that the bytes are in the peer's memory.
		length = copy(buf.Bytes(), "hello, verbs")
		ends.Check(qp.PostSend([]verbs.SendRequest{{
			Opcode: verbs.OpWrite, SGEs: []verbs.SGE{mr.SGE(0, length)},
			RemoteAddr: theirs.Addr, RKey: theirs.RKey, Flags: verbs.Signaled,
		}}))
		ends.Wait(cq, 1)
		fmt.Printf("wrote into the memory of %v\n", theirs.GID.Addr())
	}
	if written := ends.Swap(conn, length); !writes {
		fmt.Printf("in my memory: %q\n", buf.Bytes()[:written])
	}
	for _, handle := range []io.Closer{qp, cq, mr, buf, pd, dev, conn} { // newest first
		ends.Check(handle.Close())
	}
}

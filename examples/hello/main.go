// Command hello is the first RDMA program: one end WRITEs a string into the memory of the other, whose CPU
// has no part in it. Start "hello" on one host and "hello HOST" on the other; any RDMA device will do, and
// without one the software device roce0.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
	"github.com/gobw/gobw/verbs/roce"
)

func main() {
	log.SetFlags(0)
	conn := meet(os.Args[1:])
	peer := json.NewDecoder(conn)
	local := conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr()

	// 1. Open the first device of libibverbs, or the software device. Its address goes with the connection's.
	dev := must(verbs.Open("", ibv.New(), roce.New(roce.Options{})))
	gid := must(verbs.ChooseGID(dev, 1, local))

	// 2. A protection domain ties together what follows. A completion queue tells what became of requests.
	pd := must(dev.AllocPD())
	cq := must(dev.CreateCQ(verbs.CompletionQueueOptions{}))

	// 3. Memory that the device may use. REMOTE_WRITE lets the peer write to it.
	buf := must(verbs.Alloc(64, verbs.MemoryOptions{}))
	mr := must(pd.RegisterMemory(buf, 0, buf.Len(), verbs.AccessLocalWrite|verbs.AccessRemoteWrite))

	// 4. A queue pair is a send queue and a receive queue. It begins in RESET.
	qp := must(pd.CreateQP(verbs.QueuePairOptions{Transport: verbs.RC, SendCQ: cq}))

	// 5. Exchange addresses over the socket. Connect moves the queue pair through INIT and RTR to RTS.
	mine := must(verbs.AddressOf(qp, 1, gid, mr))
	theirs := swap(conn, peer, mine)
	options := verbs.DefaultConnect()
	options.Access = verbs.AccessRemoteWrite
	check(verbs.Connect(qp, gid, mine, theirs, options))
	swap(conn, peer, "connected")

	// 6. Write. The completion of a WRITE over RC means that the bytes are in the peer's memory.
	if len(os.Args) > 1 {
		check(qp.PostSend([]verbs.SendRequest{{
			Opcode: verbs.OpWrite, Flags: verbs.Signaled,
			SGEs:       []verbs.SGE{mr.SGE(0, copy(buf.Bytes(), "hello, verbs"))},
			RemoteAddr: theirs.Addr, RKey: theirs.RKey,
		}}))
		must(verbs.Await(context.Background(), cq, 1))
		fmt.Printf("wrote into the memory of %v\n", theirs.GID.Addr())
	}
	swap(conn, peer, "written")
	if len(os.Args) == 1 {
		text, _, _ := bytes.Cut(buf.Bytes(), []byte{0})
		fmt.Printf("in my memory: %q\n", text)
	}

	// 7. Give everything back, newest first.
	for _, handle := range []io.Closer{qp, mr, buf, cq, pd, dev, conn} {
		check(handle.Close())
	}
}

// meet waits for the other end, or connects to the host named. The environment variable PORT chooses another TCP port.
func meet(hosts []string) net.Conn {
	port := cmp.Or(os.Getenv("PORT"), "18516")
	if len(hosts) > 0 {
		return must(net.Dial("tcp", net.JoinHostPort(hosts[0], port)))
	}
	fmt.Fprintln(os.Stderr, "waiting: now start 'hello HOST' at the other end, with the name of this host")
	return must(must(net.Listen("tcp", ":"+port)).Accept())
}

// swap sends a value to the other end, and returns the one that the other end sends.
func swap[T any](conn net.Conn, peer *json.Decoder, mine T) (theirs T) {
	check(conn.SetDeadline(time.Now().Add(time.Minute)))
	check(json.NewEncoder(conn).Encode(mine))
	check(peer.Decode(&theirs))
	return theirs
}

// check ends the program at the first error, and says what to try.
func check(err error) {
	if err != nil {
		log.Fatalln(err, verbs.RemedyOf(err))
	}
}

// must is the value that a call returned.
func must[T any](value T, err error) T {
	check(err)
	return value
}

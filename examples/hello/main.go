// Command hello is the first RDMA program: one end WRITEs a string into the memory of the other, whose CPU has no part
// in it. Start "hello" on one host and "hello HOST" on the other, on any RDMA device, or on none: then on roce0.
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

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
	"github.com/gobw/gobw/verbs/roce"
)

func main() {
	log.SetFlags(0)
	port, writes := cmp.Or(os.Getenv("PORT"), "18516"), len(os.Args) > 1
	var conn net.Conn // the ends tell each other their addresses by TCP
	if writes {
		conn = must(net.Dial("tcp", net.JoinHostPort(os.Args[1], port)))
	} else {
		fmt.Fprintln(os.Stderr, "waiting: now start 'hello HOST' at the other end, with the name of this host")
		conn = must(must(net.Listen("tcp", ":"+port)).Accept())
	}
	// A device, its address on the connection's network, and what all else belongs to: a protection domain.
	dev := must(verbs.Open("", ibv.New(), roce.New(roce.Options{})))
	gid := must(verbs.ChooseGID(dev, 1, conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr()))
	pd := must(dev.AllocPD())
	// Memory that the peer may write to, a queue that tells what became of requests, and a queue pair, in RESET.
	buf := must(verbs.Alloc(64, verbs.MemoryOptions{}))
	mr := must(pd.RegisterMemory(buf, 0, buf.Len(), verbs.AccessLocalWrite|verbs.AccessRemoteWrite))
	cq := must(dev.CreateCQ(verbs.CompletionQueueOptions{}))
	qp := must(pd.CreateQP(verbs.QueuePairOptions{Transport: verbs.RC, SendCQ: cq}))

	// Exchange addresses, with the path MTU. Who is written to connects first (INIT, RTR, RTS), and then answers.
	mine, theirs := must(verbs.AddressOf(qp, 1, gid, mr)), verbs.Address{}
	if writes {
		check(json.NewEncoder(conn).Encode(mine))
	}
	check(json.NewDecoder(conn).Decode(&theirs))
	options := verbs.DefaultConnect()
	options.Access = verbs.AccessRemoteWrite
	check(verbs.Connect(qp, gid, mine, theirs, options))
	if writes { // The completion of a WRITE over RC means that the bytes are in the peer's memory.
		list := []verbs.SGE{mr.SGE(0, copy(buf.Bytes(), "hello, verbs"))}
		check(qp.PostSend([]verbs.SendRequest{{
			Opcode: verbs.OpWrite, SGEs: list, RemoteAddr: theirs.Addr, RKey: theirs.RKey, Flags: verbs.Signaled,
		}}))
		must(verbs.Await(context.Background(), cq, 1))
		fmt.Printf("wrote into the memory of %v\n", theirs.GID.Addr())
	} else {
		check(json.NewEncoder(conn).Encode(mine))
		must(io.Copy(io.Discard, conn)) // until the peer has written, and closes the connection
		fmt.Printf("in my memory: %q\n", bytes.TrimRight(buf.Bytes(), "\x00"))
	}
	for _, handle := range []io.Closer{conn, qp, cq, mr, buf, pd, dev} { // newest first
		check(handle.Close())
	}
}

// must is the value that a call returned. The first error ends the program, and says what to try.
func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatalln(err, verbs.RemedyOf(err))
	}
}

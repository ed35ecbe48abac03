// Command hello is the first RDMA program: one end WRITEs a string into the memory of the other, whose CPU has no part in
// it. Start "hello" on one host and "hello HOST" on the other; any RDMA device will do, and without one the software
// device roce0.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
	"github.com/gobw/gobw/verbs/roce"
)

const (
	port     = "18516"
	greeting = "hello, verbs"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		if fix := verbs.RemedyOf(err); fix != "" {
			fmt.Fprintln(os.Stderr, "hello:", fix)
		}
		os.Exit(1)
	}
}

// run is the target without arguments, and writes to the host named by the only one otherwise. Either may give a port.
func run(ctx context.Context, args []string, out io.Writer) error {
	listens := len(args) == 0 || args[0] == "-listen"
	if len(args) > 2 || !listens && (len(args) == 2 || strings.HasPrefix(args[0], "-")) {
		return errors.New("usage: hello, or hello -listen HOST:PORT, at one end; hello HOST or HOST:PORT at the other")
	}
	conn, err := meet(args, listens)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	deadline, _ := ctx.Deadline()
	return errors.Join(conn.SetDeadline(deadline), talk(ctx, conn, out, !listens), conn.Close())
}

// meet opens the TCP connection over which the ends tell each other where they are.
func meet(args []string, listens bool) (net.Conn, error) {
	at := net.JoinHostPort("", port)
	if len(args) > 0 {
		at = args[len(args)-1]
	}
	if _, _, err := net.SplitHostPort(at); err != nil {
		at = net.JoinHostPort(at, port)
	}
	if !listens {
		return net.Dial("tcp", at)
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "waiting at %v: now run hello with this host's name at the other end\n", l.Addr())
	conn, err := l.Accept()
	return conn, errors.Join(err, l.Close())
}

// talk is all of RDMA that there is in this program.
func talk(ctx context.Context, conn net.Conn, out io.Writer, writes bool) (err error) {
	defer func() { // a handle that is missing is reported; panics of others pass through
		if r := recover(); r != nil {
			wrong, is := r.(failure)
			if !is {
				panic(r)
			}
			err = wrong.error
		}
	}()

	// 1. Open a device: the first of libibverbs, or the software device. Its address goes with the connection's.
	dev := need(verbs.Open("", ibv.New(), roce.New(roce.Options{})))
	defer closed(dev)
	gid := need(verbs.ChooseGID(dev, 1, conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr()))

	// 2. A protection domain ties together what follows; a completion queue tells what became of work requests.
	pd := need(dev.AllocPD())
	defer closed(pd)
	cq := need(dev.CreateCQ(verbs.CompletionQueueOptions{}))
	defer closed(cq)

	// 3. Memory that the device may use. REMOTE_WRITE lets the peer in.
	buf := need(verbs.Alloc(64, verbs.MemoryOptions{}))
	defer closed(buf)
	mr := need(pd.RegisterMemory(buf, 0, buf.Len(), verbs.AccessLocalWrite|verbs.AccessRemoteWrite))
	defer closed(mr)

	// 4. A queue pair: a send queue and a receive queue.
	qp := need(pd.CreateQP(verbs.QueuePairOptions{Transport: verbs.RC, SendCQ: cq}))
	defer closed(qp)

	// 5. Tell the peer where we are, learn the same of it, and go from RESET to RTS.
	mine := need(verbs.AddressOf(qp, 1, gid, mr))
	theirs := need(exchange(conn, mine))
	o := verbs.DefaultConnect()
	o.Access = verbs.AccessRemoteWrite
	need(0, verbs.Connect(qp, gid, mine, theirs, o))
	need(exchange(conn, "connected"))

	// 6. Write into the peer's memory, and wait for the completion: for RC it means that the bytes are there.
	if writes {
		need(0, qp.PostSend([]verbs.SendRequest{{
			Opcode: verbs.OpWrite, Flags: verbs.Signaled, SGEs: []verbs.SGE{mr.SGE(0, copy(buf.Bytes(), greeting))},
			RemoteAddr: theirs.Addr, RKey: theirs.RKey,
		}}))
		need(verbs.Await(ctx, cq, 1))
		fmt.Fprintf(out, "wrote %q to %v\n", greeting, theirs.GID.Addr())
	}
	need(exchange(conn, "written")) // now the target may look
	if !writes {
		text, _, _ := bytes.Cut(buf.Bytes(), []byte{0})
		fmt.Fprintf(out, "in my memory: %q\n", text)
	}
	return nil
}

// exchange sends a line and reads one.
func exchange[T any](conn net.Conn, mine T) (theirs T, err error) {
	line, err := json.Marshal(mine)
	if err != nil {
		return theirs, err
	}
	if _, err := conn.Write(append(line, '\n')); err != nil {
		return theirs, err
	}
	line = line[:0]
	for b := make([]byte, 1); b[0] != '\n'; line = append(line, b[0]) { // byte by byte: what follows is for the next call
		if _, err := io.ReadFull(conn, b); err != nil {
			return theirs, fmt.Errorf("read what the peer says: %w", err)
		}
	}
	return theirs, json.Unmarshal(line, &theirs)
}

// failure is an error that ends talk.
type failure struct{ error }

// closed gives a handle back. What fails then no longer matters to what was written.
func closed(handle io.Closer) { _ = handle.Close() }

// need is what a call returned, or the end of talk.
func need[T any](v T, err error) T {
	if err != nil {
		panic(failure{err})
	}
	return v
}

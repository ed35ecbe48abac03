// Command hello is the first RDMA program: one end WRITEs a string into the memory of the other, whose CPU has no part in
// it. Start "hello" on one host and "hello HOST" on the other; any RDMA device will do, and without one the software
// device roce0.
package main

import (
	"context"
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
	bufBytes = 64
)

// address is what one end must know of the other before it can write: where the queue pair is, and where the memory.
type address struct {
	QPN, PSN uint32
	GID      verbs.GID
	RKey     uint32
	Addr     uint64
}

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
	listen := len(args) == 0 || args[0] == "-listen"
	if len(args) > 2 || !listen && (len(args) == 2 || strings.HasPrefix(args[0], "-")) {
		return errors.New("usage: hello, or hello -listen HOST:PORT, at one end; hello HOST or HOST:PORT at the other")
	}
	if listen {
		at := net.JoinHostPort("", port)
		if len(args) == 2 {
			at = args[1]
		}
		l, err := net.Listen("tcp", at)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "waiting at %v: now run hello with this host's name at the other end\n", l.Addr())
		conn, err := l.Accept()
		if err = errors.Join(err, l.Close()); err != nil {
			return err
		}
		return talk(ctx, conn, out, target)
	}
	at := args[0]
	if _, _, err := net.SplitHostPort(at); err != nil {
		at = net.JoinHostPort(at, port)
	}
	conn, err := net.Dial("tcp", at)
	if err != nil {
		return err
	}
	return talk(ctx, conn, out, initiator)
}

// end is the verbs objects of one end.
type end struct {
	cq  verbs.CompletionQueue
	mr  verbs.MemoryRegion
	qp  verbs.QueuePair
	buf []byte
}

// talk sets up one end, connects it with the other over an ordinary TCP connection, and plays a part.
func talk(ctx context.Context, conn net.Conn, out io.Writer, play func(context.Context, *end, address, net.Conn, io.Writer) error) (err error) {
	defer func() { err = errors.Join(err, conn.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}

	// 1. Open a device.
	dev, gid, err := open(conn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()

	// 2. A protection domain ties together what follows.
	pd, err := dev.AllocPD()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pd.Close()) }()

	// 3. A completion queue tells what became of work requests.
	cq, err := dev.CreateCQ(verbs.CompletionQueueOptions{Depth: 16})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cq.Close()) }()

	// 4. Memory that the device may use. REMOTE_WRITE lets the peer in.
	buf, err := verbs.Alloc(bufBytes, verbs.MemoryOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, buf.Close()) }()
	mr, err := pd.RegisterMemory(buf.Bytes(), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mr.Close()) }()

	// 5. A queue pair: a send queue and a receive queue.
	qp, err := pd.CreateQP(verbs.QueuePairOptions{Transport: verbs.RC, SendCQ: cq, SendDepth: 16})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, qp.Close()) }()

	// 6. Tell the peer who we are, and learn the same of it.
	mine := address{QPN: qp.QPN(), PSN: 0x123456, GID: gid.GID, RKey: mr.RKey(), Addr: mr.Addr()}
	theirs, err := exchange(conn, mine)
	if err != nil {
		return err
	}

	// 7. RESET to INIT to RTR to RTS.
	o := verbs.ConnectOptions{
		Access: verbs.AccessRemoteWrite, DestQPN: theirs.QPN, SendPSN: mine.PSN, RecvPSN: theirs.PSN,
		AddressVector: verbs.AddressVector{UseGID: true, DGID: theirs.GID, SGIDIndex: gid.Index},
	}
	if err := verbs.InitQP(qp, o); err != nil {
		return err
	}
	if err := verbs.ConnectQP(qp, o); err != nil {
		return err
	}
	return play(ctx, &end{cq: cq, mr: mr, qp: qp, buf: buf.Bytes()}, theirs, conn, out)
}

// initiator writes the string into the peer's memory and waits for the completion, which for RC means: it is there.
func initiator(ctx context.Context, e *end, peer address, conn net.Conn, out io.Writer) error {
	if err := barrier(conn); err != nil { // both queue pairs are connected
		return err
	}
	n := copy(e.buf, greeting)
	err := e.qp.PostSend([]verbs.SendRequest{{
		ID: 1, Opcode: verbs.OpWrite, Flags: verbs.Signaled,
		SGEs:       []verbs.SGE{e.mr.SGE(0, n)},
		RemoteAddr: peer.Addr, RKey: peer.RKey,
	}})
	if err != nil {
		return err
	}
	for done := make([]verbs.Completion, 1); ; {
		found, err := e.cq.Poll(done)
		if err != nil {
			return err
		}
		if found == 0 {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		if done[0].Status != verbs.Success {
			return &verbs.CompletionError{Device: e.qp.Device().Info().Name, Completion: done[0], Sent: 1}
		}
		fmt.Fprintf(out, "wrote %q to %v\n", greeting, peer.GID.Addr())
		return barrier(conn) // now the target may look
	}
}

// target does nothing at all while the peer's device writes into its memory.
func target(_ context.Context, e *end, _ address, conn net.Conn, out io.Writer) error {
	if err := barrier(conn); err != nil {
		return err
	}
	if err := barrier(conn); err != nil {
		return err
	}
	n := 0
	for n < len(e.buf) && e.buf[n] != 0 {
		n++
	}
	_, err := fmt.Fprintf(out, "in my memory: %q\n", e.buf[:n])
	return err
}

// open opens the first RDMA device there is, or the software device at the address of the connection.
func open(conn net.Conn) (verbs.Device, verbs.GIDEntry, error) {
	for _, p := range []verbs.Provider{ibv.New(), roce.New(roce.Options{})} {
		names, err := p.Devices()
		if err != nil || len(names) == 0 {
			continue // no libibverbs here
		}
		dev, err := p.Open(names[0].Name)
		if err != nil {
			return nil, verbs.GIDEntry{}, err
		}
		gid, err := choose(dev, conn)
		if err != nil {
			return nil, gid, errors.Join(err, dev.Close())
		}
		return dev, gid, nil
	}
	return nil, verbs.GIDEntry{}, errors.New("no device")
}

// choose finds the line of the GID table that goes with the connection's address, or the last one.
func choose(dev verbs.Device, conn net.Conn) (verbs.GIDEntry, error) {
	local := conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	if d, can := dev.(interface {
		verbs.Rebinder
		DefaultGID() (verbs.GIDEntry, error)
	}); can {
		if err := d.Bind(local); err != nil {
			return verbs.GIDEntry{}, err
		}
		return d.DefaultGID()
	}
	table, err := dev.GIDs(1)
	if err != nil || len(table) == 0 {
		return verbs.GIDEntry{}, errors.Join(err, errors.New("the port has no address"))
	}
	for _, g := range table {
		if g.GID.Addr() == local && g.Type == verbs.GIDRoCEv2 {
			return g, nil
		}
	}
	return table[len(table)-1], nil
}

// exchange sends a line and reads one.
func exchange(conn net.Conn, mine address) (address, error) {
	if _, err := fmt.Fprintf(conn, "%x %x %x %v %x\n", mine.QPN, mine.PSN, mine.RKey, mine.GID, mine.Addr); err != nil {
		return address{}, err
	}
	var a address
	var gid string
	if _, err := fmt.Fscanf(conn, "%x %x %x %s %x\n", &a.QPN, &a.PSN, &a.RKey, &gid, &a.Addr); err != nil {
		return a, fmt.Errorf("read the peer's address: %w", err)
	}
	return a, a.GID.UnmarshalText([]byte(gid))
}

// barrier returns when both ends have come to it.
func barrier(conn net.Conn) error {
	if _, err := conn.Write([]byte{'.'}); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 1))
	return err
}

// Command pingpong sends messages back and forth over RC, UC or UD and says how long a round trip took. It
// speaks the handshake of rdma-core's ibv_rc_pingpong, ibv_uc_pingpong, ibv_ud_pingpong and (-q)
// ibv_srq_pingpong, so any of them can be at the other end:
//
//	ibv_rc_pingpong -d rxe0 -g 1             # on one host
//	pingpong -d mlx5_0 -g 3 -c RC HOST       # on the other
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/ibv"
	"github.com/gobw/gobw/verbs/roce"
)

// options are the command line; the letters are ibv_rc_pingpong's, -c is ours.
type options struct {
	device    string
	gidIndex  int
	transport verbs.Transport
	size      int
	iters     int
	rxDepth   int
	shared    int // queue pairs that share their receives, as ibv_srq_pingpong's; 0: one, with receives of its own
	mtu       verbs.MTU
	port      int
	listen    string
	host      string
	timeout   time.Duration // give up on a silent peer after this
}

const (
	qkey   = 0x11111111 // all pingpongs use it
	idSend = 1
	idRecv = 2
	// sharedMost is how many destinations ibv_srq_pingpong exchanges, however many
	// queue pairs there are: the rest are zeros.
	sharedMost = 256
)

func main() {
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(o, os.Stdout)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "pingpong:", err)
	if fix := verbs.RemedyOf(err); fix != "" {
		fmt.Fprintln(os.Stderr, "pingpong:", fix)
	}
	os.Exit(1)
}

// parse reads the command line.
func parse(args []string, stderr io.Writer) (options, error) {
	o := options{transport: verbs.RC}
	fs := flag.NewFlagSet("pingpong", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.device, "d", "", "device (the first there is)")
	fs.IntVar(&o.gidIndex, "g", -1,
		"line of the GID table (the one of the connection's address; InfiniBand: none, but the LID)")
	fs.TextVar(&o.transport, "c", verbs.RC, "transport: RC, UC or UD")
	fs.IntVar(&o.size, "s", 0, "bytes per message (4096; UD: 1024)")
	fs.IntVar(&o.iters, "n", 1000, "round trips")
	fs.IntVar(&o.rxDepth, "r", 500, "receives posted")
	fs.IntVar(&o.shared, "q", 0, "queue pairs that share their receives, as ibv_srq_pingpong's do (its default: 16)")
	mtu := fs.Int("m", 1024, "path MTU in bytes")
	fs.IntVar(&o.port, "p", 18515, "TCP port")
	fs.StringVar(&o.listen, "listen", "", "address to listen on (all)")
	fs.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long to wait for a peer that says or sends nothing")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	var err error
	o.mtu, err = verbs.ParseMTU(*mtu)
	if o.size == 0 {
		o.size = 4096
		if o.transport == verbs.UD {
			o.size = 1024 // since rdma-core 26
		}
	}
	switch {
	case fs.NArg() > 1:
		err = errors.Join(err, fmt.Errorf("%d hosts: want one, or none to be the server", fs.NArg()))
	case o.iters < 1 || o.size < 1 || o.rxDepth < 1 || o.timeout < 1:
		err = errors.Join(err, errors.New("-s, -n and -r want at least 1, -timeout more than 0"))
	case o.shared < 0 || o.shared >= sharedMost || o.shared > o.rxDepth:
		err = errors.Join(err,
			fmt.Errorf("-q %d: want fewer than %d queue pairs, and a receive for each (-r %d)", o.shared, sharedMost, o.rxDepth))
	case o.shared > 0 && o.transport != verbs.RC:
		err = errors.Join(err, fmt.Errorf("-q %d: ibv_srq_pingpong is over RC, not %v", o.shared, o.transport))
	}
	o.host = fs.Arg(0)
	return o, err
}

// destination is a queue pair as the peers of all pingpongs know it.
type destination struct {
	LID      uint16
	QPN, PSN uint32
	GID      verbs.GID
}

// wireBytes is the length of a destination in the handshake, its final NUL included.
const wireBytes = len("0000:000000:000000:00000000000000000000000000000000") + 1

// String is the wire form without the NUL.
func (d destination) String() string {
	return fmt.Sprintf("%04x:%06x:%06x:%x", d.LID, d.QPN, d.PSN, d.GID[:])
}

// parseDestination reads the wire form, with or without the NUL.
func parseDestination(s string) (d destination, err error) {
	f := strings.Split(strings.TrimRight(s, "\x00"), ":")
	if len(f) != 4 || len(f[3]) != 32 {
		return d, fmt.Errorf("%q is no LID:QPN:PSN:GID", s)
	}
	for i, bits := range []int{16, 24, 24} {
		v, err := strconv.ParseUint(f[i], 16, bits)
		if err != nil {
			return d, fmt.Errorf("%q: %w", s, err)
		}
		switch i {
		case 0:
			d.LID = uint16(v)
		case 1:
			d.QPN = uint32(v)
		case 2:
			d.PSN = uint32(v)
		}
	}
	return d, d.GID.UnmarshalText([]byte(f[3]))
}

// run plays one end.
func run(o options, out io.Writer) (err error) {
	conn, err := connect(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	e, err := open(o, conn)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	for k := range o.rxDepth {
		if err := e.postReceive(k % len(e.qps)); err != nil {
			return err
		}
	}
	if err := conn.SetDeadline(time.Now().Add(o.timeout)); err != nil {
		return err
	}
	if err := e.meet(conn, out); err != nil {
		return err
	}
	start := time.Now()
	if err := e.play(); err != nil {
		return err
	}
	d := time.Since(start)
	bytes := 2 * o.size * o.iters
	fmt.Fprintf(out, "%d bytes in %.2f seconds = %.2f Mbit/sec\n", bytes, d.Seconds(), float64(bytes)*8/1e6/d.Seconds())
	fmt.Fprintf(out, "%d iters in %.2f seconds = %.2f usec/iter\n", o.iters, d.Seconds(), d.Seconds()*1e6/float64(o.iters))
	return nil
}

// connect opens the TCP connection of the handshake.
func connect(o options) (net.Conn, error) {
	if o.host != "" {
		return net.DialTimeout("tcp", net.JoinHostPort(o.host, strconv.Itoa(o.port)), o.timeout)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(o.listen, strconv.Itoa(o.port)))
	if err != nil {
		return nil, err
	}
	conn, err := l.Accept()
	return conn, errors.Join(err, l.Close())
}

// end is one end's verbs objects.
type end struct {
	o      options
	dev    verbs.Device
	gid    verbs.GIDEntry
	pd     verbs.ProtectionDomain
	cq     verbs.CompletionQueue
	buf    *verbs.Buffer
	mr     verbs.MemoryRegion
	srq    verbs.SharedReceiveQueue // nil: each queue pair has its own
	qps    []verbs.QueuePair
	ah     verbs.AddressHandle // UD
	mine   []destination       // of each queue pair
	theirs []destination
	undo   []io.Closer
}

// close frees what open made, newest first.
func (e *end) close() error {
	var errs []error
	for _, c := range slices.Backward(e.undo) {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// open makes all that is needed before the peer is known.
func open(o options, conn net.Conn) (_ *end, err error) {
	e := &end{o: o}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.close())
		}
	}()
	if e.dev, err = verbs.Open(o.device, ibv.New(), roce.New(roce.Options{})); err != nil {
		return nil, err
	}
	e.undo = append(e.undo, e.dev)
	if e.gid, err = chooseGID(e.dev, o.gidIndex, conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()); err != nil {
		return nil, err
	}
	if e.pd, err = e.dev.AllocPD(); err != nil {
		return nil, err
	}
	e.undo = append(e.undo, e.pd)
	if e.cq, err = e.dev.CreateCQ(verbs.CompletionQueueOptions{Depth: o.rxDepth + max(o.shared, 1)}); err != nil {
		return nil, err
	}
	e.undo = append(e.undo, e.cq)
	if e.buf, err = verbs.Alloc(verbs.GRHBytes+o.size, verbs.MemoryOptions{}); err != nil {
		return nil, err
	}
	e.undo = append(e.undo, e.buf)
	if e.mr, err = e.pd.RegisterMemory(e.buf, 0, e.buf.Len(), verbs.AccessLocalWrite); err != nil {
		return nil, err
	}
	e.undo = append(e.undo, e.mr)
	if o.shared > 0 {
		if e.srq, err = e.pd.CreateSRQ(verbs.SharedReceiveQueueOptions{Depth: o.rxDepth}); err != nil {
			return nil, err
		}
		e.undo = append(e.undo, e.srq)
	}
	port, err := e.dev.Port(1) // the software device has its MTU from the address
	if err != nil {
		return nil, err
	}
	if o.transport == verbs.UD && o.size > port.ActiveMTU.Bytes() {
		return nil, fmt.Errorf("-s %d: a UD message is one packet of at most %v bytes here", o.size, port.ActiveMTU)
	}
	for range max(o.shared, 1) {
		qp, err := e.pd.CreateQP(verbs.QueuePairOptions{
			Transport: o.transport, SendCQ: e.cq, SendDepth: 1, RecvDepth: o.rxDepth, SRQ: e.srq,
		})
		if err != nil {
			return nil, err
		}
		e.undo = append(e.undo, qp)
		if err := verbs.InitQP(qp, verbs.ConnectOptions{QKey: qkey}); err != nil {
			return nil, err
		}
		e.qps = append(e.qps, qp)
		e.mine = append(e.mine, destination{LID: port.LID, QPN: qp.QPN(), PSN: rand.Uint32() & 0xff_ffff, GID: e.gid.GID})
	}
	return e, nil
}

// chooseGID takes the line asked for, or the one of the connection's address.
func chooseGID(dev verbs.Device, index int, local netip.Addr) (verbs.GIDEntry, error) {
	if index < 0 {
		return verbs.ChooseGID(dev, 1, local)
	}
	table, err := dev.GIDs(1)
	if err != nil {
		return verbs.GIDEntry{}, err
	}
	for _, g := range table {
		if g.Index == index {
			return g, nil
		}
	}
	return verbs.GIDEntry{}, fmt.Errorf("no GID for -g %d in %v", index, table)
}

// meet is the handshake: the client speaks first, the server connects its queue pairs before it answers, and the client
// ends with "done".
func (e *end) meet(conn net.Conn, out io.Writer) error {
	places := 1
	if e.o.shared > 0 {
		places = sharedMost
	}
	var message []byte
	for k := range places {
		var d destination
		if k < len(e.mine) {
			d = e.mine[k]
			d.print(out, "local address: ")
		}
		message = append(append(message, d.String()...), 0)
	}
	if e.o.host != "" {
		if _, err := conn.Write(message); err != nil {
			return err
		}
	}
	reply := make([]byte, len(message))
	if n, err := io.ReadFull(conn, reply); err != nil {
		return fmt.Errorf("read the peer's address: %d of %d bytes came: %w: give both ends the same -q, or none", n,
			len(reply), err)
	}
	for k := range e.qps {
		d, err := parseDestination(string(reply[k*wireBytes:][:wireBytes]))
		if err != nil {
			return err
		}
		if d == (destination{}) {
			return fmt.Errorf("the peer has %d queue pairs, this end %d: give both the same -q", k, len(e.qps))
		}
		d.print(out, "remote address:")
		e.theirs = append(e.theirs, d)
		if err := e.join(k); err != nil {
			return err
		}
	}
	if e.o.host != "" {
		_, err := conn.Write([]byte("done\x00"))
		return err
	}
	if _, err := conn.Write(message); err != nil {
		return err
	}
	last := make([]byte, len("done"))
	if _, err := io.ReadFull(conn, last); err != nil {
		return fmt.Errorf("read the peer's \"done\": %w", err)
	}
	if string(last) != "done" {
		return fmt.Errorf("%q in place of \"done\": the peer has more queue pairs: give both ends the same -q, or none", last)
	}
	return nil
}

func (d destination) print(out io.Writer, name string) {
	fmt.Fprintf(out, "  %s LID %#04x, QPN %#06x, PSN %#06x, GID %v\n", name, d.LID, d.QPN, d.PSN, d.GID)
}

// join connects queue pair k with the peer's.
func (e *end) join(k int) error {
	mine, theirs := e.mine[k], e.theirs[k]
	av := verbs.AddressVector{DLID: theirs.LID}
	if !theirs.GID.IsZero() {
		av.UseGID, av.DGID, av.SGIDIndex = true, theirs.GID, e.gid.Index
	}
	to := verbs.DefaultConnect()
	to.PathMTU, to.AddressVector, to.DestQPN, to.SendPSN, to.RecvPSN = e.o.mtu, av, theirs.QPN, mine.PSN, theirs.PSN
	err := verbs.ConnectQP(e.qps[k], to)
	if err != nil || e.o.transport != verbs.UD {
		return err
	}
	if e.ah, err = e.pd.CreateAH(av); err != nil {
		return err
	}
	e.undo = append(e.undo, e.ah)
	return nil
}

// postReceive posts a receive for queue pair k, or for all where they share them.
func (e *end) postReceive(k int) error {
	sge := verbs.SGE{Addr: e.mr.Addr() + verbs.GRHBytes, Length: uint32(e.o.size), LKey: e.mr.LKey()}
	if e.o.transport == verbs.UD {
		sge.Addr, sge.Length = e.mr.Addr(), verbs.GRHBytes+sge.Length
	}
	list := []verbs.ReceiveRequest{{ID: idRecv, SGEs: []verbs.SGE{sge}}}
	if e.srq != nil {
		return e.srq.PostReceive(list)
	}
	return e.qps[k].PostReceive(list)
}

func (e *end) postSend(k int) error {
	return e.qps[k].PostSend([]verbs.SendRequest{{
		ID: idSend, Opcode: verbs.OpSend, Flags: verbs.Signaled,
		SGEs: []verbs.SGE{{Addr: e.mr.Addr() + verbs.GRHBytes, Length: uint32(e.o.size), LKey: e.mr.LKey()}},
		AH:   e.ah, RemoteQPN: e.theirs[k].QPN, RemoteQKey: qkey,
	}})
}

// play sends a message on a queue pair for each one received there, when the one before has completed, because a send
// queue has one slot. The client starts, on all of them. The round trips of all queue pairs are counted together, and
// both ends stop when they have seen enough, as rdma-core's do. Those close their connection after the handshake, so
// that a peer that has ended is noticed by its silence alone.
func (e *end) play() error {
	pending := make([]int, len(e.qps)) // what each waits for: its send, the peer's, or both
	index := map[uint32]int{}
	for k, qp := range e.qps {
		index[qp.QPN()] = k
		pending[k] = idRecv
		if e.o.host != "" {
			if err := e.postSend(k); err != nil {
				return err
			}
			pending[k] = idSend | idRecv
		}
	}
	sent, received, moved := 0, 0, time.Now()
	completions := make([]verbs.Completion, 16)
	for sent < e.o.iters || received < e.o.iters {
		n, err := e.cq.Poll(completions)
		if err != nil {
			return err
		}
		if n > 0 {
			moved = time.Now()
		} else if time.Since(moved) > e.o.timeout {
			return fmt.Errorf("nothing came for %v, after %d messages of %d: give both ends the same -c, -n, -q and -s",
				e.o.timeout, received, e.o.iters)
		}
		for _, c := range completions[:n] {
			k, ours := index[c.QPN]
			switch {
			case c.Status != verbs.Success:
				return &verbs.CompletionError{Device: e.dev.Info().Name, Completion: c, Sent: uint64(sent), Done: uint64(received)}
			case !ours:
				return fmt.Errorf("a completion of queue pair %#06x, which is none of ours", c.QPN)
			case c.ID == idSend:
				sent++
			default:
				received++
				if err := e.postReceive(k); err != nil {
					return err
				}
			}
			if pending[k] &^= int(c.ID); pending[k] == 0 && sent < e.o.iters {
				if err := e.postSend(k); err != nil {
					return err
				}
				pending[k] = idSend | idRecv
			}
		}
	}
	return nil
}

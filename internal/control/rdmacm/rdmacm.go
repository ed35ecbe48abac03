// Package rdmacm carries a control session over a queue pair that RDMA CM connected.
package rdmacm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/verbs"
)

const (
	messageBytes = 512 // the longest message of perftest's dialect has 320
	receives     = 4   // the ends take turns: one would do
	rdmaTimeout  = 16  // 268 ms until a resend: with 7 of them, a host that vanished shows in about 2 s
)

// ConnectionManagerOf is the device's RDMA CM, or an error that says what to do without one.
func ConnectionManagerOf(d verbs.Device) (verbs.ConnectionManager, error) {
	if m, has := d.(verbs.ConnectionManager); has {
		return m, nil
	}
	return nil, &verbs.Error{
		Verb: "RDMA CM", Device: d.Info().Name, Err: fmt.Errorf("%w: this device has no RDMA CM", verbs.ErrUnsupported),
		Fix: "leave out -R (perftest: also -z) at both ends, or choose a kernel device with -d ('gobw devices' lists them)",
	}
}

// conn carries a conversation over a reliable queue pair that RDMA CM connected (perftest's -z and -R): each Write is
// one SEND. It is one end of a pipe; at the other a goroutine passes on what the peer sends, and one sends what is
// written. Nothing but messages shows: a peer that ends is the end of the stream. While nothing is said, an empty RDMA
// WRITE now and then asks the peer's device, not its program, whether the peer is still there.
type conn struct {
	net.Conn
	far            net.Conn // the other end of the pipe
	cm             verbs.CMConnection
	qp             verbs.QueuePair
	received, sent completions
	region         verbs.MemoryRegion
	buffer         *verbs.Buffer // a slot for each receive, and one to send from
	closers        []io.Closer
	peer           time.Duration // how long the peer's device may be silent

	ctx     context.Context //nolint:containedctx // ends with its cause when nothing more will come
	cancel  context.CancelCauseFunc
	posting sync.Mutex // of both queues
	sending sync.WaitGroup
	others  sync.WaitGroup
	once    sync.Once
	err     error
}

// Dial connects to a listener. Errors that match ECONNREFUSED say that nobody listens.
func Dial(ctx context.Context, d verbs.Device, to netip.AddrPort, source netip.Addr,
	peer time.Duration,
) (net.Conn, error) {
	m, err := ConnectionManagerOf(d)
	if err != nil {
		return nil, err
	}
	cm, err := m.DialCM(ctx, to, verbs.CMOptions{Source: source})
	if err != nil {
		return nil, err
	}
	return newConn(ctx, d, cm, peer)
}

// newConn makes the queue pair and connects it. It owns cm.
func newConn(ctx context.Context, d verbs.Device, cm verbs.CMConnection, peer time.Duration) (_ *conn, err error) {
	c := &conn{cm: cm, peer: peer}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.Conn, c.far = net.Pipe()
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if err := c.open(d); err != nil {
		return nil, err
	}
	o, err := cm.InitOptions()
	if err != nil {
		return nil, err
	}
	o.Access = verbs.AccessLocalWrite | verbs.AccessRemoteWrite // for the empty WRITE
	if err := verbs.InitQP(c.qp, o); err != nil {
		return nil, err
	}
	for i := range receives {
		if err := c.postReceive(uint64(i)); err != nil {
			return nil, err
		}
	}
	if _, err := cm.Join(ctx, c.qp,
		verbs.ConnectOptions{MinRNRTimer: 12, Timeout: rdmaTimeout, RetryCount: 7, RNRRetry: 7}); err != nil {
		return nil, err
	}
	c.others.Go(func() {
		select {
		case <-cm.Gone():
			c.cancel(io.EOF)
		case <-c.ctx.Done():
		}
	})
	c.others.Go(c.receive)
	c.sending.Go(c.send)
	return c, nil
}

// open makes the verbs objects; Close frees them.
func (c *conn) open(d verbs.Device) error {
	pd, err := d.AllocPD()
	if err != nil {
		return err
	}
	c.closers = append(c.closers, pd)
	for _, q := range []*completions{&c.received, &c.sent} {
		if q.channel, err = d.CreateCompletionChannel(); err != nil {
			return err
		}
		c.closers = append(c.closers, q.channel)
		if q.CompletionQueue, err = d.CreateCQ(verbs.CompletionQueueOptions{
			Depth: 2 * receives, Channel: q.channel,
		}); err != nil {
			return err
		}
		c.closers = append(c.closers, q)
	}
	if c.buffer, err = verbs.Alloc((receives+1)*messageBytes, verbs.MemoryOptions{Touch: true}); err != nil {
		return err
	}
	c.closers = append(c.closers, c.buffer)
	if c.region, err = pd.RegisterMemory(c.buffer, 0, c.buffer.Len(), verbs.AccessLocalWrite); err != nil {
		return err
	}
	c.closers = append(c.closers, c.region)
	c.qp, err = pd.CreateQP(verbs.QueuePairOptions{
		SendCQ: c.sent.CompletionQueue, RecvCQ: c.received.CompletionQueue, SendDepth: 1, RecvDepth: receives,
	})
	if err != nil {
		return err
	}
	c.closers = append(c.closers, c.qp)
	return nil
}

// completions are those of one of the queues.
type completions struct {
	verbs.CompletionQueue
	channel verbs.CompletionChannel
}

// next waits for the next completion, or for the end of the context. Completions that were there by then come first.
func (q *completions) next(ctx context.Context) (verbs.Completion, error) {
	var found [1]verbs.Completion
	for armed := false; ; armed = !armed {
		ended := ctx.Err() != nil // asked before Poll
		n, err := q.Poll(found[:])
		switch {
		case err != nil || n > 0:
			return found[0], err
		case ended:
			return found[0], context.Cause(ctx)
		case !armed: // then poll again: what came before makes no event
			err = q.Arm(verbs.NotifyAny)
		default:
			_, err = q.channel.Wait(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return found[0], err
		}
	}
}

// outcome is nil of a request that succeeded. What was flushed had no chance: the
// end of the connection has another cause.
func (c *conn) outcome(w verbs.Completion) error {
	switch w.Status {
	case verbs.Success:
		return nil
	case verbs.RetryExceeded:
		return control.ErrSilent
	case verbs.FlushError:
		select {
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-time.After(c.peer):
		}
	default:
	}
	return &verbs.CompletionError{Device: c.qp.Device().Info().Name, Completion: w}
}

func (c *conn) slot(i uint64) []byte {
	return c.buffer.Bytes()[i*messageBytes:][:messageBytes]
}

func (c *conn) sge(i uint64, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: c.buffer.Addr() + i*messageBytes, Length: uint32(n), LKey: c.region.LKey()}}
}

// postReceive posts slot i.
func (c *conn) postReceive(i uint64) error {
	c.posting.Lock()
	defer c.posting.Unlock()
	return c.qp.PostReceive([]verbs.ReceiveRequest{{ID: i, SGEs: c.sge(i, messageBytes)}})
}

// receive hands messages to whoever reads until the connection ends. A peer that sends more than is read waits.
func (c *conn) receive() {
	defer func() { _ = c.far.Close() }()
	for {
		w, err := c.received.next(c.ctx)
		if err == nil {
			err = c.outcome(w)
		}
		if err == nil {
			if _, err := c.far.Write(c.slot(w.ID)[:min(w.Bytes, messageBytes)]); err != nil {
				return // Close, which lets what was written leave before it cancels
			}
			err = c.postReceive(w.ID)
		}
		if err != nil {
			c.cancel(err)
			return
		}
	}
}

// send sends what is written, one message at a time, until the pipe is closed.
func (c *conn) send() {
	for {
		_ = c.far.SetReadDeadline(time.Now().Add(max(c.peer/3, 100*time.Millisecond)))
		n, err := c.far.Read(c.slot(receives))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			err = c.sendOne(verbs.SendRequest{Opcode: verbs.OpWrite})
		case err != nil:
			return
		case n == 0: // see CloseWrite
			err = cmp.Or(c.cm.Disconnect(), io.EOF)
		default:
			err = c.sendOne(verbs.SendRequest{Opcode: verbs.OpSend, SGEs: c.sge(receives, n)})
		}
		if err != nil {
			c.cancel(err)
		}
	}
}

// sendOne returns when the peer's device has the message, or the peer has left or is silent.
func (c *conn) sendOne(r verbs.SendRequest) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	r.Flags = verbs.Signaled
	c.posting.Lock()
	err := c.qp.PostSend([]verbs.SendRequest{r})
	c.posting.Unlock()
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeoutCause(c.ctx, c.peer, control.ErrSilent)
	defer stop()
	w, err := c.sent.next(ctx)
	if err != nil {
		return err
	}
	return c.outcome(w)
}

// Write sends a message. One that is under way when the peer leaves is written:
// reading tells whether that was too early.
func (c *conn) Write(b []byte) (int, error) {
	switch {
	case len(b) > messageBytes:
		return 0, fmt.Errorf("a message of %d bytes by RDMA: the limit is %d", len(b), messageBytes)
	case c.ctx.Err() != nil:
		return 0, context.Cause(c.ctx)
	}
	n, err := c.Conn.Write(b)
	if errors.Is(err, io.ErrClosedPipe) {
		err = cmp.Or(context.Cause(c.ctx), err)
	}
	return n, err
}

// Read reads what has arrived, and at the end says why it ended.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if errors.Is(err, io.EOF) {
		err = cmp.Or(context.Cause(c.ctx), err)
	}
	return n, err
}

// CloseWrite tells the peer, once it has what was written, that nothing more will
// come: a message of no bytes asks for that.
func (c *conn) CloseWrite() error {
	_ = c.SetWriteDeadline(time.Now().Add(c.peer))
	_, err := c.Write(nil)
	return err
}

// Close lets what was written leave, ends the connection and frees everything.
func (c *conn) Close() error {
	c.once.Do(func() {
		errs := []error{c.Conn.Close()}
		c.sending.Wait()
		c.cancel(net.ErrClosed)
		c.others.Wait()
		errs = append(errs, c.cm.Close())
		for _, x := range slices.Backward(c.closers) {
			errs = append(errs, x.Close())
		}
		c.err = errors.Join(errs...)
	})
	return c.err
}

// LocalAddr is this end's address for RDMA CM.
func (c *conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.cm.LocalAddr()) }

// RemoteAddr is the peer's.
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.cm.RemoteAddr()) }

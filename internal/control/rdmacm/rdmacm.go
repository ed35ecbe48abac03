// Package rdmacm carries a control session over a queue pair that RDMA CM connected.
package rdmacm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
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
		Verb: "connect by RDMA CM (-R, -z)", Device: d.Info().Name, Err: fmt.Errorf("%w: this device has no RDMA CM", verbs.ErrUnsupported),
		Fix: "leave -R (or -z) out at both ends, or choose one of the kernel's devices with -d ('gobw devices' lists them)",
	}
}

// conn carries a conversation over a reliable queue pair that RDMA CM connected (perftest's -z and -R): each Write is
// one SEND. Nothing but messages shows: a peer that ends is the end of the stream. While nothing is said, an empty RDMA
// WRITE now and then asks the peer's device, not its program, whether the peer is still there.
type conn struct {
	cm       verbs.CMConnection
	qp       verbs.QueuePair
	cq       verbs.CompletionQueue
	channel  verbs.CompletionChannel
	region   verbs.MemoryRegion
	buffer   *verbs.Buffer // a slot for each receive, and one to send from
	closers  []io.Closer
	in, feed net.Conn // what arrives is written to feed and read from in

	ctx    context.Context // ends with its cause when nothing more will come
	cancel context.CancelCauseFunc
	inbox  chan []byte
	sent   chan verbs.Completion
	wg     sync.WaitGroup
	once   sync.Once
	err    error
	closed func() // told once, at the end; nil: nobody

	posting sync.Mutex // of both queues
	sending sync.Mutex // one request at a time
	mu      sync.Mutex
	limit   time.Time     // of writing
	moved   chan struct{} // the limit has changed
}

// Dial connects to a listener. Errors that match ECONNREFUSED say that nobody listens.
func Dial(ctx context.Context, d verbs.Device, to netip.AddrPort, source netip.Addr, peer time.Duration) (net.Conn, error) {
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
	c := &conn{cm: cm, inbox: make(chan []byte, receives), sent: make(chan verbs.Completion, 1), moved: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	c.in, c.feed = net.Pipe()
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
		if err := c.receive(uint64(i)); err != nil {
			return nil, err
		}
	}
	if _, err := cm.Join(ctx, c.qp, verbs.ConnectOptions{MinRNRTimer: 12, Timeout: rdmaTimeout, RetryCount: 7, RNRRetry: 7}); err != nil {
		return nil, err
	}
	c.wg.Go(c.poll)
	c.wg.Go(c.deliver)
	c.wg.Go(func() { c.keepAlive(max(peer/3, 100*time.Millisecond)) })
	return c, nil
}

// open makes the verbs objects; Close frees them.
func (c *conn) open(d verbs.Device) error {
	pd, err := d.AllocPD()
	if err != nil {
		return err
	}
	c.closers = append(c.closers, pd)
	if c.channel, err = d.CreateCompletionChannel(); err != nil {
		return err
	}
	c.closers = append(c.closers, c.channel)
	if c.cq, err = d.CreateCQ(verbs.CompletionQueueOptions{Depth: 2 * receives, Channel: c.channel}); err != nil {
		return err
	}
	c.closers = append(c.closers, c.cq)
	if c.buffer, err = verbs.Alloc((receives+1)*messageBytes, verbs.MemoryOptions{Touch: true}); err != nil {
		return err
	}
	c.closers = append(c.closers, c.buffer)
	if c.region, err = pd.RegisterMemory(c.buffer.Bytes(), verbs.AccessLocalWrite); err != nil {
		return err
	}
	c.closers = append(c.closers, c.region)
	if c.qp, err = pd.CreateQP(verbs.QueuePairOptions{SendCQ: c.cq, SendDepth: 1, RecvDepth: receives}); err != nil {
		return err
	}
	c.closers = append(c.closers, c.qp)
	return nil
}

func (c *conn) slot(i uint64) []byte {
	return c.buffer.Bytes()[i*messageBytes:][:messageBytes]
}

func (c *conn) sge(i uint64, n int) verbs.SGE {
	return verbs.SGE{Addr: c.buffer.Addr() + i*messageBytes, Length: uint32(n), LKey: c.region.LKey()}
}

// receive posts slot i.
func (c *conn) receive(i uint64) error {
	c.posting.Lock()
	defer c.posting.Unlock()
	return c.qp.PostReceive([]verbs.ReceiveRequest{{ID: i, SGEs: []verbs.SGE{c.sge(i, messageBytes)}}})
}

// poll takes completions until the connection ends, then those that had come before.
func (c *conn) poll() {
	ctx, gone := context.WithCancelCause(c.ctx)
	defer gone(nil)
	c.wg.Go(func() {
		select {
		case <-c.cm.Gone():
			gone(io.EOF)
		case <-ctx.Done():
		}
	})
	var why error
	for armed := false; ; {
		ended := ctx.Err() != nil // asked first: what is there by then came before the end
		n, err := c.drain()
		switch {
		case err != nil:
			why = err
		case n > 0:
			continue
		case ended:
			why = context.Cause(ctx)
		case !armed: // then poll again: what came before makes no event
			armed = true
			why = c.cq.Arm(verbs.NotifyAny)
		default:
			armed = false
			if _, err := c.channel.Wait(ctx); err != nil && ctx.Err() == nil {
				why = err
			}
		}
		if why != nil {
			break
		}
	}
	close(c.inbox)
	c.cancel(why)
}

// drain handles the completions that are there.
func (c *conn) drain() (int, error) {
	var found [2 * receives]verbs.Completion
	n, err := c.cq.Poll(found[:])
	if err != nil {
		return 0, err
	}
	for i := range found[:n] {
		w := &found[i]
		switch {
		case w.ID >= receives: // ours to send
			c.sent <- *w
		case w.Status != verbs.Success:
			select {
			case <-c.cm.Gone():
				return 0, io.EOF // what was posted is flushed
			default:
				return 0, &verbs.CompletionError{Device: c.qp.Device().Info().Name, Completion: *w}
			}
		default:
			message := slices.Clone(c.slot(w.ID)[:min(int(w.Bytes), messageBytes)])
			if err := c.receive(w.ID); err != nil {
				return 0, err
			}
			select {
			case c.inbox <- message:
			default:
				return 0, &control.FormatError{Err: errors.New("it sends more than was due")}
			}
		}
	}
	return n, nil
}

// deliver hands messages to whoever reads, and after the last one the end.
func (c *conn) deliver() {
	for m := range c.inbox {
		if _, err := c.feed.Write(m); err != nil {
			break // nobody reads any more
		}
	}
	_ = c.feed.Close()
}

// keepAlive asks the peer's device for a sign of life.
func (c *conn) keepAlive(every time.Duration) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-c.ctx.Done():
			return
		}
		c.sending.Lock()
		err := c.post(verbs.SendRequest{Opcode: verbs.OpWrite})
		if err == nil {
			select {
			case w := <-c.sent:
				err = c.completed(w)
			case <-c.ctx.Done():
			}
		}
		c.sending.Unlock()
		if errors.Is(err, verbs.RetryExceeded) {
			c.cancel(control.ErrSilent)
		}
	}
}

func (c *conn) post(r verbs.SendRequest) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	r.ID, r.Flags = receives, verbs.Signaled
	c.posting.Lock()
	defer c.posting.Unlock()
	return c.qp.PostSend([]verbs.SendRequest{r})
}

func (c *conn) completed(w verbs.Completion) error {
	if w.Status == verbs.Success {
		return nil
	}
	return &verbs.CompletionError{Device: c.qp.Device().Info().Name, Completion: w, Sent: 1}
}

// Write sends a message, and returns when the peer's device has it or the peer has left.
func (c *conn) Write(b []byte) (int, error) {
	if len(b) > messageBytes {
		return 0, fmt.Errorf("a message of %d bytes by RDMA: the limit is %d", len(b), messageBytes)
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	copy(c.slot(receives), b)
	if err := c.post(verbs.SendRequest{Opcode: verbs.OpSend, SGEs: []verbs.SGE{c.sge(receives, len(b))}}); err != nil {
		return 0, err
	}
	for {
		c.mu.Lock()
		limit := c.limit
		c.mu.Unlock()
		wait := time.Duration(1<<63 - 1)
		if !limit.IsZero() {
			wait = time.Until(limit)
		}
		t := time.NewTimer(wait)
		select {
		case w := <-c.sent:
			t.Stop()
			if err := c.completed(w); err != nil {
				return 0, err
			}
			return len(b), nil
		case <-c.ctx.Done():
			t.Stop()
			if why := context.Cause(c.ctx); !errors.Is(why, io.EOF) {
				return 0, why
			}
			return len(b), nil // it was under way when the peer left: reading tells whether that was too early
		case <-c.moved:
			t.Stop()
		case <-t.C:
			c.cancel(control.ErrSilent) // the request may yet complete: nothing can follow it
			return 0, control.ErrSilent
		}
	}
}

// Read reads what has arrived, and at the end says why it ended.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	if errors.Is(err, io.EOF) && c.ctx.Err() != nil {
		err = context.Cause(c.ctx)
	}
	return n, err
}

// CloseWrite tells the peer that nothing more will come.
func (c *conn) CloseWrite() error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.cm.Disconnect()
}

// Close ends the connection and frees everything.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.cancel(net.ErrClosed)
		errs := []error{c.in.Close()}
		c.wg.Wait()
		errs = append(errs, c.cm.Close())
		for _, x := range slices.Backward(c.closers) {
			errs = append(errs, x.Close())
		}
		c.err = errors.Join(errs...)
		if c.closed != nil {
			c.closed()
		}
	})
	return c.err
}

// LocalAddr is this end's address for RDMA CM.
func (c *conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.cm.LocalAddr()) }

// RemoteAddr is the peer's.
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.cm.RemoteAddr()) }

// SetDeadline limits reading and writing.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline limits reading.
func (c *conn) SetReadDeadline(t time.Time) error { return c.in.SetReadDeadline(t) }

// SetWriteDeadline limits writing, also a Write that waits now.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	c.limit = t
	c.mu.Unlock()
	select {
	case c.moved <- struct{}{}:
	default:
	}
	return nil
}

package fabric

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/frame"
)

// peer is one agent's connection.
type peer struct {
	rank    int
	hello   Hello
	program string
	session *frame.Session
	orders  chan *Order
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup

	// What follows belongs to the coordinator's goroutine.
	index    int  // among those that take part, -1: none
	lost     bool // silent, or gone
	gone     bool // its connection is closed
	excluded bool
	lostAt   time.Time
	rails    []Rail  // as they were opened
	flows    []Part  // of this round
	order    *Order  // the last
	answer   *Answer // to that; nil: there is none yet
	failures int     // rounds that it failed by itself
	failedIn int     // the last of them
}

// queued is how many orders may wait for an agent.
const queued = 4

// event is an agent's answer, or its end.
type event struct {
	peer   *peer
	order  *Order
	answer *Answer
	err    error
}

func newPeer(s *frame.Session, program string) *peer {
	return &peer{session: s, program: program, index: -1, orders: make(chan *Order, queued)}
}

// start lets the agent be asked.
func (p *peer) start(events chan<- event, over <-chan struct{}) {
	ctx, cancel := context.WithCancelCause(context.Background())
	p.stop = cancel
	p.wg.Go(func() {
		ctx, done := p.session.Watch(ctx)
		defer done()
		tell := func(e event) {
			select {
			case events <- e:
			case <-over:
			}
		}
		for {
			select {
			case o := <-p.orders:
				if answer, err := p.ask(ctx, o); err == nil {
					tell(event{peer: p, order: o, answer: answer})
					continue
				} else if ctx.Err() == nil { // not its own end, of which the context tells
					cancel(err)
				}
			case <-ctx.Done():
			}
			<-ctx.Done()
			if err := context.Cause(ctx); !errors.Is(err, errOver) {
				tell(event{peer: p, err: ended(err)})
			}
			return
		}
	})
}

// errOver ends the conversation with an agent when the run is over.
var errOver = errors.New("the run is over")

// ended says why an agent is gone.
func ended(err error) error {
	switch {
	case errors.Is(err, control.ErrPeerLost) && !errors.Is(err, syscall.ETIMEDOUT) && !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, control.ErrSilent):
		return errors.New("its agent has ended")
	case errors.Is(err, control.ErrPeerLost):
		return fmt.Errorf("its host no longer answers: %w", err)
	}
	return err
}

func (p *peer) ask(ctx context.Context, o *Order) (*Answer, error) {
	if err := p.session.Send(kindOrder, o); err != nil {
		return nil, err
	}
	m, err := p.session.Expect(ctx, kindAnswer, o.most, 0)
	if err != nil {
		return nil, err
	}
	a, err := frame.Decode[Answer](m)
	return &a, err
}

// send queues an order; an agent that takes none loses its connection.
func (p *peer) send(o *Order) {
	p.order, p.answer = o, nil
	if p.gone {
		return
	}
	select {
	case p.orders <- o:
	default:
		_ = p.session.Conn.Close()
	}
}

// partingTime is how long an agent may take to hear that the run is over: a stopped one must not hold anybody.
const partingTime = time.Second

// end says why the conversation is over; it returns when nothing of it is left.
func (p *peer) end(kind, why string) {
	late := time.AfterFunc(partingTime, func() { _ = p.session.Conn.Close() })
	defer late.Stop()
	if p.stop != nil {
		p.stop(errOver)
	}
	p.wg.Wait()
	p.session.End(kind, why, false)
}

// heardAt is when the agent was last heard of.
func (p *peer) heardAt() time.Time { return time.Now().Add(-p.session.Silence()) }

// remote is the agent's address.
func (p *peer) remote() netip.Addr { return p.session.RemoteAddr().Addr().WithZone("") }

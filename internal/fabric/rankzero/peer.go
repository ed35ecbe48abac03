package rankzero

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/gobw/gobw/internal/control/frame"
	"github.com/gobw/gobw/internal/fabric"
)

// peer is one agent's connection.
type peer struct {
	hello   fabric.Hello
	program string
	session *frame.Session
	orders  chan *fabric.Orders // not sent yet
	stop    context.CancelCauseFunc
	wg      sync.WaitGroup
}

// mostWaiting is how many orders wait for the answers to those before them: an agent
// that gives none is left out long before.
const mostWaiting = 64

// start lets the agent be asked. Who hears is told each answer, and once why the agent has gone.
func (p *peer) start(hear func(o *fabric.Orders, a *fabric.Answer, gone error)) {
	ctx, cancel := context.WithCancelCause(context.Background())
	p.stop, p.orders = cancel, make(chan *fabric.Orders, mostWaiting)
	p.wg.Go(func() {
		ctx, done := p.session.Watch(ctx)
		defer done()
		for ctx.Err() == nil {
			select {
			case o := <-p.orders:
				if a, err := p.exchange(ctx, o); err == nil {
					hear(o, a, nil)
				} else {
					cancel(err)
				}
			case <-ctx.Done():
			}
		}
		if err := context.Cause(ctx); !errors.Is(err, errOver) {
			hear(nil, nil, fabric.Ended(err))
		}
	})
}

// send asks for an answer, after those to the orders before.
func (p *peer) send(o *fabric.Orders) {
	select {
	case p.orders <- o:
	default:
		p.stop(fmt.Errorf("%d orders wait for its answer", mostWaiting))
	}
}

// errOver ends the conversation with an agent when the run is over.
var errOver = errors.New("the run is over")

func (p *peer) exchange(ctx context.Context, o *fabric.Orders) (*fabric.Answer, error) {
	if err := p.session.Send(fabric.KindOrder, o); err != nil {
		return nil, err
	}
	a, err := frame.Expect[fabric.Answer](ctx, p.session, fabric.KindAnswer, o.Most, 0)
	return &a, err
}

// farewell is how long an agent may take to hear that the run is over: a stopped one must not hold anybody.
const farewell = time.Second

// end says why the conversation is over; it returns when nothing of it is left.
func (p *peer) end(kind, why string) {
	late := time.AfterFunc(farewell, func() { _ = p.session.Conn.Close() })
	defer late.Stop()
	if p.stop != nil {
		p.stop(errOver)
	}
	p.wg.Wait()
	p.session.End(frame.Message{Kind: kind, Error: why})
}

// heardAt is when the agent was last heard of.
func (p *peer) heardAt() time.Time { return time.Now().Add(-p.session.Silence()) }

// remote is the agent's address.
func (p *peer) remote() netip.Addr { return p.session.RemoteAddr().Addr().WithZone("") }

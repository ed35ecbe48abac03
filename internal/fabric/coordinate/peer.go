package coordinate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gobw/gobw/internal/fabric/wire"
)

// peer is one agent's connection.
type peer struct {
	rank  int
	hello *wire.Hello
	conn  net.Conn
	heard atomic.Int64 // unix nanoseconds
	out   chan []byte
	ended chan struct{}
	wg    sync.WaitGroup

	// What follows belongs to the coordinator's goroutine.
	index    int  // among those that take part, -1: none
	lost     bool // silent, or gone
	gone     bool // its connection is closed
	excluded bool
	lostAt   time.Time
	facts    *wire.Facts
	prepared *wire.Prepared
	result   *wire.Result
	asked    *wire.Prepare
}

// writeWithin bounds how long a frame may stay in a full socket: a stopped agent must not hold anybody.
const writeWithin = 10 * time.Second

// queued is how many frames may wait for an agent.
const queued = 64

func newPeer(conn net.Conn, h *wire.Hello) *peer {
	p := &peer{rank: h.Rank, hello: h, conn: conn, index: -1, out: make(chan []byte, queued), ended: make(chan struct{})}
	p.heard.Store(time.Now().UnixNano())
	return p
}

// start lets reader and writer work.
func (p *peer) start(events chan<- event) {
	p.wg.Go(func() { p.read(events) })
	p.wg.Go(p.write)
}

func (p *peer) read(events chan<- event) {
	r := bufio.NewReaderSize(p.conn, 4<<10)
	for {
		m, err := wire.Read(r, wire.FromAgent)
		if err == nil && m.Kind != wire.KindHeartbeat && m.Kind != wire.KindFacts && m.Kind != wire.KindPrepared && m.Kind != wire.KindResult {
			err = wire.ErrFormat
		}
		if err != nil {
			switch {
			case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
				err = errors.New("its agent has ended")
			case errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
				err = fmt.Errorf("its host no longer answers: %w", err)
			}
			select {
			case events <- event{peer: p, err: err}:
			case <-p.ended:
			}
			return
		}
		p.heard.Store(time.Now().UnixNano())
		if m.Kind == wire.KindHeartbeat {
			continue
		}
		select {
		case events <- event{peer: p, m: m}:
		case <-p.ended:
			return
		}
	}
}

func (p *peer) write() {
	beat, err := wire.Append(nil, &wire.Message{Kind: wire.KindHeartbeat})
	if err != nil {
		return
	}
	tick := time.NewTicker(Heartbeat)
	defer tick.Stop()
	defer func() { _ = p.conn.Close() }()
	for {
		frame := beat
		select {
		case b, open := <-p.out:
			if !open {
				return
			}
			frame = b
		case <-tick.C:
		}
		if p.conn.SetWriteDeadline(time.Now().Add(writeWithin)) != nil {
			return
		}
		if _, err := p.conn.Write(frame); err != nil {
			return
		}
	}
}

// send queues a message; an agent that takes none loses its connection.
func (p *peer) send(m *wire.Message) {
	if p.gone {
		return
	}
	b, err := wire.Append(nil, m)
	if err != nil {
		_ = p.conn.Close()
		return
	}
	select {
	case p.out <- b:
	default:
		_ = p.conn.Close()
	}
}

// bye ends the conversation; wait returns when nothing of it is left.
func (p *peer) bye(why string) {
	p.send(&wire.Message{Kind: wire.KindBye, Text: why})
	close(p.ended)
	close(p.out)
	_ = p.conn.SetReadDeadline(time.Now())
	_ = p.conn.SetWriteDeadline(time.Now().Add(time.Second))
}

func (p *peer) wait() { p.wg.Wait() }

func (p *peer) heardAt() time.Time { return time.Unix(0, p.heard.Load()) }

// remote is the agent's address.
func (p *peer) remote() netip.Addr { return addrOf(p.conn.RemoteAddr()) }

func addrOf(a net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return ap.Addr().Unmap().WithZone("")
}

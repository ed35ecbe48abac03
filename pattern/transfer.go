package pattern

import "iter"

// Piece is one contiguous part of a transfer, and where it lies at both ends: bytes from the base of each.
type Piece struct{ Local, Remote, Length int64 }

// Transfer is what one message moves. Block k of Local and block k of Remote are piece k: they have one length.
type Transfer struct{ Local, Remote Layout }

// Gathered moves the blocks of a layout to or from their packed form.
func Gathered(l Layout) Transfer { return Transfer{l, l.Packed()} }

// Range moves so many bytes without gaps, in so many pieces.
func Range(bytes, pieces int64) Transfer {
	blocks := make([]Block, pieces)
	for i := range pieces {
		at := bytes * i / pieces
		blocks[i] = Block{at, bytes*(i+1)/pieces - at}
	}
	l := scattered("", blocks)
	return Transfer{l, l}
}

// IsRange tells whether the blocks follow each other without a gap, in order.
func (l *Layout) IsRange() bool {
	end := int64(-1)
	for it := l.Iterate(); ; {
		b, more := it.Next()
		if !more || end >= 0 && b.Offset != end {
			return !more
		}
		end = b.End()
	}
}

// Swapped is the transfer as the other end sees it.
func (t Transfer) Swapped() Transfer { return Transfer{t.Remote, t.Local} }

// Share is part n of so many, each of about as many pieces.
func (t Transfer) Share(n, of int) Transfer {
	pieces := len(t.Local.blocks)
	if of <= 1 || t.Local.Blocks() != int64(pieces) {
		return t
	}
	from, to := n*pieces/of, (n+1)*pieces/of
	return Transfer{scattered(t.Local.text, t.Local.blocks[from:to]), scattered(t.Remote.text, t.Remote.blocks[from:to])}
}

// Cut says how the pieces of a transfer become work requests.
type Cut struct {
	Entries int   // of a list; 0: any number
	Bytes   int64 // of a request; 0: any number. A piece that is longer has a request of its own, but with Split
	Merge   bool  // pieces that follow each other at both ends become one entry
	Split   bool  // a piece that does not fit is split
	Spread  bool  // the remote side may be a list, too; else it is one contiguous range
}

// Planner walks the work requests of a transfer.
type Planner struct {
	cut           Cut
	local, remote Iterator
	ahead         Piece // the first of the next request
	more          bool
}

// Plan begins with the first request. The transfer must outlive the planner.
func (t *Transfer) Plan(c Cut) Planner {
	p := Planner{cut: c, local: t.Local.Iterate(), remote: t.Remote.Iterate()}
	p.advance()
	return p
}

func (p *Planner) advance() {
	var local, remote Block
	local, p.more = p.local.Next()
	remote, _ = p.remote.Next()
	p.ahead = Piece{local.Offset, remote.Offset, local.Length}
}

// Requests are the entries of each request in turn, valid until the next.
func (t *Transfer) Requests(c Cut) iter.Seq[[]Piece] {
	return func(yield func([]Piece) bool) {
		var room []Piece
		for p := t.Plan(c); ; {
			if room = p.Next(room[:0], c.Bytes); len(room) == 0 || !yield(room) {
				return
			}
		}
	}
}

// Next appends the entries of the next request, of at most so many bytes, to room; 0: any number.
// Without any there are no more requests.
func (p *Planner) Next(room []Piece, bytes int64) []Piece {
	p.cut.Bytes = bytes
	p.request(func(next Piece, merged bool) {
		if merged {
			room[len(room)-1].Length += next.Length
		} else {
			room = append(room, next)
		}
	})
	return room
}

// request tells each piece of the next request, and whether it continues the entry before it.
func (p *Planner) request(tell func(next Piece, merged bool)) {
	var last Piece
	entries, bytes := 0, int64(0)
	for p.more {
		next := p.ahead
		if room := p.cut.Bytes - bytes; p.cut.Bytes > 0 && next.Length > room {
			switch {
			case p.cut.Split && room > 0:
				next.Length = room
			case entries > 0:
				return
			}
		}
		follows := next.Remote == last.Remote+last.Length
		merged := entries > 0 && p.cut.Merge && follows && next.Local == last.Local+last.Length
		switch {
		case merged:
		case entries > 0 && !follows && !p.cut.Spread, entries > 0 && entries == p.cut.Entries:
			return
		default:
			entries++
		}
		tell(next, merged)
		last, bytes = next, bytes+next.Length
		if left := p.ahead.Length - next.Length; left > 0 {
			p.ahead = Piece{next.Local + next.Length, next.Remote + next.Length, left}
		} else {
			p.advance()
		}
	}
}

// Load is how many requests and entries a cut makes of a transfer.
type Load struct {
	Requests, Entries int
	Longest           int // entries of a request
}

// Count counts the requests, and stops where there are more of them than most. What has more pieces than requests of
// so many entries could hold is not walked: its requests are then at least so many.
func (t *Transfer) Count(c Cut, most int) Load {
	pieces := t.Local.Blocks()
	if per := int64(c.Entries); per > 0 && !c.Merge && (pieces+per-1)/per > int64(most) {
		return Load{int((pieces + per - 1) / per), int(pieces), c.Entries}
	}
	x, n := Load{}, 0
	count := func(_ Piece, merged bool) {
		if !merged {
			n++
		}
	}
	for p := t.Plan(c); p.more && x.Requests <= most; x.Requests++ {
		n = 0
		p.request(count)
		x.Entries, x.Longest = x.Entries+n, max(x.Longest, n)
	}
	return x
}

// Packed is the layout's packed form: the same blocks without the gaps.
func (l Layout) Packed() Layout {
	blocks, at := make([]Block, len(l.blocks)), int64(0)
	for i, b := range l.blocks {
		blocks[i] = Block{at, b.Length}
		at += b.Length
	}
	p := Layout{text: l.text, blocks: blocks, outer: l.outer, inner: l.inner, size: l.size, extent: l.size}
	p.inner.step, p.outer.step = at, at*l.inner.count
	return p
}

// scattered is a layout of blocks in any order.
func scattered(text string, blocks []Block) Layout {
	l := Layout{text: text, blocks: blocks, outer: loop{1, 0}, inner: loop{1, 0}}
	for _, b := range blocks {
		l.size += b.Length
		l.extent = max(l.extent, b.End())
	}
	return l
}

// Scattered is the local side of some pieces as a layout: what a kernel packs into one buffer. Pieces of one length, as
// far apart each as the next, become a loop.
func Scattered(pieces []Piece) Layout {
	blocks := make([]Block, len(pieces))
	stride := int64(0)
	if len(pieces) > 1 {
		stride = pieces[1].Local - pieces[0].Local
	}
	regular := len(pieces) > 0 && stride >= pieces[0].Length
	for i, p := range pieces {
		blocks[i] = Block{p.Local, p.Length}
		regular = regular && p.Length == blocks[0].Length && p.Local == blocks[0].Offset+int64(i)*stride
	}
	l := scattered("", blocks)
	if regular {
		l.blocks, l.inner = []Block{blocks[0]}, loop{int64(len(pieces)), stride}
	}
	return l
}

package pattern

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// plainRequests is the reference that the planner is held against: it grows a request by a piece, or a part of one, for
// as long as what it has made is still a request.
func plainRequests(pieces []Piece, c Cut) (out [][]Piece) {
	todo := slices.Clone(pieces)
	for len(todo) > 0 {
		var request []Piece
		for len(todo) > 0 {
			next := todo[0]
			for c.Split && c.Bytes > 0 && next.Length > 1 && bytesOf(request)+next.Length > c.Bytes {
				next.Length-- // as much of it as there is room for
			}
			grown := append(slices.Clone(request), next)
			if c.Merge {
				grown = merged(grown)
			}
			if len(request) > 0 && !isRequest(grown, c) {
				break
			}
			request = grown
			if rest := todo[0].Length - next.Length; rest > 0 {
				todo[0] = Piece{next.Local + next.Length, next.Remote + next.Length, rest}
			} else {
				todo = todo[1:]
			}
		}
		out = append(out, request)
	}
	return out
}

func isRequest(entries []Piece, c Cut) bool {
	for i := range entries[1:] {
		if a := entries[i]; !c.Spread && a.Remote+a.Length != entries[i+1].Remote {
			return false
		}
	}
	return (c.Entries == 0 || len(entries) <= c.Entries) && (c.Bytes == 0 || bytesOf(entries) <= c.Bytes)
}

func bytesOf(entries []Piece) (n int64) {
	for _, e := range entries {
		n += e.Length
	}
	return n
}

func merged(entries []Piece) (out []Piece) {
	for _, e := range entries {
		if n := len(out); n > 0 && out[n-1].Local+out[n-1].Length == e.Local && out[n-1].Remote+out[n-1].Length == e.Remote {
			out[n-1].Length += e.Length
		} else {
			out = append(out, e)
		}
	}
	return out
}

// randomPieces follow each other now and then, at one end or at both.
func randomPieces(r *rand.Rand) []Piece {
	pieces := make([]Piece, 1+r.IntN(60))
	var local, remote int64
	for i := range pieces {
		if r.IntN(3) == 0 {
			local = r.Int64N(1 << 20)
		}
		if r.IntN(3) == 0 {
			remote += r.Int64N(1 << 10)
		}
		pieces[i] = Piece{local, remote, 1 + r.Int64N(100)}
		local, remote = local+pieces[i].Length, remote+pieces[i].Length
	}
	return pieces
}

func transferOf(pieces []Piece) Transfer {
	var local, remote []Block
	for _, p := range pieces {
		local, remote = append(local, Block{p.Local, p.Length}), append(remote, Block{p.Remote, p.Length})
	}
	return Transfer{scattered("", local), scattered("", remote)}
}

// TestPlannerAgainstReference: requests and entries of 10^4 random lists are those of the plain reference, in both
// directions, whatever the cut.
func TestPlannerAgainstReference(t *testing.T) {
	r := rand.New(rand.NewPCG(42, 1))
	lists := 10000
	if testing.Short() {
		lists = 1500
	}
	for i := range lists {
		pieces := randomPieces(r)
		c := Cut{Entries: r.IntN(9), Merge: r.IntN(2) == 0, Spread: r.IntN(4) == 0}
		if r.IntN(2) == 0 {
			c.Bytes, c.Split = 1+r.Int64N(300), r.IntN(2) == 0
		}
		transfer := transferOf(pieces)
		if i%2 == 1 {
			transfer = transfer.Swapped()
			for k, p := range pieces {
				pieces[k] = Piece{p.Remote, p.Local, p.Length}
			}
		}
		want, got, load := plainRequests(pieces, c), [][]Piece(nil), Load{}
		for entries := range transfer.Requests(c) {
			got = append(got, slices.Clone(entries))
			load = Load{load.Requests + 1, load.Entries + len(entries), max(load.Longest, len(entries))}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("list %d, %+v of %v:\ngot  %v\nwant %v", i, c, pieces, got, want)
		}
		if n := transfer.Count(c, 1<<20); n != load {
			t.Fatalf("list %d, %+v: counted %+v, want %+v", i, c, n, load)
		}
	}
}

// TestLayoutsAreTransfers: the planner makes of a layout's loops what it makes of the same blocks in a list.
func TestLayoutsAreTransfers(t *testing.T) {
	r := rand.New(rand.NewPCG(42, 2))
	for range 500 {
		var fields []Block
		at := int64(0)
		for range 1 + r.IntN(4) {
			at += r.Int64N(9)
			fields = append(fields, Block{at, 1 + r.Int64N(40)})
			at += fields[len(fields)-1].Length
		}
		l, err := Struct(fields, 1+r.Int64N(50), at+r.Int64N(9))
		if err != nil {
			t.Fatal(err)
		}
		looped := Gathered(l)
		var pieces []Piece
		for one := range looped.Requests(Cut{Entries: 1}) {
			pieces = append(pieces, one...)
		}
		if int64(len(pieces)) != l.Blocks() {
			t.Fatalf("%s: %d pieces, want %d", l, len(pieces), l.Blocks())
		}
		flat, c := transferOf(pieces), Cut{Entries: r.IntN(9), Bytes: r.Int64N(90), Merge: r.IntN(2) == 0}
		if a, b := looped.Count(c, 1<<20), flat.Count(c, 1<<20); a != b {
			t.Errorf("%s, %+v: %+v of loops, %+v of the list", l, c, a, b)
		}
	}
}

// TestShares: the parts of a list are the list, in order.
func TestShares(t *testing.T) {
	r := rand.New(rand.NewPCG(42, 3))
	for range 1000 {
		pieces, of := randomPieces(r), 1+r.IntN(9)
		transfer := transferOf(pieces)
		var got []Piece
		for n := range of {
			share := transfer.Share(n, of)
			for one := range share.Requests(Cut{Entries: 1}) {
				got = append(got, one...)
			}
		}
		if !slices.Equal(got, pieces) {
			t.Fatalf("%d shares of %v: %v", of, pieces, got)
		}
	}
}

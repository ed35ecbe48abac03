package rankzero

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
	"github.com/gobw/gobw/verbs"
)

// TestLiarsAreNamed: a rank whose address is not its own, or of no use, or that says so of all others, is the one that
// is named, whatever its place; honest ranks are not, and lose no round.
func TestLiarsAreNamed(t *testing.T) {
	gid := func(text string) *verbs.GID { return new(verbs.GIDFromAddr(netip.MustParseAddr(text))) }
	useless := *gid("fd09::2")
	for name, tt := range map[string]struct {
		transport verbs.Transport
		software  bool
		liar      func(f *fake)
		why       string
	}{
		"a group's address": {
			verbs.RC, false, func(f *fake) { f.gid = gid("224.0.0.1") }, "not the address of one host",
		},
		"no address": {
			verbs.RC, false, func(f *fake) { f.gid, f.qps = gid("10.0.0.1"), 2 }, "2 queue pairs in a flow, want 1",
		},
		"a third host's, software": {
			verbs.RC, true, func(f *fake) { f.gid = gid("10.9.0.3") }, "--data-allow 10.9.0.3",
		},
		"a third host's, UC": {
			verbs.UC, false, func(f *fake) { f.gid = gid("10.9.0.3") }, "--data-allow 10.9.0.3",
		},
		"a third host's, UD": {
			verbs.UD, false, func(f *fake) { f.gid = gid("10.9.0.3") }, "--data-allow 10.9.0.3",
		},
		"a loopback address": {
			verbs.RC, false, func(f *fake) { f.gid = gid("127.0.0.1") }, "queue pairs are at 127.0.0.1",
		},
		"an address that nobody reaches": {
			verbs.RC, false, func(f *fake) { f.gid = gid("fd09::2") }, "could not connect to each other: cannot reach it",
		},
		"it reaches nobody": {
			verbs.RC, false, func(f *fake) { f.refuses = func(control.Address) bool { return true } },
			"could not connect to each other: cannot reach it",
		},
	} {
		for _, ranks := range []int{3, 4, 9} {
			for _, liar := range []int{0, ranks - 1} {
				o, err := run{
					ranks: ranks,
					cfg: func(c *Config) {
						c.Plan.Transport = tt.transport
						c.Plan.Operation = "send"
					},
					worker: func(rank int) *fake {
						f := &fake{rank: rank, rail: fabric.Rail{Software: tt.software}}
						f.refuses = func(peer control.Address) bool { return peer.GID == useless }
						if rank == liar {
							tt.liar(f)
						}
						return f
					},
				}.run(t)
				if err != nil && (ranks > 3 || !strings.Contains(err.Error(), "needs two")) {
					t.Errorf("%s, rank %d of %d: %v", name, liar, ranks, err)
				}
				if err != nil && control.CauseOf(err) != control.PeerGone {
					t.Errorf("%s, rank %d of %d: the cause of %v is %v", name, liar, ranks, err, control.CauseOf(err))
				}
				for rank := range ranks {
					h := o.host(rank)
					if rank == liar && (h.Cause != matrix.Lost || !strings.Contains(h.Reason, tt.why)) {
						t.Errorf("%s, rank %d of %d: the liar is %v: %q", name, liar, ranks, h.Cause, h.Reason)
					}
					if rank != liar && h.Word == stats.Fail {
						t.Errorf("%s, rank %d of %d: the honest rank %d is %v: %q", name, liar, ranks, rank, h.Cause, h.Reason)
					}
				}
			}
		}
	}
}

// TestOwnAddresses: a rank at the address from which it is connected, or at one that the user allows, takes part.
func TestOwnAddresses(t *testing.T) {
	c := &coordinator{software: true, cfg: Config{DataAllow: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")}}}
	for at, seen := range map[string]string{
		"10.0.0.1": "10.0.0.1", "192.168.7.1": "10.0.0.1", "127.0.0.2": "127.0.0.1", "fd09::1": "fd09::1", "10.0.0.2": "",
		"2001:db8::1": "",
	} {
		h := &host{Host: matrix.Host{Address: seen}}
		if why := c.wrongAddress(h,
			control.Address{GID: verbs.GIDFromAddr(netip.MustParseAddr(at)), HasGID: true}); why != "" {
			t.Errorf("%s: %s", at, why)
		}
	}
	if why := c.wrongAddress(&host{Host: matrix.Host{Address: "10.0.0.1"}}, control.Address{LID: 7}); why != "" {
		t.Errorf("a LID: %s", why)
	}
}

// TestRandomLiars: of 64 ranks a few lie at random, to all or to some, about their own address or about that of others.
// A rank that is left out is always a liar, and one that lies to all is always left out.
func TestRandomLiars(t *testing.T) {
	const ranks = 64
	trials := 10_000
	if testing.Short() {
		trials = 200
	}
	missed := 0
	for trial := range trials {
		rng := rand.New(rand.NewPCG(uint64(trial), 3))
		c := &coordinator{}
		share := map[int]float64{} // of its partners to which a liar lies
		for r := range ranks {
			h := newHost(r)
			h.peer = &peer{}
			c.members = append(c.members, h)
		}
		for range 1 + rng.IntN(3) {
			share[rng.IntN(ranks)] = []float64{1, 1, 0.3 + 0.7*rng.Float64()}[rng.IntN(3)]
		}
		lies := func(from, to int) bool { return rng.Float64() < share[from] }
		var named []int
		s := schedule.New(schedule.Pairs, ranks, 12, uint64(trial))
		for k := range s.Rounds {
			for _, f := range s.At(k).Flows {
				a, b := c.members[f.From], c.members[f.To]
				if f.From > f.To || a.lost || b.lost {
					continue
				}
				said := [2]fabric.Flow{{Refused: lies(f.From, f.To)}, {Refused: lies(f.To, f.From)}}
				(&round{coordinator: c}).noteMeeting(&flowEnds{Flow: f, initiator: end{host: a}, target: end{host: b}}, said)
			}
			for _, h := range c.unconnected() {
				h.lost = true
				named = append(named, h.Rank)
			}
		}
		for _, r := range named {
			if _, liar := share[r]; !liar {
				t.Fatalf("trial %d: the honest rank %d is named; the liars are %v", trial, r, share)
			}
		}
		for r, of := range share {
			if of == 1 && !slices.Contains(named, r) {
				missed++
				t.Errorf("trial %d: the liar %d of %v is not named", trial, r, share)
			}
		}
	}
	t.Logf("%d trials, %d liars missed", trials, missed)
}

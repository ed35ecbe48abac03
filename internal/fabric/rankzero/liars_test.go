package rankzero

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/control"
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
			verbs.RC, false, func(f *fake) { f.gid = gid("fd09::2") }, "flows failed; cannot reach it",
		},
		"it reaches nobody": {
			verbs.RC, false, func(f *fake) { f.refuses = func(control.Address) bool { return true } },
			"flows failed; cannot reach it",
		},
	} {
		for _, ranks := range []int{3, 4, 9} {
			for _, liar := range []int{0, ranks - 1} {
				o, err := run{
					ranks: ranks,
					cfg: func(c *Config) {
						c.Plan.Transport, c.Software = tt.transport, tt.software
						c.Plan.Operation = "send"
					},
					worker: func(rank int) *fake {
						f := &fake{rank: rank}
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
					for _, f := range o.Fabric.Findings {
						if f.OfHost() && o.Fabric.Hosts[f.From].Rank == rank {
							h.Verdict = f.Verdict
						}
					}
					if rank == liar && (h.Word != stats.Fail || !strings.Contains(h.Reason, tt.why)) {
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
	c := &coordinator{cfg: Config{Software: true, DataAllow: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")}}}
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

// TestOthersSoftware: what a rank says of its own device changes nothing for the others, whose data may have addresses
// of its own.
func TestOthersSoftware(t *testing.T) {
	o, err := run{ranks: 4, worker: func(rank int) *fake {
		f := &fake{rank: rank, gid: new(verbs.GIDFromAddr(netip.AddrFrom4([4]byte{192, 168, 9, byte(rank)})))}
		if rank == 3 {
			f.rail.Device = "roce0"
		}
		return f
	}}.run(t)
	if err != nil || len(findings(o.Fabric)) > 0 || o.Fabric.Took() != 4 {
		t.Errorf("%v, findings %q, %+v", err, findings(o.Fabric), o.Fabric.Hosts)
	}
}

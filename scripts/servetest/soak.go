//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/gobw/gobw/internal/bench"
	"github.com/gobw/gobw/internal/control"
	"github.com/gobw/gobw/internal/control/connect"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
	"github.com/gobw/gobw/verbs/roce"
)

// soakEvery is how often a line of figures is written.
const soakEvery = time.Minute

// What a server may have more at the end of a soak than after its first minute: what differs from look to look, not what
// grows with the clients.
const (
	moreRSSKB       = 8 << 10
	moreDescriptors = 20 // a test's own
	moreThreads     = 8
	moreGoroutines  = 220
)

// grown says what of a server has grown since an earlier look.
func (st status) grown(before status) error {
	var wrong []error
	for _, c := range []struct {
		name              string
		before, now, most int
	}{
		{"resident memory in kB", before.rssKB, st.rssKB, moreRSSKB},
		{"descriptors", before.descriptors, st.descriptors, moreDescriptors},
		{"threads", before.threads, st.threads, moreThreads},
		{"goroutines", before.goroutines, st.goroutines, moreGoroutines},
	} {
		if c.before >= 0 && c.now > c.before+c.most {
			wrong = append(wrong, fmt.Errorf("%s: %d after the first look, %d at the end", c.name, c.before, c.now))
		}
	}
	return errors.Join(wrong...)
}

// soak sends n clients, a tenth of them hostile, and writes what the server takes meanwhile.
func soak(ctx context.Context, gobw string, n int, random *rand.Rand) error {
	s, err := startServer(gobw, "--max-memory", "256M", "--max-duration", "10s")
	if err != nil {
		return err
	}
	fmt.Println("   time  clients  hostile  failed  rss_kB  fds  threads  goroutines  log_lines  log_bytes  p50_ms  p99_ms  max_ms")
	begun, reported := time.Now(), time.Now()
	var took []time.Duration
	hostile, failed, done := 0, 0, 0
	var first, last status
	report := func() {
		slices.Sort(took)
		at := func(share float64) float64 {
			if len(took) == 0 {
				return 0
			}
			return took[int(share*float64(len(took)-1))].Seconds() * 1e3
		}
		st := s.status()
		fmt.Printf("%7.0f %8d %8d %7d %7d %4d %8d %11d %10d %10d %7.1f %7.1f %7.1f\n", time.Since(begun).Seconds(), done, hostile, failed,
			st.rssKB, st.descriptors, st.threads, st.goroutines, st.lines, st.bytes, at(0.5), at(0.99), at(1))
		took = took[:0]
		reported = time.Now()
		if last = st; first == (status{}) {
			first = st
		}
	}
	rows := strangers()
	for ; done < n && ctx.Err() == nil; done++ {
		if random.IntN(10) == 0 {
			hostile++
			attack(s, rows, random)
		} else {
			start := time.Now()
			if err := honest(ctx, s, soakPlan(random)); err != nil && ctx.Err() == nil {
				failed++
				fmt.Printf("an honest client, number %d: %v\n", done, err)
			}
			took = append(took, time.Since(start))
		}
		if time.Since(reported) > soakEvery {
			report()
		}
	}
	report()
	if err := s.stop(); err != nil {
		return fmt.Errorf("the server ended with %w:\n%s", err, s.last(20))
	}
	fmt.Printf("%d clients in %v, %d of them hostile; %d honest ones failed\n", done, time.Since(begun).Round(time.Second), hostile, failed)
	if failed > 0 {
		return fmt.Errorf("%d honest clients were not served", failed)
	}
	return last.grown(first)
}

// honest runs one short test.
func honest(ctx context.Context, s *server, test plan.Spec) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	d, err := roce.New(roce.Options{}).Open(roce.DeviceName)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	session, err := connect.Dial(ctx, net.JoinHostPort("127.0.0.1", s.port), connect.DialOptions{
		Timeouts: control.Timeouts{Peer: 20 * time.Second}, Program: "soak", Wait: 30 * time.Second, Token: s.token,
	})
	if err != nil {
		return err
	}
	if b, can := d.(verbs.Rebinder); can {
		if err := b.Bind(netip.MustParseAddr("127.0.0.1")); err != nil {
			session.Fail(err)
			return err
		}
	}
	res, err := bench.Run(ctx, session, &test, d, bench.Options{})
	if err != nil {
		return err
	}
	if len(res.Records) != 1 || res.Records[0].Bandwidth.AverageBitsPerS <= 0 {
		return fmt.Errorf("no figures: %d records", len(res.Records))
	}
	return session.Close()
}

// soakPlan is a test that takes both ends a few milliseconds.
func soakPlan(random *rand.Rand) plan.Spec {
	all := plan.Operations()
	p := plan.Spec{
		Operation: all[random.IntN(len(all))], Kind: plan.Bandwidth, Transport: verbs.RC, Iterations: 16, QPs: 1 + random.IntN(2), NoPeak: true,
	}
	if p.Operation != plan.Atomic {
		p.Sizes = []int{64 << random.IntN(8)}
	}
	if random.IntN(8) == 0 {
		p.Verify = plan.VerifyEnds
	}
	return p
}

// attack does something that no client should: a row of the table of costs, or bytes that are in no table.
func attack(s *server, all []stranger, random *rand.Rand) {
	garbage := make([]byte, random.IntN(70000))
	for i := range garbage {
		garbage[i] = byte(random.Uint32())
	}
	row := stranger{connections: 1}
	switch random.IntN(8) {
	case 0:
		row.does = says(string(garbage))
	case 1:
		row.does = says(hello + string(garbage))
	case 2:
		row.does = says(proposes(granted) + string(garbage))
	case 3: // proposes and goes
		row.does = func(t talk) {
			t.say(proposes(granted))
			time.Sleep(time.Duration(random.IntN(30)) * time.Millisecond)
			_ = t.Conn.(*net.TCPConn).SetLinger(random.IntN(2) - 1) // half of them with a reset
			_ = t.Close()
		}
	default:
		for row = all[random.IntN(len(all))]; row.to != ""; row = all[random.IntN(len(all))] { //nolint:revive // one for this server
		}
	}
	row.send(s)()
}

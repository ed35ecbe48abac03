//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
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

// What a server may have more at the end of an hour than after its first minute: what differs from look to look, not what grows with
// the clients. Of its memory every row has the bound.
const (
	moreDescriptors = 110 // of strangers who have just left
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

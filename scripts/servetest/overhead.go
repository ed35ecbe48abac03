//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// overhead runs n tests against each of two servers in turns: one whose tests run in processes of their own, and one that
// runs them itself.
func overhead(ctx context.Context, gobw, other string, n int) error {
	a, err := startServer(gobw)
	if err != nil {
		return err
	}
	b, err := startServer(other)
	if err != nil {
		return err
	}
	var differences, first, second []time.Duration
	for i := 0; i < n && ctx.Err() == nil; i++ {
		var took [2]time.Duration
		for j := range 2 {
			which := (i + j) % 2
			began := time.Now()
			if err := honest(ctx, []*server{a, b}[which], overheadPlan()); err != nil {
				return err
			}
			took[which] = time.Since(began)
		}
		first, second = append(first, took[0]), append(second, took[1])
		differences = append(differences, took[0]-took[1])
	}
	for _, list := range [][]time.Duration{first, second, differences} {
		slices.Sort(list)
	}
	at := func(list []time.Duration, share float64) float64 {
		return list[int(share*float64(len(list)-1))].Seconds() * 1e3
	}
	if len(differences) == 0 {
		return ctx.Err()
	}
	fmt.Printf("a test of 100 messages, connection and device included: %.1f ms in a process of its own, %.1f ms without (medians of %d)\n",
		at(first, 0.5), at(second, 0.5), n)
	fmt.Printf("the difference, pair by pair: %.1f ms (median), %.1f to %.1f (quartiles)\n", at(differences, 0.5), at(differences, 0.25), at(differences, 0.75))
	if err := a.stop(); err != nil {
		return err
	}
	_ = b.stop() // an older one does not end well on SIGTERM
	return nil
}

func overheadPlan() plan.Spec {
	return plan.Spec{
		Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{4096}, Iterations: 100, QPs: 1, Verify: plan.VerifyEnds, NoPeak: true,
	}
}

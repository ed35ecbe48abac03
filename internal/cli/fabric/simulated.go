package fabric

import (
	"errors"
	"fmt"
	"time"

	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/internal/fabric/coordinate"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/fabric/simulate"
	"github.com/gobw/gobw/internal/fabric/summary"
)

// runSimulated judges a fabric of numbers by the same schedule and the same judge.
func runSimulated(out output.Streams, c config) error {
	if err := c.files.check(); err != nil {
		return err
	}
	began := time.Now()
	n := c.simulated
	o := coordinate.Outcome{Hosts: make([]coordinate.Host, n), Taking: make([]int, n)}
	roster := make([]schedule.Member, n)
	f := simulate.Config{Hosts: n, Rails: len(c.rails), Noise: c.noise, Plants: c.plants, Seed: c.judge.Seed, Latency: c.judge.Latency}
	if c.leafSize > 0 {
		f.Leaf = make([]int, n)
	}
	for i := range n {
		roster[i] = schedule.Member{Host: fmt.Sprintf("host%d", i), Place: i}
		o.Hosts[i] = coordinate.Host{Rank: i, Name: roster[i].Host, State: coordinate.Taking}
		o.Taking[i] = i
		if f.Leaf != nil {
			f.Leaf[i] = i / c.leafSize
			o.Hosts[i].Leaf = fmt.Sprintf("leaf%d", f.Leaf[i])
			if i%c.leafSize == 0 {
				o.Leaves = append(o.Leaves, o.Hosts[i].Leaf)
			}
		}
	}
	o.Leaf = f.Leaf
	var err error
	if o.Schedule, err = c.choose(schedule.Options{Hosts: n, Leaf: f.Leaf, OneWay: c.oneWay, Seed: c.judge.Seed, Roster: roster}); err != nil {
		return exit.UsageError{Err: err}
	}
	j := simulate.Judge(simulate.New(f), o.Schedule, c.limited())
	o.Judge, o.Verdict, o.Scheduled = j, j.Conclude(), o.Schedule.Rounds
	for k, l := range j.Loads() {
		label := "re-test"
		if k < o.Schedule.Rounds {
			label = o.Schedule.At(k).Label
		}
		o.Rounds = append(o.Rounds, coordinate.RoundInfo{Label: label, Load: l})
	}
	o.Seconds = time.Since(began).Seconds()
	d := summary.Document(o, c.facts(began, o))
	d.Program += ", simulated"
	if err := c.write(d, out.Out); err != nil {
		return errors.Join(err, verdict(d))
	}
	return verdict(d)
}

package simulate

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/fabric/judge"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
)

var tables = flag.Bool("tables", false, "print the tables of results/fabric-simulation.txt, which takes minutes")

var only = flag.Int("hosts", 0, "of the tables: those of 64, 1024 or 10000 hosts only")

var retests = flag.Int("retests", 40, "of the tables: the most rounds of re-tests")

// trial is one setting of the tables.
type trial struct {
	hosts, perLeaf int
	rounds         int // of pairs
	noise          float64
	bad            int // hosts and as many links
	drop           float64
}

type outcome struct {
	hosts, hostsFound, links, linksFound, falseHosts, falseLinks, undecided, retests, rounds int
	hostPower, linkPower                                                                     float64
}

// build plants faults in a fabric.
func (tr trial) build(t testing.TB, seed uint64) (c Config, s schedule.Schedule, host map[int]bool,
	link map[[2]int]bool,
) {
	t.Helper()
	c = Config{Hosts: tr.hosts, Noise: tr.noise, Seed: seed}
	if tr.perLeaf > 0 {
		c.Leaf = leavesOf(tr.hosts, tr.perLeaf)
	}
	s = schedule.New(schedule.Pairs, tr.hosts, tr.rounds, seed)
	rng := rand.New(rand.NewPCG(seed, 99))
	host, link = map[int]bool{}, map[[2]int]bool{}
	for len(host) < tr.bad {
		h := rng.IntN(tr.hosts)
		if !host[h] {
			host[h] = true
			c.Plants = append(c.Plants, Plant{Kind: Host, A: h, Factor: 1 - tr.drop})
		}
	}
	for len(link) < tr.bad { // of those that the schedule tests
		flows := s.At(rng.IntN(s.Rounds)).Flows
		if len(flows) == 0 {
			continue
		}
		f := flows[rng.IntN(len(flows))]
		if !host[f.From] && !host[f.To] && !link[[2]int{f.From, f.To}] {
			link[[2]int{f.From, f.To}] = true
			c.Plants = append(c.Plants, Plant{Kind: Link, A: f.From, B: f.To, Factor: 1 - tr.drop})
		}
	}
	return c, s, host, link
}

// run judges a fabric with planted faults and counts.
func (tr trial) run(t testing.TB, seed uint64) outcome {
	t.Helper()
	c, s, host, link := tr.build(t, seed)
	findings, v := Judge(New(c), s, judge.Config{Seed: seed, Retests: *retests}).Conclude()
	o := outcome{
		hosts: len(host), links: len(link), retests: v.Retests, rounds: s.Rounds, hostPower: v.HostPower,
		linkPower: v.LinkPower,
	}
	found := map[int]bool{}
	for _, f := range findings {
		switch {
		case f.Word == stats.CannotTell:
			o.undecided++
		case f.Word == stats.Pass:
		case f.Subject == matrix.Link && link[[2]int{f.From, f.To}]:
			o.linksFound++
		case f.Subject == matrix.Link:
			o.falseLinks++
		case host[f.From]:
			found[f.From] = true
		default:
			o.falseHosts++
		}
	}
	o.hostsFound = len(found)
	return o
}

// TestErrorRates holds the judge to what it promises: of healthy hosts and links none is accused, of slow ones of the
// size that it looks for nearly all are found.
func TestErrorRates(t *testing.T) {
	runs, accused, planted, found := 0, 0, 0, 0
	for seed := range seeds(25) {
		for _, tr := range []trial{
			{64, 0, 63, 0.01, 3, 0.10},
			{64, 0, 6, 0.01, 1, 0.10},
			{256, 16, 31, 0.01, 3, 0.10},
			{64, 0, 6, 0.03, 0, 0},
			{64, 0, 6, 0.03, 3, 0.20},
			{64, 8, 14, 0.02, 3, 0.10}, // where links were accused by noise taken for less than it is
		} {
			o := tr.run(t, seed)
			runs++
			if o.falseHosts+o.falseLinks > 0 {
				accused++
			}
			planted += o.hosts + o.links
			found += o.hostsFound + o.linksFound
		}
	}
	if accused > 1 { // one run in a hundred is what is promised; the seeds are fixed
		t.Errorf("healthy hosts or links accused in %d of %d runs", accused, runs)
	}
	if found < planted*97/100 {
		t.Errorf("%d of %d planted faults found", found, planted)
	}
}

func TestTables(t *testing.T) {
	if !*tables {
		t.Skip("give -tables")
	}
	row := func(cells ...any) { // at once: a table that is stopped keeps what it has
		for i, c := range cells {
			fmt.Fprintf(os.Stdout, "%*v", []int{7, 9, 8, 10, 7, 9, 6, 13, 13, 15, 15, 11, 12, 12, 6, 8}[i], c)
		}
		fmt.Fprintln(os.Stdout)
	}
	row("hosts", "leaves of", "rounds", "re-tests", "noise", "planted", "drop", "hosts found", "links found",
		"hosts accused", "links accused", "undecided", "host power", "link power", "runs", "s/run")
	for _, n := range []int{64, 1024, 10000} {
		if *only != 0 && n != *only {
			continue
		}
		settings := []trial{
			{hosts: n, rounds: map[int]int{64: 6, 1024: 10, 10000: 14}[n]},
			{
				hosts: n, rounds: map[int]int{64: 14, 1024: 62, 10000: 62}[n], perLeaf: map[int]int{64: 8, 1024: 32, 10000: 100}[n],
			},
		}
		if n == 64 {
			settings = append(settings, trial{hosts: n, rounds: 63})
		}
		runs := uint64(map[int]int{64: 30, 1024: 6, 10000: 2}[n])
		for _, p := range settings {
			if n == 10000 && p.perLeaf > 0 {
				runs = 1 // of half a million cells
			}
			for _, noise := range []float64{0.005, 0.01, 0.02, 0.03} {
				planted := []int{0, 1, 3}
				if n > 300 {
					planted = append(planted, n/100)
				}
				for _, bad := range planted {
					for _, drop := range []float64{0.05, 0.10, 0.20} {
						p.noise, p.bad, p.drop = noise, bad, drop
						var sum outcome
						begin := time.Now()
						for seed := range runs {
							o := p.run(t, seed)
							sum.hosts += o.hosts
							sum.hostsFound += o.hostsFound
							sum.links += o.links
							sum.linksFound += o.linksFound
							sum.falseHosts += o.falseHosts
							sum.falseLinks += o.falseLinks
							sum.undecided += o.undecided
							sum.retests += o.retests
							sum.rounds = o.rounds
							sum.hostPower, sum.linkPower = o.hostPower, o.linkPower
						}
						d := fmt.Sprintf("-%.0f%%", drop*100)
						if bad == 0 {
							d = "-"
						}
						row(n, p.perLeaf, sum.rounds, fmt.Sprintf("%.1f", float64(sum.retests)/float64(runs)),
							fmt.Sprintf("%.1f%%", noise*100), bad, d,
							fmt.Sprintf("%d/%d", sum.hostsFound, sum.hosts), fmt.Sprintf("%d/%d", sum.linksFound, sum.links), sum.falseHosts,
							sum.falseLinks, sum.undecided,
							fmt.Sprintf("%.1f%%", sum.hostPower*100), fmt.Sprintf("%.1f%%", sum.linkPower*100), runs,
							fmt.Sprintf("%.2f", time.Since(begin).Seconds()/float64(runs)))
						if bad == 0 {
							break
						}
					}
				}
			}
		}
	}
}

//go:build unix

package rankzero

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gobw/gobw/internal/cputime"
	"github.com/gobw/gobw/internal/fabric"
	"github.com/gobw/gobw/internal/fabric/agent"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

var cost = flag.Int("cost",
	0, "measure what coordinating so many agents over real sockets costs (results/fabric-coordinator.txt)")

// agentsVariable makes the test binary the other process: "ADDRESS N".
const agentsVariable = "GOBW_TEST_AGENTS"

func TestMain(m *testing.M) {
	if text := os.Getenv(agentsVariable); text != "" {
		var address string
		var n int
		if _, err := fmt.Sscan(text, &address, &n); err != nil {
			panic(err)
		}
		manyAgents(address, n)
		return
	}
	m.Run()
}

// manyAgents are n agents in one process, without devices.
func manyAgents(address string, n int) {
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() {
			_, err := agent.Join(context.Background(), agent.Config{
				Hello:      fabric.Hello{Rank: rank, Host: fmt.Sprintf("node%d", rank), Place: strconv.Itoa(rank)},
				Key:        fabric.Key("job", "secret"),
				Rendezvous: []string{address}, Wait: 2 * time.Minute,
				Worker: func(int) agent.Worker { return &fake{rank: rank} },
			})
			if err != nil {
				fmt.Fprintln(os.Stderr, rank, err)
			}
		})
	}
	wg.Wait()
}

func TestCost(t *testing.T) {
	if *cost == 0 {
		t.Skip("give -cost N")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", agentsVariable, l.Addr(), *cost))
	child.Stderr = os.Stderr
	begun := time.Now()
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	const rounds = 10
	var met time.Duration
	var first, last time.Time
	var cpu time.Duration
	n := 0
	d, err := Coordinate(t.Context(), l, Config{
		Ranks: *cost, Key: fabric.Key("job", "secret"), Version: "v1", Wait: 2 * time.Minute, Rails: []string{""},
		Plan:    plan.Spec{Operation: plan.Write, Kind: plan.Bandwidth, Transport: verbs.RC, Sizes: []int{65536}},
		Pattern: schedule.Pairs, Time: 19 * time.Second, Measure: time.Second,
		Note: func(s string) { t.Log(s) },
		Progress: func(string) { // before each round
			if n++; n == 1 {
				met = time.Since(begun)
				first, cpu = time.Now(), cputime.Process()
			}
			if n == rounds {
				last, cpu = time.Now(), cputime.Process()-cpu
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	each := last.Sub(first) / (rounds - 1)
	taking := d.Fabric.Took()
	t.Logf("%d agents, %d took part: met and opened in %.1f s; a round of 1.15 s took %.2f s (%.0f ms more), "+
		"%.0f ms of the coordinator's CPU; resident at most %d MiB (%.0f KiB an agent), heap %d MiB",
		*cost, taking, met.Seconds(), each.Seconds(), (each-1150*time.Millisecond).Seconds()*1e3,
		cpu.Seconds()*1e3/(rounds-1), u.Maxrss>>10, float64(u.Maxrss)/float64(*cost), m.HeapAlloc>>20)
	if taking != *cost {
		t.Errorf("%d of %d took part", taking, *cost)
	}
}

package fabric

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gobw/gobw/internal/fabric/launch"
	"github.com/gobw/gobw/internal/fabric/schedule"
	"github.com/gobw/gobw/internal/plan"
)

// TestCoordinatorTwice: of a flag that is given twice the last holds, and nothing of the first.
func TestCoordinatorTwice(t *testing.T) {
	f := &flags{}
	cmd := &cobra.Command{}
	f.bind(cmd, plan.Bandwidth)
	if err := cmd.ParseFlags([]string{"--coordinator", "one:5000", "--coordinator", "two"}); err != nil {
		t.Fatal(err)
	}
	if f.config.coordinator != "two" || f.config.port != 0 {
		t.Errorf("rank 0 is sought at %s, port %d", f.config.coordinator, f.config.port)
	}
}

func TestOneOf(t *testing.T) {
	parse := oneOf(schedule.Pairs, schedule.Incast)
	if p, err := parse("pairs"); err != nil || p != schedule.Pairs {
		t.Errorf("%s, %v", p, err)
	}
	if _, err := parse("pears"); err == nil || !strings.Contains(err.Error(), "there are pairs, incast") {
		t.Error(err)
	}
}

// TestWhoCoordinates: the same command may be typed at all hosts of a list.
func TestWhoCoordinates(t *testing.T) {
	list := []string{"node1", "node2"}
	for _, tt := range []struct {
		at   string
		rank int
	}{{"", 0}, {"node1", 0}, {"127.0.0.1", 0}, {"node2", -1}, {"192.0.2.77", -1}} {
		id, err := (&config{hosts: list, coordinator: tt.at}).identity("node1")
		if err != nil || id.Rank != tt.rank || id.Rank < 0 && id.Rendezvous[0] != tt.at {
			t.Errorf("--coordinator %q at node1: %+v, %v", tt.at, id, err)
		}
	}
}

// TestPorts: all ranks of a run come to the same port, and the one of --coordinator is it, however low.
func TestPorts(t *testing.T) {
	alone, listed, launched := launch.Identity{Rank: -1}, launch.Identity{Size: 2}, launch.Identity{
		Rank: 1, Size: 2, Job: "7.0",
	}
	for _, tt := range []struct {
		name string
		c    config
		id   launch.Identity
		at   int
	}{
		{"with --coordinator alone", config{}, alone, defaultPort},
		{"rank 0 of --hosts", config{hosts: []string{"a", "b"}}, listed, defaultPort},
		{"a port with --coordinator alone", config{port: 5000}, alone, 5000},
		{"a port with --hosts", config{port: 5000, hosts: []string{"a", "b"}}, listed, 5000},
	} {
		if at := tt.c.portOf(tt.id); at != tt.at {
			t.Errorf("%s: %d, want %d", tt.name, at, tt.at)
		}
	}
	zero := launched
	zero.Rank = 0
	one := (&config{}).portOf(launched)
	if other := (&config{}).portOf(zero); one != other || one < defaultPort || one >= defaultPort+jobPorts {
		t.Errorf("ranks 0 and 1 of a job look at ports %d and %d", other, one)
	}
}

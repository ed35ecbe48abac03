package fabric

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	report "github.com/gobw/gobw/report/fabric"
)

// cluster runs a script of testdata on a Slurm cluster in namespaces and returns the directory of its results. Programs, by their
// directory below it, are built beside gobw and golat, with flags of 'go build'.
func cluster(t *testing.T, hosts, script string, programs map[string][]string, env ...string) string {
	t.Helper()
	required := os.Getenv("GOBW_CI") != ""
	for _, tool := range []string{"slurmctld", "munged", "tc", "nsenter", "taskset", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			if required {
				t.Fatal(err)
			}
			t.Skipf("no Slurm cluster without %s: run scripts/setup", tool)
		}
	}
	if os.Geteuid() != 0 {
		if required {
			t.Fatal("a Slurm cluster in namespaces needs root")
		}
		t.Skip("a Slurm cluster in namespaces needs root")
	}
	if testing.Short() {
		t.Skip("a Slurm cluster takes more than a minute")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	build := func(below string, words ...string) {
		cmd := exec.Command("go", append([]string{"build", "-o", filepath.Join(dir, below) + "/"}, words...)...)
		cmd.Dir = root(t)
		if b, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
	}
	build("", "./cmd/gobw", "./cmd/golat")
	for below, words := range programs {
		build(below, append(words, "./cmd/gobw")...)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root(t), "scripts/slurm-lab"), hosts, filepath.Join(root(t), "internal/cli/fabric/testdata", script), dir)
	cmd.Env = append(os.Environ(), env...)
	if b, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() == 125 || ctx.Err() != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return dir
}

// root is the directory of the module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func text(t *testing.T, dir, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// result is one run of a cluster.
func result(t *testing.T, dir, name string) (*report.Document, string) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatalf("%v: status %s\n%s\n%s", err, text(t, dir, name+".status"), text(t, dir, name+".out"), text(t, dir, name+".err"))
	}
	defer func() { _ = f.Close() }()
	d, err := report.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %s", name, d.Line())
	return d, text(t, dir, name+".status")
}

// accused are the hosts and links that a run calls bad.
func accused(d *report.Document) []string {
	var out []string
	for _, f := range d.Findings {
		if f.Bad {
			out = append(out, f.From+f.To)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

func host(d *report.Document, name string) report.Host {
	for _, h := range d.Hosts {
		if h.Name == name {
			return h
		}
	}
	return report.Host{State: "not there"}
}

func hostState(d *report.Document, name string) string { return host(d, name).State }

func TestClusterOfFour(t *testing.T) {
	dir := cluster(t, "4", "cluster.sh", nil, "LEAF_SIZE=4", "RAILS=2")
	t.Run("a slow host", func(t *testing.T) {
		d, status := result(t, dir, "slow-host")
		if got := accused(d); !slices.Equal(got, []string{"node3"}) || status != "1" {
			t.Errorf("accused %v, status %s", got, status)
		}
		if len(d.Hosts) != 4 || d.Judged.Tested != 12 || !d.Software {
			t.Errorf("%d hosts, %d pairs", len(d.Hosts), d.Judged.Tested)
		}
		for _, h := range d.Hosts {
			if !strings.HasPrefix(h.Leaf, "spine.leaf") || !strings.HasPrefix(h.Address, "10.77.") {
				t.Errorf("%+v", h)
			}
		}
	})
	t.Run("a slow link", func(t *testing.T) {
		d, status := result(t, dir, "slow-link")
		got := accused(d)
		back := slices.DeleteFunc(slices.Clone(got), func(a string) bool { return a == "node2node1" })
		if !slices.Equal(back, []string{"node1node2"}) || status != "1" {
			t.Errorf("accused %v, status %s", got, status)
		}
	})
	t.Run("a slow rail", func(t *testing.T) {
		d, status := result(t, dir, "rails")
		if got := accused(d); !slices.Equal(got, []string{"node3"}) || status != "1" || d.Judged.Tested != 2*12 {
			t.Errorf("accused %v, status %s, %d pairs", got, status, d.Judged.Tested)
		}
		for _, f := range d.Findings {
			if f.Bad && (f.Rail != 1 || f.Alone.N == 0) {
				t.Errorf("%+v: want rail 1, tested alone, too", f)
			}
		}
	})
	t.Run("late", func(t *testing.T) {
		d, status := result(t, dir, "latency")
		if got := accused(d); !slices.Equal(got, []string{"node3"}) || status != "1" || !d.Test.Latency() || d.Judged.Tested != 12 {
			t.Errorf("accused %v, status %s, %d pairs", got, status, d.Judged.Tested)
		}
	})
	t.Run("without srun", func(t *testing.T) {
		if status, err := text(t, dir, "batch.status"), text(t, dir, "batch.err"); status != "2" || !strings.Contains(err, "srun -K gobw fabric") {
			t.Errorf("status %s: %s", status, err)
		}
	})
	t.Run("two jobs at once", func(t *testing.T) {
		for _, name := range []string{"left", "right"} {
			if d, _ := result(t, dir, name); len(d.Hosts) != 2 || d.Judged.Tested != 2 || len(accused(d)) > 0 {
				t.Errorf("%s: %s", name, d.Line())
			}
		}
	})
	t.Run("a link cut in mid-run", func(t *testing.T) {
		d, status := result(t, dir, "cut")
		if hostState(d, "node4") != "lost" || len(accused(d)) > 0 || status == "0" {
			t.Errorf("node4 %s, accused %v, status %s", hostState(d, "node4"), accused(d), status)
		}
		for _, other := range []string{"node1", "node2", "node3"} {
			if hostState(d, other) != "took part" {
				t.Errorf("%s %s", other, hostState(d, other))
			}
		}
	})
	t.Run("scancel", func(t *testing.T) {
		d, status := result(t, dir, "cancelled")
		if d.Stopped == "" || d.Cells.Len() < 8 || status == "0" || hostState(d, "node2") != "took part" {
			t.Errorf("stopped %q, %d cells, status %s", d.Stopped, d.Cells.Len(), status)
		}
		if err := text(t, dir, "cancelled.err"); !strings.Contains(err, "stopped: a snapshot, the run goes on. 4 of 4 hosts") {
			t.Errorf("no snapshot: %s", err)
		}
		if left := text(t, dir, "left-behind"); left != "" {
			t.Errorf("left behind: %s", left)
		}
	})
	t.Run("a loop of agents", func(t *testing.T) {
		if d, status := result(t, dir, "loop"); d.Judged.Tested != 12 || len(accused(d)) > 0 {
			t.Errorf("%s, status %s", d.Line(), status)
		}
		for _, a := range []string{"agent2.err", "agent3.err", "agent4.err"} {
			if !strings.Contains(text(t, dir, a), "the run is over") {
				t.Errorf("%s: %s", a, text(t, dir, a))
			}
		}
	})
	t.Run("mpirun", func(t *testing.T) {
		if _, err := exec.LookPath("mpirun"); err != nil && os.Getenv("GOBW_CI") == "" {
			t.Skip("no mpirun: run scripts/setup")
		}
		if d, status := result(t, dir, "mpirun"); d.Judged.Tested != 12 || len(accused(d)) > 0 {
			t.Errorf("%s, status %s", d.Line(), status)
		}
	})
}

func TestClusterOfSixteen(t *testing.T) {
	dir := cluster(t, "16", "cluster.sh", nil, "LEAF_SIZE=4")
	d, status := result(t, dir, "matchings")
	if got := accused(d); !slices.Equal(got, []string{"node3"}) || status != "1" {
		t.Errorf("accused %v, status %s", got, status)
	}
	if d.Judged.Tested < 100 || len(d.Leaves) != 4 {
		t.Errorf("%d pairs, leaves %v", d.Judged.Tested, d.Leaves)
	}
	if !strings.Contains(text(t, dir, "matchings.xml"), `name="node3"`) || !strings.Contains(text(t, dir, "matchings.html"), "<canvas") {
		t.Error("JUnit or HTML is not what it should be")
	}
	for _, pattern := range []string{"shift", "quick", "incast", "alltoall", "ring", "bisection", "leaves", "custom"} {
		d, _ := result(t, dir, pattern)
		if d.Pattern != pattern || d.Cells.Len() == 0 {
			t.Errorf("%s: %s, %d cells", pattern, d.Pattern, d.Cells.Len())
		}
		for _, a := range accused(d) {
			if !strings.Contains(a, "node3") {
				t.Errorf("%s accuses %s", pattern, a)
			}
		}
		if pattern == "incast" && len(d.Incast) != 5 {
			t.Errorf("incast: %+v", d.Incast)
		}
	}
}

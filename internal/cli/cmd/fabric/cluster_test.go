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

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
)

// cluster runs testdata/cluster.sh on a Slurm cluster of four hosts in namespaces and returns the directory of its
// results.
func cluster(t *testing.T) string {
	t.Helper()
	testrun.OnlyWhole(t, "a Slurm cluster takes half a minute")
	testrun.Need(t, "slurmctld", "munged", "tc", "nsenter", "go")
	if os.Geteuid() != 0 {
		testrun.Missing(t, "a Slurm cluster in namespaces, which needs root")
	}
	dir := t.TempDir()
	root, err := filepath.Abs("../../../..")
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/gobw")
	build.Dir = root
	if b, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(root, "scripts/slurm-lab"), "4",
		filepath.Join(root, "internal/cli/cmd/fabric/testdata/cluster.sh"), dir)
	cmd.Env = append(os.Environ(), "LEAF_SIZE=4", "RAILS=2")
	if b, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() == 125 || ctx.Err() != nil {
		t.Fatalf("%v\n%s", err, b)
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

// result is one run of a cluster, and its exit status.
func result(t *testing.T, dir, name string) (*report.Document, string) {
	t.Helper()
	d, err := report.Load(filepath.Join(dir, name+".json"))
	if err != nil {
		t.Fatalf("%v: status %s\n%s\n%s", err, text(t, dir, name+".status"), text(t, dir, name+".out"),
			text(t, dir, name+".err"))
	}
	t.Logf("%s: %v", name, d.Checks)
	return d, text(t, dir, name+".status")
}

// slow are the hosts and links that a run calls bad.
func slow(m *matrix.Matrix) []string {
	var out []string
	for _, f := range m.Findings {
		if f.Word == stats.Fail {
			out = append(out, m.Hosts[f.From].Name)
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(out)))
}

func causeOf(m *matrix.Matrix, name string) (stats.Cause, string) {
	i := slices.IndexFunc(m.Hosts, func(h matrix.Host) bool { return h.Name == name })
	if i < 0 {
		return "not there", ""
	}
	return m.Hosts[i].Cause, m.Hosts[i].Reason
}

func TestCluster(t *testing.T) {
	dir := cluster(t)
	t.Run("a slow rail", func(t *testing.T) {
		d, status := result(t, dir, "rails")
		m := d.Fabric
		if got := slow(m); !slices.Equal(got, []string{"node3"}) || status != "1" || m.Judged.Tested != 2*12 ||
			!d.Client.Software {
			t.Errorf("accused %v, status %s, %d pairs", got, status, m.Judged.Tested)
		}
		for _, f := range m.Findings {
			if f.Word == stats.Fail && (f.Rail != 1 || f.Alone.N == 0) {
				t.Errorf("%+v: want rail 1, tested alone, too", f)
			}
		}
		for _, h := range m.Hosts {
			if !strings.HasPrefix(h.Leaf, "spine.leaf") || !strings.HasPrefix(h.Address, "10.77.") {
				t.Errorf("%+v", h)
			}
		}
		if out := text(t, dir, "rails.out"); !strings.Contains(out, "FAIL") || !strings.Contains(out, "--exclude=node3") {
			t.Errorf("report:\n%s", out)
		}
	})
	t.Run("without srun", func(t *testing.T) {
		if status, err := text(t, dir, "batch.status"), text(t, dir, "batch.err"); status != "2" ||
			!strings.Contains(err, "srun -K gobw fabric") {
			t.Errorf("status %s: %s", status, err)
		}
	})
	t.Run("two jobs on a host", func(t *testing.T) {
		d, status := result(t, dir, "second")
		for _, name := range []string{"node2", "node3"} {
			if cause, why := causeOf(d.Fabric, name); cause != matrix.Unfit || !strings.Contains(why, "4791") {
				t.Errorf("%s: %s, %s", name, cause, why)
			}
		}
		if status != "3" || len(slow(d.Fabric)) > 0 {
			t.Errorf("status %s: %s", status, d.Failure)
		}
	})
	t.Run("scancel", func(t *testing.T) {
		d, status := result(t, dir, "cancelled")
		if d.Complete || d.Fabric.Cells.Len() < 4 || status == "0" || d.Fabric.Took() != 3 {
			t.Errorf("%s, %d cells, status %s", d.Failure, d.Fabric.Cells.Len(), status)
		}
		if err := text(t, dir, "cancelled.err"); !strings.Contains(err, "a snapshot, the run goes on") {
			t.Errorf("no snapshot: %s", err)
		}
		if left := text(t, dir, "left-behind"); left != "" {
			t.Errorf("left behind: %s", left)
		}
	})
	t.Run("a crash that ends the job", func(t *testing.T) {
		d, status := result(t, dir, "crash")
		if cause, why := causeOf(d.Fabric, "node2"); cause != matrix.Lost || !strings.Contains(why, "its process has ended") {
			t.Errorf("%s, %s", cause, why)
		}
		if d.Complete || d.Fabric.Cells.Len() < 4 || status == "0" {
			t.Errorf("%s, %d cells, status %s", d.Failure, d.Fabric.Cells.Len(), status)
		}
	})
	t.Run("a loop over hosts", func(t *testing.T) {
		if d, status := result(t, dir, "loop"); d.Fabric.Judged.Tested != 12 {
			t.Errorf("%v, status %s", d.Checks, status)
		}
		for _, rank := range []string{"rank2.err", "rank3.err", "rank4.err"} {
			if !strings.Contains(text(t, dir, rank), "the run is over") {
				t.Errorf("%s: %s", rank, text(t, dir, rank))
			}
		}
	})
	t.Run("mpirun", func(t *testing.T) {
		testrun.Need(t, "mpirun")
		if d, status := result(t, dir, "mpirun"); d.Fabric.Judged.Tested != 12 {
			t.Errorf("%v, status %s", d.Checks, status)
		}
	})
}

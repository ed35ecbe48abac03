package launch

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gobw/gobw/report/plain"
)

func TestDiscover(t *testing.T) {
	slurm := map[string]string{
		"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_NTASKS": "4",
		"SLURM_STEP_NODELIST": "node[1,3-4]", "SLURM_JOB_NODELIST": "node[1-4]", "SLURMD_NODENAME": "node4",
		"SLURM_CLUSTER_NAME":  "lab",
		"SLURM_TOPOLOGY_ADDR": "spine.leaf2.node4",
	}
	with := func(env map[string]string, more ...string) map[string]string {
		out := maps.Clone(env)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	inStep := Identity{
		Rank: 2, Size: 3, Source: "Slurm step 7.0", Job: "lab.7.0", Rendezvous: []string{"node1", "node3", "node4"},
		Hosts: []string{"node1", "node3", "node4"}, Host: "node4", Leaf: "spine.leaf2",
	}
	for _, tt := range []struct {
		name        string
		coordinator string
		env         map[string]string
		want        Identity
	}{
		{"srun --mpi=pmi2", "", with(slurm, "PMI_RANK", "2", "PMI_SIZE", "3", "PMI_JOBID", "7.0", "PMI_FD", "9"), inStep},
		{"srun --mpi=pmix", "", with(slurm, "PMIX_RANK", "2", "PMIX_NAMESPACE", "slurm.pmix.7.0"), inStep},
		{
			"srun, and a stale RANK and WORLD_SIZE", "", with(slurm, "RANK", "0", "WORLD_SIZE", "1", "MASTER_ADDR", "m"), inStep,
		},
		{
			"mpirun, whose daemon srun started", "",
			with(slurm, "SLURM_PROCID", "0", "OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "4",
				"OMPI_MCA_ess_base_jobid", "99", "OMPI_MCA_orte_hnp_uri", "3.0;tcp://10.0.0.1:4711"),
			Identity{
				Rank: 3, Size: 4, Source: "Open MPI, inside Slurm step 7.0", Job: "99", Rendezvous: []string{"10.0.0.1"},
			},
		},
		{"hydra, whose proxies srun started, one a host", "", with(slurm, "PMI_RANK", "2", "PMI_SIZE", "3"), inStep},
		{
			"Open MPI over PMIx: it says how many", "a",
			map[string]string{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "1"},
			Identity{
				Rank: 1, Size: 2, Source: "Open MPI", Rendezvous: []string{"a"},
			},
		},
		{"mpirun in a pod of an Indexed Job", "", map[string]string{
			"JOB_COMPLETION_INDEX": "0", "HOSTNAME": "fab-0", "GOBW_RANKS": "2", "GOBW_COORDINATOR": "fab-0.fab",
			"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "8",
		}, Identity{Rank: 1, Size: 8, Source: "Open MPI, inside Kubernetes Indexed Job", Rendezvous: []string{"fab-0.fab"}}},
		{"mpirun in a batch script", "", map[string]string{
			"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "3", "OMPI_COMM_WORLD_RANK": "0",
			"OMPI_COMM_WORLD_SIZE": "2",
		}, Identity{
			Rank: 0, Size: 2, Source: "Open MPI",
		}},
		{"Slurm step", "", slurm, inStep},
		{
			"--coordinator first", "h:1",
			map[string]string{"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "m"},
			Identity{Rank: 1, Size: 2, Source: "RANK and WORLD_SIZE", Rendezvous: []string{"h:1"}},
		},
		{
			"Kubernetes", "fab-0.svc",
			map[string]string{"JOB_COMPLETION_INDEX": "3", "HOSTNAME": "fab-3", "GOBW_RANKS": "4"},
			Identity{
				Rank: 3, Size: 4, Source: "Kubernetes Indexed Job", Job: "fab", Rendezvous: []string{"fab-0.svc"},
			},
		},
		{"Kubernetes, by environment", "", map[string]string{
			"JOB_COMPLETION_INDEX": "0", "HOSTNAME": "a-b-0", "GOBW_RANKS": "2", "GOBW_COORDINATOR": "a-b-0.s",
		}, Identity{
			Rank: 0, Size: 2, Source: "Kubernetes Indexed Job", Job: "a-b", Rendezvous: []string{"a-b-0.s"},
		}},
		{"mpirun", "", map[string]string{
			"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4",
			"OMPI_MCA_orte_hnp_uri": "3.0;tcp://10.0.0.1,10.1.0.1:4711;ud://x", "OMPI_MCA_ess_base_jobid": "99",
		}, Identity{Rank: 1, Size: 4, Source: "Open MPI", Job: "99", Rendezvous: []string{"10.0.0.1", "10.1.0.1"}}},
		{"torchrun", "", map[string]string{"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "MASTER_PORT": "1"}, Identity{
			Rank: 1, Size: 2, Source: "RANK and WORLD_SIZE", Rendezvous: []string{"m"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Discover(tt.coordinator, func(k string) string { return tt.env[k] })
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	batch := map[string]string{"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "3"}
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"batch script without srun", batch, "srun -K gobw fabric"},
		{
			"batch step with a number",
			map[string]string{"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967291"},
			"srun -K gobw fabric",
		},
		{
			"a number that is none",
			map[string]string{"SLURM_STEP_ID": "0", "SLURM_PROCID": "x", "SLURM_STEP_NUM_TASKS": "3"},
			`SLURM_PROCID="x"`,
		},
		{"rank beyond", map[string]string{"RANK": "4", "WORLD_SIZE": "4"}, "rank 4 of 4"},
		{"negative", map[string]string{"RANK": "-1", "WORLD_SIZE": "4"}, "rank -1"},
		{"huge", map[string]string{"RANK": "1", "WORLD_SIZE": "99999999"}, "ranks: want"},
		{"alone", map[string]string{"RANK": "0", "WORLD_SIZE": "1"}, "only one rank"},
		{"no rendezvous", map[string]string{"RANK": "1", "WORLD_SIZE": "4"}, "--coordinator"},
		{"no number of pods", map[string]string{"JOB_COMPLETION_INDEX": "0"}, "set GOBW_RANKS"},
		{"Open MPI without a number", map[string]string{"OMPI_COMM_WORLD_RANK": "0"}, `OMPI_COMM_WORLD_SIZE=""`},
		{
			"host list", map[string]string{
				"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NODELIST": "n[1-",
			}, `SLURM_STEP_NODELIST: host list "n[1-": "]" is missing`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Discover("", func(k string) string { return tt.env[k] })
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	for set, want := range map[string]string{
		"":           "no launcher started this process",
		"RANK":       "no launcher started this process (RANK is set, WORLD_SIZE is not)",
		"WORLD_SIZE": "no launcher started this process (WORLD_SIZE is set, RANK is not)",
		"GOBW_RANKS": "no launcher started this process (GOBW_RANKS is set, JOB_COMPLETION_INDEX is not)",
	} {
		if _, err := Discover("", func(k string) string { return plain.When(k == set, "4") }); !errors.Is(err, ErrAlone) ||
			err.Error() != want {
			t.Errorf("only %q set: %v, want %q", set, err, want)
		}
	}
}

package fabric

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var none = RankFlags{Rank: -1}

func TestDiscover(t *testing.T) {
	slurm := map[string]string{
		"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_NTASKS": "4",
		"SLURM_STEP_NODELIST": "node[1,3-4]", "SLURM_JOB_NODELIST": "node[1-4]", "SLURMD_NODENAME": "node4", "SLURM_CLUSTER_NAME": "lab",
		"SLURM_TOPOLOGY_ADDR": "spine.leaf2.node4", "SLURM_STEP_RESV_PORTS": "12001-12002",
	}
	with := func(env map[string]string, more ...string) map[string]string {
		out := maps.Clone(env)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	inStep := Identity{
		Rank: 2, Size: 3, Source: "Slurm step 7.0", Job: "lab.7.0", Rendezvous: []string{"node1", "node3", "node4"}, Hosts: []string{"node1", "node3", "node4"}, Host: "node4", Leaf: "spine.leaf2", Port: 12001,
	}
	inside := []string{"node1", "node3", "node4"}
	for _, tt := range []struct {
		name  string
		flags RankFlags
		env   map[string]string
		hosts []string
		want  Identity
	}{
		{"srun --mpi=pmi2", none, with(slurm, "PMI_RANK", "2", "PMI_SIZE", "3", "PMI_JOBID", "7.0", "PMI_FD", "9"), nil, inStep},
		{"srun --mpi=pmix", none, with(slurm, "PMIX_RANK", "2", "PMIX_NAMESPACE", "slurm.pmix.7.0"), nil, inStep},
		{"PMI of the same size that does not name its job", none, with(slurm, "PMI_RANK", "1", "PMI_SIZE", "3"), nil, inStep},
		{"srun, and a stale RANK and WORLD_SIZE", none, with(slurm, "RANK", "0", "WORLD_SIZE", "1", "MASTER_ADDR", "m"), nil, inStep},
		{"mpirun, whose daemon srun started", none, with(slurm, "SLURM_PROCID", "0", "OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "4",
			"OMPI_MCA_ess_base_jobid", "99", "OMPI_MCA_orte_hnp_uri", "3.0;tcp://10.0.0.1:4711"), nil, Identity{
			Rank: 3, Size: 4, Source: "Open MPI, inside Slurm step 7.0", Job: "99", Rendezvous: []string{"10.0.0.1"},
		}},
		{"hydra, whose proxy srun started", none, with(slurm, "PMI_RANK", "5", "PMI_SIZE", "6"), nil, Identity{
			Rank: 5, Size: 6, Source: "PMI, inside Slurm step 7.0", Rendezvous: inside,
		}},
		{"PMI of another job of Slurm", none, with(slurm, "PMI_RANK", "1", "PMI_SIZE", "3", "PMI_JOBID", "70.0"), nil, Identity{
			Rank: 1, Size: 3, Source: "PMI, inside Slurm step 7.0", Job: "70.0", Rendezvous: inside,
		}},
		{"PMIx of another launcher, in a step", RankFlags{Rank: -1, Size: 4}, with(slurm, "PMIX_RANK", "3", "PMIX_NAMESPACE", "prterun-1"), nil, Identity{
			Rank: 3, Size: 4, Source: "PMIx, inside Slurm step 7.0", Job: "prterun-1", Rendezvous: inside,
		}},
		{"PMIx", none, map[string]string{"PMIX_RANK": "1", "PMIX_NAMESPACE": "n", "GOBW_RANKS": "2"}, []string{"a", "b"}, Identity{
			Rank: 1, Size: 2, Source: "PMIx", Job: "n", Rendezvous: []string{"a", "b"},
		}},
		{"Open MPI over PMIx: it says how many", none, map[string]string{"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "1"}, []string{"a"}, Identity{
			Rank: 1, Size: 2, Source: "Open MPI", Rendezvous: []string{"a"},
		}},
		{"mpirun in a pod of an Indexed Job", none, map[string]string{
			"JOB_COMPLETION_INDEX": "0", "HOSTNAME": "fab-0", "GOBW_RANKS": "2", "GOBW_COORDINATOR": "fab-0.fab", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "8",
		}, nil, Identity{Rank: 1, Size: 8, Source: "Open MPI, inside Kubernetes Indexed Job", Rendezvous: []string{"fab-0.fab"}}},
		{"mpirun in a batch script", none, map[string]string{"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_NTASKS": "3", "OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2"}, nil, Identity{
			Rank: 0, Size: 2, Source: "Open MPI",
		}},
		{"flags before Open MPI", RankFlags{Rank: 1, Size: 2}, map[string]string{"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "9"}, []string{"a"}, Identity{
			Rank: 1, Size: 2, Source: "--rank", Rendezvous: []string{"a"},
		}},
		{"Slurm step", none, slurm, nil, inStep},
		{"flags first", RankFlags{Rank: 1, Size: 2, Coordinator: "h:1"}, slurm, nil, Identity{Rank: 1, Size: 2, Source: "--rank", Rendezvous: []string{"h:1"}}},
		{"Kubernetes", RankFlags{Rank: -1, Size: 4, Coordinator: "fab-0.svc"}, map[string]string{"JOB_COMPLETION_INDEX": "3", "HOSTNAME": "fab-3"}, nil, Identity{
			Rank: 3, Size: 4, Source: "Kubernetes Indexed Job", Job: "fab", Rendezvous: []string{"fab-0.svc"},
		}},
		{"Kubernetes, by environment", none, map[string]string{"JOB_COMPLETION_INDEX": "0", "HOSTNAME": "a-b-0", "GOBW_RANKS": "2", "GOBW_COORDINATOR": "a-b-0.s"}, nil, Identity{
			Rank: 0, Size: 2, Source: "Kubernetes Indexed Job", Job: "a-b", Rendezvous: []string{"a-b-0.s"},
		}},
		{"mpirun", none, map[string]string{
			"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_MCA_orte_hnp_uri": "3.0;tcp://10.0.0.1,10.1.0.1:4711;ud://x", "OMPI_MCA_ess_base_jobid": "99",
		}, nil, Identity{Rank: 1, Size: 4, Source: "Open MPI", Job: "99", Rendezvous: []string{"10.0.0.1", "10.1.0.1"}}},
		{"PMI with a host file", none, map[string]string{"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_JOBID": "k"}, []string{"a", "b"}, Identity{
			Rank: 1, Size: 2, Source: "PMI", Job: "k", Rendezvous: []string{"a", "b"},
		}},
		{"torchrun", none, map[string]string{"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "m", "MASTER_PORT": "1"}, nil, Identity{
			Rank: 1, Size: 2, Source: "RANK and WORLD_SIZE", Rendezvous: []string{"m"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Discover(tt.flags, func(k string) string { return tt.env[k] }, tt.hosts)
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
		{"batch step with a number", map[string]string{"SLURM_JOB_ID": "7", "SLURM_PROCID": "0", "SLURM_STEP_ID": "4294967291"}, "srun -K gobw fabric"},
		{"a number that is none", map[string]string{"SLURM_STEP_ID": "0", "SLURM_PROCID": "x", "SLURM_STEP_NUM_TASKS": "3"}, `SLURM_PROCID="x"`},
		{"rank beyond", map[string]string{"PMI_RANK": "4", "PMI_SIZE": "4"}, "rank 4 of 4"},
		{"negative", map[string]string{"PMI_RANK": "-1", "PMI_SIZE": "4"}, "rank -1"},
		{"huge", map[string]string{"PMI_RANK": "1", "PMI_SIZE": "99999999"}, "ranks: want"},
		{"alone", map[string]string{"PMI_RANK": "0", "PMI_SIZE": "1"}, "one rank alone"},
		{"no rendezvous", map[string]string{"PMI_RANK": "1", "PMI_SIZE": "4"}, "--coordinator"},
		{"no number of pods", map[string]string{"JOB_COMPLETION_INDEX": "0"}, "--ranks N"},
		{"PMIx without a number", map[string]string{"PMIX_RANK": "0"}, "give --ranks N"},
		{"PMI without a number", map[string]string{"PMI_RANK": "0"}, `PMI_SIZE=""`},
		{"host list", map[string]string{"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NODELIST": "n[1-"}, "without ]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Discover(none, func(k string) string { return tt.env[k] }, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Discover(none, func(string) string { return "" }, nil); !errors.Is(err, ErrAlone) {
		t.Errorf("an empty environment: %v", err)
	}
}

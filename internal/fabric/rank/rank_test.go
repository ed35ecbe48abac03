package rank

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var none = Flags{Rank: -1}

func TestDiscover(t *testing.T) {
	slurm := map[string]string{
		"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "3", "SLURM_NTASKS": "4",
		"SLURM_STEP_NODELIST": "node[1,3-4]", "SLURM_JOB_NODELIST": "node[1-4]", "SLURMD_NODENAME": "node4", "SLURM_CLUSTER_NAME": "lab",
		"SLURM_TOPOLOGY_ADDR": "spine.leaf2.node4", "SLURM_STEP_RESV_PORTS": "12001-12002",
	}
	for _, tt := range []struct {
		name  string
		flags Flags
		env   map[string]string
		hosts []string
		want  Identity
	}{
		{"Slurm step", none, slurm, nil, Identity{
			Rank: 2, Size: 3, Source: "Slurm step 7.0", Job: "lab.7.0", Rendezvous: []string{"node1", "node3", "node4"}, Host: "node4", Leaf: "spine.leaf2", Port: 12001,
		}},
		{"flags first", Flags{Rank: 1, Size: 2, Coordinator: "h:1"}, slurm, nil, Identity{Rank: 1, Size: 2, Source: "--rank", Rendezvous: []string{"h:1"}}},
		{"Kubernetes", Flags{Rank: -1, Size: 4, Coordinator: "fab-0.svc"}, map[string]string{"JOB_COMPLETION_INDEX": "3", "HOSTNAME": "fab-3"}, nil, Identity{
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

package launch

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// Identity is this process's part in a test of many hosts.
type Identity struct {
	Rank, Size int
	Source     string   // what said so: "Slurm step 7.0"
	Job        string   // the same at all ranks of a run, and at no other's; empty: unknown
	Rendezvous []string // where rank 0 may be, the likeliest first: host or host:port
	Hosts      []string // all hosts of the run, where the launcher tells; in no order of ranks
	Host       string   // what the launcher calls this host; empty: ask the system
	Leaf       string   // leaf switch, where the launcher tells
}

// mostRanks bounds a test.
const mostRanks = 1 << 16

// ErrAlone says that nothing told this process of others.
var ErrAlone = errors.New("no launcher started this process")

// Discover finds this process's rank: Open MPI says it, a Slurm step, a Kubernetes Indexed Job, or RANK and
// WORLD_SIZE. An mpirun that was itself started in a Slurm step or a pod (in an allocation it starts its
// daemons by srun) has set its own variables beside those that its daemon inherited: its own count.
// coordinator, if it is not empty, says where rank 0 is.
func Discover(coordinator string, env func(string) string) (Identity, error) {
	e := environment{get: env}
	id, err := e.identify()
	if err != nil {
		return Identity{}, err
	}
	if coordinator != "" {
		id.Rendezvous = []string{coordinator}
	}
	return id, id.check()
}

func (id Identity) check() error {
	switch {
	case id.Size < 1 || id.Size > mostRanks:
		return fmt.Errorf("%s: %d ranks: want 2 to %d", id.Source, id.Size, mostRanks)
	case id.Rank < 0 || id.Rank >= id.Size:
		return fmt.Errorf("%s: rank %d of %d does not exist", id.Source, id.Rank, id.Size)
	case id.Size == 1:
		return fmt.Errorf("%s: only one rank: a fabric test needs two hosts or more (srun -N2 ...)", id.Source)
	case id.Rank > 0 && len(id.Rendezvous) == 0:
		return fmt.Errorf("%s: nothing says where rank 0 is: give --coordinator HOST[:PORT]", id.Source)
	}
	return nil
}

type environment struct {
	get func(string) string
	err error
}

// number reads a variable that must be a number.
func (e *environment) number(name string) int {
	n, err := strconv.Atoi(e.get(name))
	switch {
	case err == nil || e.err != nil:
	case name == ranksVariable && e.get(name) == "":
		e.err = fmt.Errorf("the launcher does not say how many ranks there are: set %s", name)
	default:
		e.err = fmt.Errorf("environment: %s=%q: want a number", name, e.get(name))
	}
	return n
}

// ranksVariable is the number of ranks where the launcher does not tell.
const ranksVariable = "GOBW_RANKS"

func (e *environment) identify() (id Identity, err error) {
	switch step := e.get("SLURM_STEP_ID"); {
	case step != "" && !batchStep(step):
		if id, err = e.slurm(); err != nil {
			return id, err
		}
	case e.get("JOB_COMPLETION_INDEX") != "":
		id = e.told("Kubernetes Indexed Job", "JOB_COMPLETION_INDEX", ranksVariable)
		id.Job, id.Rendezvous = before(e.get("HOSTNAME"), "-"), strings.Fields(e.get("GOBW_COORDINATOR"))
	}
	switch {
	case e.get("OMPI_COMM_WORLD_RANK") != "":
		mpi := e.told("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")
		mpi.Source += plain.When(id.Source != "", ", inside %s", id.Source)
		mpi.Job, mpi.Rendezvous = e.get("OMPI_MCA_ess_base_jobid"), id.Rendezvous
		if at := whereMPIRunRuns(e.get("OMPI_MCA_orte_hnp_uri")); len(at) > 0 {
			mpi.Rendezvous = at
		}
		id = mpi
	case id.Source != "":
	case e.get("RANK") != "" && e.get("WORLD_SIZE") != "":
		id = e.told("RANK and WORLD_SIZE", "RANK", "WORLD_SIZE")
		id.Rendezvous = strings.Fields(e.get("MASTER_ADDR"))
	case e.get("SLURM_JOB_ID") != "":
		return id, fmt.Errorf("inside Slurm job %s but not in a job step: start it as 'srun -K gobw fabric'",
			e.get("SLURM_JOB_ID"))
	default:
		for _, pair := range [][2]string{
			{"RANK", "WORLD_SIZE"}, {"WORLD_SIZE", "RANK"}, {ranksVariable, "JOB_COMPLETION_INDEX"},
		} {
			if e.get(pair[0]) != "" {
				return id, fmt.Errorf("%w (%s is set, %s is not)", ErrAlone, pair[0], pair[1])
			}
		}
		return id, ErrAlone
	}
	return id, e.err
}

// told is the rank and the number of ranks, by the variables of a launcher.
func (e *environment) told(source, rank, size string) Identity {
	return Identity{Source: source, Rank: e.number(rank), Size: e.number(size)}
}

// batchStep tells the step of a batch script, which newer Slurms number, from one that srun made: the numbers of the
// batch, external and interactive steps are the highest.
func batchStep(step string) bool {
	n, err := strconv.ParseUint(step, 10, 64)
	return err == nil && n >= 0xffff_fff0
}

func (e *environment) slurm() (Identity, error) {
	job, step := e.get("SLURM_JOB_ID"), e.get("SLURM_STEP_ID")
	id := e.told(fmt.Sprintf("Slurm step %s.%s", job, step), "SLURM_PROCID", "SLURM_STEP_NUM_TASKS")
	id.Job = strings.Join([]string{e.get("SLURM_CLUSTER_NAME"), job, step}, ".")
	id.Host, id.Leaf = e.get("SLURMD_NODENAME"), before(e.get("SLURM_TOPOLOGY_ADDR"), ".")
	hosts, err := ExpandHosts(e.get("SLURM_STEP_NODELIST"))
	if err != nil {
		return id, fmt.Errorf("SLURM_STEP_NODELIST: %w", err)
	}
	// Rank 0 is on the first host, but with an arbitrary distribution (-m arbitrary)
	// on any: the others are tried after it.
	id.Rendezvous, id.Hosts = hosts, hosts
	return id, nil
}

// before is what stands before the last separator: of a pod's host name the Job's, of a SLURM_TOPOLOGY_ADDR such as
// "spine.leaf2.node5" the leaf. It is empty where there is no separator.
func before(name, separator string) string { return name[:max(strings.LastIndex(name, separator), 0)] }

// whereMPIRunRuns are the addresses in Open MPI's "123.0;tcp://10.0.0.1,192.168.0.1:4711": rank 0 is
// there unless the host list says otherwise.
func whereMPIRunRuns(uri string) []string {
	_, after, _ := strings.Cut(uri, "tcp://")
	addresses, _, _ := strings.Cut(after, ":")
	return strings.FieldsFunc(addresses, func(r rune) bool { return r == ',' })
}

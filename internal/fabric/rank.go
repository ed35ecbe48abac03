package fabric

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
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
	Port       int      // a port that the launcher reserved for this job; 0: none
}

// mostRanks bounds a test.
const mostRanks = 1 << 16

// ErrAlone says that nothing told this process of others.
var ErrAlone = errors.New("no launcher started this process")

// Discover finds this process's rank in the order: Slurm step, Kubernetes Indexed Job, Open MPI, PMI, PMIx, torchrun.
// A launcher that was itself started in a Slurm step or a pod (mpirun in an allocation starts its daemons by srun) has set
// its own variables beside those that its daemon inherited: its own count. coordinator, if it is not empty, says where rank 0 is.
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

// launcher is what starts ranks, and the variables in which it tells them of each other.
type launcher struct{ name, rank, size, job, place string }

// mpi are the launchers of MPI. Open MPI, which says most, also sets what others do.
func mpi() []launcher {
	return []launcher{
		{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"},
		{"PMI", "PMI_RANK", "PMI_SIZE", "PMI_JOBID", ""},
		{"PMIx", "PMIX_RANK", ranksVariable, "PMIX_NAMESPACE", ""},
	}
}

// told is what a launcher says.
func (e *environment) told(l launcher) Identity {
	id := Identity{Source: l.name, Rank: e.number(l.rank), Size: e.number(l.size), Job: e.get(l.job)}
	switch place := e.get(l.place); {
	case strings.Contains(place, "://"):
		id.Rendezvous = launcherOfOpenMPI(place)
	case place != "":
		id.Rendezvous = []string{place}
	}
	return id
}

func (e *environment) identify() (outer Identity, err error) {
	switch step := e.get("SLURM_STEP_ID"); {
	case step != "" && !batchStep(step):
		if outer, err = e.slurm(); err != nil {
			return outer, err
		}
	case e.get("JOB_COMPLETION_INDEX") != "":
		outer = e.told(launcher{"Kubernetes Indexed Job", "JOB_COMPLETION_INDEX", ranksVariable, "HOSTNAME", "GOBW_COORDINATOR"})
		outer.Job = before(outer.Job, "-")
	}
	for _, l := range mpi() {
		if e.get(l.rank) == "" || e.ofSlurm(outer) {
			continue
		}
		id := e.told(l)
		if outer.Source != "" {
			id.Source += ", inside " + outer.Source
			if len(id.Rendezvous) == 0 {
				id.Rendezvous = outer.Rendezvous
			}
		}
		return id, e.err
	}
	switch {
	case outer.Source != "":
		return outer, e.err
	case e.get("RANK") != "" && e.get("WORLD_SIZE") != "":
		return e.told(launcher{"RANK and WORLD_SIZE", "RANK", "WORLD_SIZE", "", "MASTER_ADDR"}), e.err
	case e.get("SLURM_JOB_ID") != "":
		return outer, fmt.Errorf("inside Slurm job %s but not in a job step: start it as 'srun -K gobw fabric'", e.get("SLURM_JOB_ID"))
	}
	return outer, ErrAlone
}

// slurmPMIx begins the namespaces of 'srun --mpi=pmix': slurm.pmix.JOB.STEP.
const slurmPMIx = "slurm.pmix."

// ofSlurm tells whether the variables of PMI or PMIx are those that the Slurm step has set itself ('srun --mpi=pmi2', pmix),
// so that Slurm, which knows the hosts, too, may be asked alone. All ranks of a run come to the same answer.
func (e *environment) ofSlurm(step Identity) bool {
	job := e.get("SLURM_JOB_ID")
	switch {
	case step.Source == "" || job == "" || e.get("OMPI_COMM_WORLD_RANK") != "": // which srun never sets
		return false
	case e.get("PMI_RANK") == "":
		return strings.HasPrefix(e.get("PMIX_NAMESPACE"), slurmPMIx)
	case e.get("PMI_JOBID") == "":
		return e.get("PMI_SIZE") == strconv.Itoa(step.Size)
	}
	return e.get("PMI_JOBID") == job || strings.HasPrefix(e.get("PMI_JOBID"), job+".")
}

// batchStep tells the step of a batch script, which newer Slurms number, from one that srun made: the numbers of the batch,
// external and interactive steps are the highest.
func batchStep(step string) bool {
	n, err := strconv.ParseUint(step, 10, 64)
	return err == nil && n >= 0xffff_fff0
}

func (e *environment) slurm() (Identity, error) {
	job, step := e.get("SLURM_JOB_ID"), e.get("SLURM_STEP_ID")
	id := Identity{
		Source: fmt.Sprintf("Slurm step %s.%s", job, step), Job: strings.Join([]string{e.get("SLURM_CLUSTER_NAME"), job, step}, "."),
		Rank: e.number("SLURM_PROCID"), Host: e.get("SLURMD_NODENAME"), Leaf: before(e.get("SLURM_TOPOLOGY_ADDR"), "."),
	}
	size := "SLURM_STEP_NUM_TASKS"
	if e.get(size) == "" {
		size = "SLURM_NTASKS"
	}
	id.Size = e.number(size)
	list := e.get("SLURM_STEP_NODELIST")
	if list == "" {
		list = e.get("SLURM_JOB_NODELIST")
	}
	hosts, err := ExpandHosts(list)
	if err != nil {
		return id, fmt.Errorf("SLURM_STEP_NODELIST: %w", err)
	}
	// Rank 0 is on the first host, but with an arbitrary distribution (-m arbitrary) on any: the others are tried after it.
	id.Rendezvous, id.Hosts = hosts, hosts
	if ports := e.get("SLURM_STEP_RESV_PORTS"); ports != "" {
		first, _, _ := strings.Cut(ports, "-")
		first, _, _ = strings.Cut(first, ",")
		if n, err := strconv.ParseUint(first, 10, 16); err == nil {
			id.Port = int(n)
		}
	}
	return id, nil
}

// before is what stands before the last separator: of a pod's host name the Job's, of a SLURM_TOPOLOGY_ADDR such as
// "spine.leaf2.node5" the leaf. It is empty where there is no separator.
func before(name, separator string) string { return name[:max(strings.LastIndex(name, separator), 0)] }

// launcherOfOpenMPI are the addresses in "123.0;tcp://10.0.0.1,192.168.0.1:4711": where mpirun runs, which is where rank 0
// is unless the host list says otherwise.
func launcherOfOpenMPI(uri string) []string {
	var out []string
	for part := range strings.SplitSeq(uri, ";") {
		rest, isTCP := strings.CutPrefix(strings.TrimSpace(part), "tcp://")
		if !isTCP {
			continue
		}
		if i := strings.LastIndexByte(rest, ':'); i > 0 {
			rest = rest[:i]
		}
		for a := range strings.SplitSeq(rest, ",") {
			if net.ParseIP(a) != nil && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// Package launch reads from what started this process which rank of which run it is: Slurm, mpirun, Kubernetes,
// or a list of hosts that the user gave.
package launch

// Package fabric is what the processes that test the paths between many hosts say to each other: rank 0 to its agents,
// and an agent to the workers that measure for it. Each process has a package of its own.
package fabric

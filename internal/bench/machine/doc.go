// Package machine is the host as a measurement needs it: which CPUs its threads run on, what disturbed them
// meanwhile, and what the host is called in a result.
package machine

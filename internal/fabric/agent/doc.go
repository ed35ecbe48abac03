// Package agent is one rank's part in a fabric test: it finds rank 0, proves that it belongs to the run, and lets worker
// processes measure what it is told to. It keeps talking to rank 0 while they do.
package agent

// Package agent is one host's part in a run. It finds rank 0, passes on its orders to the processes that measure, one
// for each device, and ends when rank 0 does.
package agent

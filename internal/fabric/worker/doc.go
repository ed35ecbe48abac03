// Package worker measures on one device what rank 0 orders. It is a process of its own,
// which reads orders and writes answers.
package worker

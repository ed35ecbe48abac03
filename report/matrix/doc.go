// Package matrix is the outcome of a test between many hosts: who sent to whom and how fast, and which hosts and paths
// are bad.
package matrix

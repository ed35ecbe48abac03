// Package stats is the statistics of repeated measurements: medians, intervals, rank tests.
package stats

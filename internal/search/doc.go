// Package search looks for settings of a test: the best ones, sizes that fall below their neighbours, and combinations that are
// slow where nothing in them is. It knows no RDMA: it asks a [Meter] for the figures of points of a [Space].
package search

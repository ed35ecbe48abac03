// Package report turns results into tables, files and pictures; it knows nothing of RDMA. A [Document] is what a run
// leaves behind; renderers write it, comparisons and gates judge it.
package report

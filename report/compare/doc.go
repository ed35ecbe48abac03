// Package compare tells whether two sets of results differ.
package compare

// Package render writes results: a file for each format, and pictures.
package render

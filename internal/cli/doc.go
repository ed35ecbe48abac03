// Package cli is the root of the programs' commands, and the only place where signals are handled. Each command has a
// package of its own below: flags, config, run.
package cli

// Package cli turns command lines into validated configurations and results into output, exit codes and files. Each
// command is one file: flags, config, run. Signals are handled here and nowhere else.
package cli

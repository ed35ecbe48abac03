// Command build compiles the libibverbs of the tests into a folder.
package main

import (
	"fmt"
	"os"

	"github.com/gobw/gobw/scripts/fakeverbs"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: build DIR")
		os.Exit(2) //nolint:forbidigo // this is a main
	}
	if _, err := fakeverbs.Build(os.Args[1], nil); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // this is a main
	}
}

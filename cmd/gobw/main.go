// Command gobw measures RDMA bandwidth and message rate.
package main

import (
	"os"

	"github.com/gobw/gobw/internal/cli"
	"github.com/gobw/gobw/internal/cli/output"
)

func main() { os.Exit(cli.Main(os.Args, output.StandardStreams())) }

// Command gobw measures RDMA bandwidth and message rate.
package main

import (
	"os"

	"github.com/gobw/gobw/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args, cli.StandardStreams())) }

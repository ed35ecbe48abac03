// Command golat measures RDMA latency.
package main

import (
	"os"

	"github.com/gobw/gobw/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args, cli.StandardStreams())) }

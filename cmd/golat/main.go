// Command golat measures RDMA latency.
package main

import (
	"os"

	"github.com/gobw/gobw/internal/cli"
	"github.com/gobw/gobw/internal/cli/output"
)

func main() { os.Exit(cli.Main(os.Args, output.StandardStreams())) }

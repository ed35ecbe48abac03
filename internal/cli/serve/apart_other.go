//go:build !linux

package serve

import (
	"net"
	"os"
)

// canHandOver: elsewhere a test runs in the server's own process.
const canHandOver = false

func notifyStatus(chan<- os.Signal) {}

func hasLeft(net.Conn) bool { return false }

func unblock(net.Conn) {}

func boundProcess(uint64) {}

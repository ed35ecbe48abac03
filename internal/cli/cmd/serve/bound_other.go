//go:build !linux

package serve

import (
	"errors"
	"net"
	"os"
)

// Outside Linux a test runs in the server's own process.
func descriptorOf(net.Conn) (*os.File, error) { return nil, errors.ErrUnsupported }

func boundProcess(uint64) error { return errors.ErrUnsupported }

func grantMemory() error { return nil }

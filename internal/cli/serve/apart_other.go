//go:build !linux

package serve

import (
	"errors"
	"net"
	"os"
	"time"
)

// canHandOver: elsewhere a test runs in the server's own process.
const canHandOver = false

func socketPair() (*net.UnixConn, *os.File, error) { return nil, nil, errors.ErrUnsupported }

func unixConn(*os.File) (*net.UnixConn, error) { return nil, errors.ErrUnsupported }

type passing struct {
	*net.UnixConn
	conn net.Conn
}

type withFile struct{ *net.UnixConn }

func (*withFile) conn() (net.Conn, error) { return nil, errors.ErrUnsupported }

func boundProcess(uint64) error { return errors.ErrUnsupported }

func boundMemory(uint64) error { return nil }

func cpuTime(int) time.Duration { return 0 }

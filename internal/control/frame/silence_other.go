//go:build !linux

package frame

import (
	"net"
	"time"
)

func boundHost(net.Conn, time.Duration) {}

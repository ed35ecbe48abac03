//go:build !linux

package frame

import (
	"net"
	"time"
)

func hostOf(net.Conn, time.Duration) hostLife { return hostUnknown }

func unread(net.Conn) bool { return false }

// Closed is not known here.
func Closed(net.Conn) bool { return false }

//go:build !linux

package roce

import "runtime"

func yieldProcessor() { runtime.Gosched() }

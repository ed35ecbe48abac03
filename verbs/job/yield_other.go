//go:build !linux

package job

import "runtime"

// YieldProcessor lets other threads run here.
func YieldProcessor() { runtime.Gosched() } //nolint:forbidigo // there is no other way on this system

//go:build !linux

package roce

func pinThread(int) func() { return func() {} }

//go:build linux && cgo

// Command libibverbs is the device behind a libibverbs.so.1 of ours, built with -buildmode=c-shared. The library that
// programs see is in shim, in C; it loads this one when a program opens the device.
package main

// #cgo CFLAGS: -I${SRCDIR}/../ibv
// #include "abi.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"

	"github.com/gobw/gobw/verbs"
)

func main() {}

// gobwReady returns once the runtime has started. A program's threads come and go by themselves: there are processors
// of the runtime's for more of them than the machine has.
//
//export gobwReady
func gobwReady() C.int {
	runtime.GOMAXPROCS(runtime.NumCPU() + 4)
	return 0
}

// gobwMakeRoom makes the stack of this thread's calls so large that the program's signal handlers run on it: one that
// was not set with SA_ONSTACK interrupts a call on the stack of that call.
//
//export gobwMakeRoom
func gobwMakeRoom() C.int {
	var room [96 << 10]byte
	return C.int(room[complaints.Load()&1])
}

// complaints is how many refused calls are still to be told on stderr. Some programs try what they may not.
var complaints atomic.Int32 //nolint:gochecknoglobals // one process, one stderr

const mostComplaints = 20

// errno tells a program why a call was refused: the number, and the sentence on stderr.
func errno(call string, err error) C.int {
	if err == nil {
		return 0
	}
	switch n := complaints.Add(1); {
	case n <= mostComplaints:
		fmt.Fprintf(os.Stderr, "gobw: %s: %v\n", call, err)
		if remedy := verbs.RemedyOf(err); remedy != "" {
			fmt.Fprintf(os.Stderr, "gobw: %s\n", remedy)
		}
	case n == mostComplaints+1:
		fmt.Fprintln(os.Stderr, "gobw: further refused calls are not told")
	}
	return code(err)
}

func code(err error) C.int {
	var number syscall.Errno
	switch {
	case errors.As(err, &number):
		return C.int(number)
	case errors.Is(err, verbs.ErrQueueFull):
		return C.int(syscall.ENOMEM)
	case errors.Is(err, verbs.ErrBusy):
		return C.int(syscall.EBUSY)
	case errors.Is(err, verbs.ErrUnsupported):
		return C.int(syscall.EOPNOTSUPP)
	default:
		return C.int(syscall.EINVAL)
	}
}

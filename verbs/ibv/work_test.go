//go:build linux && cgo

package ibv

import (
	"testing"
	"unsafe"

	"github.com/gobw/gobw/verbs/job"
)

// TestWorkKeepsItsKernel guards against a kernel that is lost between Go and C: a job would then send what was never
// packed.
func TestWorkKeepsItsKernel(t *testing.T) {
	var arg int
	c, err := cWork(job.Work{C: 0x1234, Arg: unsafe.Pointer(&arg)})
	if err != nil {
		t.Fatal(err)
	}
	if c.run != 0x1234 || c.arg != unsafe.Pointer(&arg) {
		t.Errorf("got kernel %#x and argument %p, want 0x1234 and %p", c.run, c.arg, &arg)
	}
	if _, err := cWork(job.Work{Go: func(unsafe.Pointer) {}}); err == nil {
		t.Error("a kernel in Go was accepted")
	}
}

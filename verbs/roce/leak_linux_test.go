package roce_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/gobw/gobw/verbs/roce"
	"github.com/gobw/gobw/verbs/verbstest"
)

// TestCloseLeavesNothing opens and closes devices: no descriptor and no goroutine stays behind.
func TestCloseLeavesNothing(t *testing.T) {
	descriptors := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	cycle := func() {
		d, err := roce.New(roce.Options{Address: verbstest.Address()}).Open(roce.DeviceName)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	cycle() // whatever the first one initializes stays
	files, routines := descriptors(), runtime.NumGoroutine()
	for range 20 {
		cycle()
	}
	for deadline := time.Now().Add(time.Minute); runtime.NumGoroutine() > routines && time.Now().Before(deadline); {
		runtime.Gosched() //nolint:forbidigo // it waits, and measures nothing
	}
	if now := runtime.NumGoroutine(); now > routines {
		t.Errorf("%d goroutines after 20 devices, %d before", now, routines)
	}
	if now := descriptors(); now > files {
		t.Errorf("%d descriptors after 20 devices, %d before", now, files)
	}
}

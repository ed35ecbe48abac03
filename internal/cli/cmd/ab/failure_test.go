package ab

import (
	"os/exec"
	"testing"

	"github.com/gobw/gobw/internal/cli/exit"
)

// TestFailureCode: a test of ours that fails has its own exit code. That of a stock perftest, 1, would be read as a
// missed expectation.
func TestFailureCode(t *testing.T) {
	failed := exec.Command("sh", "-c", "exit 1").Run()
	for _, tt := range []struct {
		side side
		want int
	}{
		{side{line: "write alpha"}, 1},
		{side{line: "perftest:ib_write_bw alpha", stock: true}, exit.Failed},
	} {
		if got := exit.Code(tt.side.failure(failed, "no device")); got != tt.want {
			t.Errorf("%q: exit code %d, want %d", tt.side.line, got, tt.want)
		}
	}
}

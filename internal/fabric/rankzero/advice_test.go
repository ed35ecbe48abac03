package rankzero

import (
	"strings"
	"testing"

	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/stats"
)

// A host that is not connected is told what to look at, also where no other host can test it.
func TestNotConnectedAdvice(t *testing.T) {
	f := matrix.Finding{Subject: matrix.WholeOf, From: 2, To: 2, Verdict: stats.Failure(matrix.NotConnected, "", "")}
	(&coordinator{}).explain(&matrix.Matrix{}, &f)
	if !strings.HasPrefix(f.Settle, "run 'gobw doctor' there. Look for a firewall") || strings.Contains(f.Settle, "Then") {
		t.Errorf("the advice is %q", f.Settle)
	}
}

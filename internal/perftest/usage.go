package perftest

import (
	"fmt"
	"strings"

	"github.com/gobw/gobw/internal/control"
)

// DefaultVersion is the perftest version that we advertise: it talks to every perftest but 6.28.
const DefaultVersion = "6.27"

// AdvertisedVersion is the version that the peer is told.
func (v *Invocation) AdvertisedVersion() string {
	if v.PerftestVersion != "" {
		return v.PerftestVersion
	}
	return DefaultVersion
}

// Usage is the tool's help: every option that it takes.
func Usage(tool Tool) string {
	what := "bandwidth"
	if tool.Kind == control.Latency {
		what = "latency"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s            start a server and wait for a connection\n  %s <host>     connect to the server at <host>\n\n"+
		"Measures the %s of %s. Options (as in perftest; gobw and golat have more, and say what each does):\n",
		tool.Name, tool.Name, what, tool.Operation)
	for _, f := range flags() {
		if f.set == nil || f.kind != "" && f.kind != tool.Kind || f.verbs != "" && !strings.Contains(f.verbs, string(tool.Operation[0])) {
			continue
		}
		short := "    "
		if f.short != 0 {
			short = fmt.Sprintf("-%c, ", f.short)
		}
		value := ""
		if f.value {
			value = "=<value>"
		}
		fmt.Fprintf(&b, "  %s--%s%s\n", short, f.long, value)
	}
	return b.String()
}

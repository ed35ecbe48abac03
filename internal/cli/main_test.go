package cli

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gobw/gobw/internal/cli/output"
)

// TestMain lets the test binary be gobw and golat for scripts, the other end of --loopback, and the dying end of the
// peer-death table.
func TestMain(m *testing.M) {
	if spec := os.Getenv("GOBW_TEST_VICTIM"); spec != "" {
		os.Exit(victimMain(spec)) //nolint:forbidigo // this is a main
	}
	// A program built with the race detector sleeps for a second before it exits: the tests start hundreds of them.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	main := func(name string) func() {
		return func() {
			os.Exit(Main(append([]string{name}, os.Args[1:]...), output.StandardStreams())) //nolint:forbidigo // this is a main
		}
	}
	if len(os.Args) > 1 && os.Args[1] == "serve" { // the other end of --loopback, which is this program
		main("gobw")()
	}
	testscript.Main(m, map[string]func(){
		"gobw": main("gobw"), "golat": main("golat"),
		"ib_write_bw": main("ib_write_bw"), "ib_send_lat": main("ib_send_lat"),
	})
}

//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTables puts two parts of a matrix together, one of which was ended.
func TestTables(t *testing.T) {
	write := func(name, text string) string {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	first := write("first", `
== perftest: our programs under perftest's names against the stock ones
passed  ib_write_bw RC default, our client, stock 6.29 server: 1.0 s: 1024 B: 1 MiB/s; 1024 B: 1 MiB/s
failed  ib_write_bw RC -q 4, our client, stock 6.29 server: 90.0 s, attempt 3: gobw client: did not end in time (signal: quit): words
failed  ib_send_lat UD -a, our client on roce0, stock 6.29 server: 90.0 s: gobw client: did not end in time (signal: quit): words
lab: killed after 560 s (--timeout); the console's last lines:
`)
	second := write("second", `
passed  ib_write_bw RC -q 4, our client, stock 6.29 server: 2.0 s: 1024 B: 1 MiB/s; 1024 B: 1 MiB/s
passed  ib_atomic_bw RC -e, our client, stock 6.29 server: 2.0 s, attempt 2: 8 B: 1 MiB/s; 8 B: 1 MiB/s
`)
	var out strings.Builder
	if err := tables(&out, []string{first, second}); err != nil {
		t.Fatal(err)
	}
	const want = `
our client, stock 6.29 server: 3 passed
                default  -q 4    -e
ib_write_bw RC       ok    ok     .
ib_atomic_bw RC       .     .    ok

our client on roce0, stock 6.29 server: 0 passed, 1 failed
                  -a
ib_send_lat UD  FAIL

passed  ib_atomic_bw RC -e, our client, stock 6.29 server: 2.0 s, attempt 2: 8 B: 1 MiB/s; 8 B: 1 MiB/s
failed  ib_send_lat UD -a, our client on roce0, stock 6.29 server: 90.0 s: gobw client: did not end in time (signal: quit): words
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if err := tables(&out, []string{write("empty", "")}); err == nil || !strings.Contains(err.Error(), "no cell in") {
		t.Errorf("error %v for a log without cells", err)
	}
}

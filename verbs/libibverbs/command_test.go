//go:build linux && cgo

package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
)

// TestEmulatedNetwork: the command of docs/run.md, stock perftest with datagrams over a
// network that loses some, and its packets.
func TestEmulatedNetwork(t *testing.T) {
	testrun.Need(t, "ib_send_bw")
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(library(t)), filepath.Join(dir, "lib", "gobw")); err != nil {
		t.Fatal(err)
	}
	gobw := filepath.Join(dir, "bin", "gobw")
	if out, err := exec.Command("go", "build", "-o", gobw, "../../cmd/gobw").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	port, packets := freePort(t), filepath.Join(dir, "t.pcap")
	words := strings.Fields(gobw + " run --emulate loss=30%,delay=50us --pcap " + packets +
		" -- ib_send_bw -c UD -D 1 -p " + port)
	server := start(t, words...)
	awaitListener(t, port)
	words[5] = filepath.Join(dir, "client.pcap")
	sent, arrived := messages(t, start(t, append(words, "127.0.0.1")...).pass(t)), messages(t, server.pass(t))
	if arrived == 0 || float64(arrived) > 0.8*float64(sent) {
		t.Errorf("%d of %d messages arrived, of which 30 %% are lost", arrived, sent)
	}
	b, err := os.ReadFile(packets)
	if err != nil || len(b) < arrived*100 || !bytes.Equal(b[:4], binary.NativeEndian.AppendUint32(nil, 0xa1b23c4d)) {
		t.Errorf("%v, %d bytes of packets for %d messages, beginning with %x", err, len(b), arrived, b[:min(4, len(b))])
	}
}

// messages is perftest's second column.
func messages(t *testing.T, out string) int {
	t.Helper()
	row := regexp.MustCompile(`(?m)^ \d+ +(\d+) `).FindStringSubmatch(out)
	if row == nil {
		t.Fatal("no result:\n", out)
	}
	n, err := strconv.Atoi(row[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

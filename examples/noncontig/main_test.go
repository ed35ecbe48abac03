package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain is the program itself where a test starts it again.
func TestMain(m *testing.M) {
	if os.Getenv("PORT") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// both runs the waiting end of a program, and the other one with the words.
func both(t *testing.T, program string, words ...string) (waiting, other []byte, err error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	end := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "PORT="+port)
		return cmd
	}
	served := make(chan []byte, 1)
	go func() {
		out, err := end().CombinedOutput()
		if err != nil {
			out = append(out, "the end that waits: "+err.Error()...)
		}
		served <- out
	}()
	args := append([]string{"127.0.0.1"}, words...)
	other, err = end(args...).CombinedOutput()
	for tries := 0; bytes.Contains(other, []byte("refused")) && tries < 100; tries++ { // it is not listening yet
		<-time.After(20 * time.Millisecond)
		other, err = end(args...).CombinedOutput()
	}
	return <-served, other, err
}

func TestShapes(t *testing.T) {
	for _, shape := range []string{"G-WR", "S-RD", "GSSR"} {
		t.Run(shape, func(t *testing.T) {
			if shape == "GSSR" && testing.Short() {
				t.Skip("each message waits for the other end to be scheduled: slow where CPUs are busy")
			}
			words, want := []string{shape}, []int{16 << 10, 64 << 10, 256 << 10}
			if shape != "G-WR" {
				words, want = append(words, "16384"), want[:1]
			}
			waiting, out, err := both(t, os.Args[0], words...)
			if err != nil || strings.Contains(string(waiting), "the end that waits: ") {
				t.Fatalf("%v\n%s%s", err, out, waiting)
			}
			rows, sizes := 0, []int{}
			for line := range strings.Lines(string(out)) {
				if !strings.HasPrefix(line, "{") {
					rows++
					continue
				}
				var told struct {
					Bytes    int `json:"message_bytes"`
					Verified bool
				}
				if err := json.Unmarshal([]byte(line), &told); err != nil || !told.Verified {
					t.Errorf("%v: %s", err, line)
				}
				sizes = append(sizes, told.Bytes)
			}
			if rows != 1+8*len(want) || !slices.Equal(sizes, want) {
				t.Errorf("%d rows, messages of %d bytes\n%s", rows, sizes, out)
			}
		})
	}
}

// TestGaps: a layout that is written beyond its blocks is not verified, although each byte of the
// message is in its place, and has no figures.
func TestGaps(t *testing.T) {
	dir := t.TempDir() + "/noncontig"
	if err := os.CopyFS(dir, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("layout.go")
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("[i*l.Stride:][:l.Block], contiguous"), []byte("[i*l.Stride:], contiguous"), 1)
	if err := os.WriteFile(dir+"/layout.go", text, 0o600); err != nil {
		t.Fatal(err)
	}
	program := dir + "/program"
	build := exec.Command("go", "build", "-o", program, dir+"/main.go", dir+"/end.go", dir+"/layout.go")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	waiting, out, err := both(t, program, "S-RD", "16384")
	said := string(out) + string(waiting)
	if err == nil || !strings.Contains(said, "a byte of the gap behind block 0 was written") ||
		!strings.Contains(said, "    16384       64     256           -          -      -\n") ||
		!strings.Contains(said, `"crossover_bytes":0,"message_bytes":16384,"shape":"S-RD","verified":false`) {
		t.Errorf("%v\n%s", err, said)
	}
}

// TestStarter: what a student gets lacks three parts, builds, and says which part comes next.
func TestStarter(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir+"/noncontig", os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("make", "-C", dir+"/noncontig", "starter").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(dir + "/starter/layout.go")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), "// GAP "); got != 3 || strings.Contains(string(text), "copy(") ||
		strings.Contains(string(text), "append(") {
		t.Errorf("%d gaps, want 3 with nothing in them:\n%s", got, text)
	}
	files := []string{"vet", dir + "/starter/main.go", dir + "/starter/end.go", dir + "/starter/layout.go"}
	if out, err := exec.Command("go", files...).CombinedOutput(); err != nil {
		t.Errorf("the starter does not build: %v\n%s", err, out)
	}
}

//go:build linux && cgo

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gobw/gobw/internal/testrun"
)

// course makes targets of examples/c in a directory of the test.
func course(t *testing.T, targets ...string) string {
	t.Helper()
	testrun.Need(t, "make", "cc")
	const header = "/usr/include/infiniband/verbs.h"
	if _, err := os.Stat(header); err != nil {
		testrun.Missing(t, header)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../../examples/c")); err != nil {
		t.Fatal(err)
	}
	words := append([]string{"-C", dir, "CFLAGS=-O2 -Wall -Wextra -Werror -std=gnu11 -DPATIENCE=60"}, targets...)
	if out, err := exec.Command("make", words...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// TestCourse: the programs of the course run, and say what docs/course.md says. Each broken program fails with
// the sentence that a student must find.
func TestCourse(t *testing.T) {
	dir := course(t, "clean", "all")
	both := func(t *testing.T, words ...string) (server, client string) {
		t.Helper()
		c, s := bothEnds(t, filepath.Join(dir, words[0]), words[1:]...)
		client = c.pass(t)
		return s.pass(t), client
	}
	t.Run("hello_verbs", func(t *testing.T) {
		server, client := both(t, "hello_verbs")
		if !strings.Contains(server, "my memory says: hello verbs") ||
			!strings.Contains(client, "success: WRITE of 12 bytes") {
			t.Errorf("%s\n%s", server, client)
		}
	})
	for program, shape := range map[string]string{"gather": "G-WR", "scatter": "S-RD", "exchange": "GSSR"} {
		t.Run(program, func(t *testing.T) {
			_, client := both(t, program, "16384", "4")
			lines := strings.Split(strings.TrimSpace(client), "\n")
			var told struct {
				Shape    string
				Verified bool
				Bytes    int `json:"message_bytes"`
			}
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &told); err != nil {
				t.Fatalf("%v\n%s", err, client)
			}
			if told.Shape != shape || !told.Verified || told.Bytes != 16384 || len(lines) != 1+8+1 {
				t.Errorf("%+v\n%s", told, client)
			}
		})
	}
	for program, want := range map[string]string{
		"wrong_gid":     "status 12: transport retry counter exceeded",
		"no_receive":    "status 13: RNR retry counter exceeded",
		"wrong_key":     "status 10: remote access error",
		"too_long":      "status 4: local protection error",
		"not_ready":     "ibv_post_send: Invalid argument",
		"never_polls":   "request 65: ibv_post_send: Cannot allocate memory",
		"other_mtu":     "status 9: remote invalid request error",
		"reused_buffer": "is B, want A",
	} {
		t.Run(program, func(t *testing.T) {
			p := start(t, filepath.Join(dir, "broken", program))
			err := p.Wait()
			if err == nil || !strings.Contains(p.out.String(), want) {
				t.Errorf("%v: got %q, want %q", err, p.out.String(), want)
			}
		})
	}
}

// TestPatience: a completion that does not come ends a program, with what to look for.
func TestPatience(t *testing.T) {
	dir := course(t, "clean")
	written := filepath.Join(dir, "broken", "never_polls.c")
	text, err := os.ReadFile(written)
	if err != nil {
		t.Fatal(err)
	}
	const posted = `must(code, "ibv_post_send");`
	polls := strings.Replace(string(text), posted, posted+" complete(&p.a);", 1) // and still signals nothing
	if err := os.WriteFile(written, []byte(polls), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("make", "-C", dir, "broken/never_polls", "CFLAGS=-std=gnu11 -DPATIENCE=1").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := start(t, filepath.Join(dir, "broken", "never_polls"))
	err = p.Wait()
	if want := "no completion in 1 s: was a request signaled?"; err == nil || !strings.Contains(p.out.String(), want) {
		t.Errorf("%v: got %q, want %q", err, p.out.String(), want)
	}
}

// TestClockOfPatience: a step of the wall clock ends no program, and a loop that polls looks at the clock rarely.
func TestClockOfPatience(t *testing.T) {
	dir := course(t, "clean")
	const text = `#include "end.h"
static long looks, polls;
time_t time(time_t *at) { (void)at; return ++looks * 3600; }
int clock_gettime(clockid_t id, struct timespec *at)
{
	at->tv_sec = id == CLOCK_MONOTONIC ? 0 : looks * 3600;
	at->tv_nsec = ++looks;
	return 0;
}
static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq;
	wc->status = IBV_WC_SUCCESS;
	return ++polls == 1000000 ? n : 0;
}
int main(void)
{
	struct ibv_context context = {.ops.poll_cq = poll_cq};
	struct ibv_cq cq = {.context = &context};
	struct end e = {.cq = &cq};
	int status = complete(&e);
	printf("status %d after %ld polls, %ld looks at the clock\n", status, polls, looks);
	return looks > polls / 1000;
}
`
	source, program := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-std=gnu11", source, "-libverbs", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.Command(program).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestEmptyStarter: a starter without its parts names the first wrong byte, and goes no further.
func TestEmptyStarter(t *testing.T) {
	dir := course(t, "clean")
	if out, err := exec.Command("make", "-C", dir, "CFLAGS=-std=gnu11", "starter", "filled").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c, s := bothEnds(t, filepath.Join(dir, "starter"))
	failed, alsoFailed := c.Wait(), s.Wait()
	if failed == nil || alsoFailed == nil {
		t.Errorf("want both ends to fail, got %v and %v", failed, alsoFailed)
	}
	said := c.out.String() + s.out.String()
	for want, times := range map[string]int{"want 7": 2, `"verified": false`: 1, "one of the two ends says which": 2} {
		if got := strings.Count(said, want); got != times {
			t.Errorf("%q %d times, want %d: %s", want, got, times, said)
		}
	}
}

// bothEnds starts both ends of a program of examples/c, the client with further words.
func bothEnds(t *testing.T, path string, words ...string) (client, server *program) {
	t.Helper()
	port := freePort(t)
	t.Setenv("PORT", port)
	server = start(t, path)
	awaitListener(t, port)
	return start(t, append([]string{path, "127.0.0.1"}, words...)...), server
}

// changed runs both ends of a program of examples/c with another text in place of what a pattern finds, and returns
// what they said.
func changed(t *testing.T, program, pattern, to string) (client, server string) {
	t.Helper()
	dir := course(t, "clean")
	text, err := os.ReadFile(filepath.Join(dir, program))
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(pattern).ReplaceAll(text, []byte(to))
	if bytes.Equal(other, text) {
		t.Fatalf("%s has no %s", program, pattern)
	}
	if err := os.WriteFile(filepath.Join(dir, "starter.c"), other, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("make", "-C", dir, "CFLAGS=-std=gnu11", "filled").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c, s := bothEnds(t, filepath.Join(dir, "starter"))
	if c.Wait() == nil {
		t.Error("want a failure")
	}
	_ = s.Wait()
	return c.out.String(), s.out.String()
}

// TestNoWait: a starter that packs and does not wait has no figure, although each byte arrives in the end.
func TestNoWait(t *testing.T) {
	said, _ := changed(t, "gather.c", `(?s)(GAP [23]: [^*]*\*/).*?/\* END \*/`, "$1 (void)arrived;")
	if !strings.Contains(said, "pack: a request was complete after the clock had stopped: wait for each message") ||
		!regexp.MustCompile(`(?m)^ +64 +1024 +- +- +-$`).MatchString(said) {
		t.Error(said)
	}
}

// TestSecondRound: rounds that were right give a row no figure if a later one is wrong.
func TestSecondRound(t *testing.T) {
	said, _ := changed(t, "gather.c", `/\* GAP 3: [^*]*\*/`,
		"static int calls; if (calls++ >= 70) return -1;")
	if !regexp.MustCompile(`(?m)^ +64 +1024 +- +- +-$`).MatchString(said) {
		t.Error(said)
	}
}

// TestEndlessParts: lists that begin with the first block for ever end the program.
func TestEndlessParts(t *testing.T) {
	client, server := changed(t, "exchange.c", `int i = k \* e->max_sge; i < l->num`, "int i = 0; i < l->num")
	if said := client + server; !strings.Contains(said, "part must return 0 behind the last block") {
		t.Error(said)
	}
}

// TestStarters: each starter builds and lacks three parts, and a second one does not take the place of a student's
// work.
func TestStarters(t *testing.T) {
	dir := course(t, "clean")
	written := filepath.Join(dir, "starter.c")
	make := func(words ...string) error {
		return exec.Command("make", append([]string{"-C", dir, "CFLAGS=-std=gnu11"}, words...)...).Run()
	}
	for _, program := range []string{"gather", "scatter", "exchange"} {
		if err := os.Remove(written); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		if err := make("starter", "FROM="+program); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(written)
		if err != nil {
			t.Fatal(err)
		}
		if gaps := regexp.MustCompile(`GAP \d: [^*]*\*/\s*/\* END \*/`).FindAll(text, -1); len(gaps) != 3 {
			t.Errorf("%s: the starter has %d empty gaps, want 3", program, len(gaps))
		}
		if err := make("filled"); err != nil {
			t.Errorf("%s: the starter does not build: %v", program, err)
		}
		if make("starter") == nil {
			t.Errorf("%s: starter.c was replaced", program)
		}
	}
}

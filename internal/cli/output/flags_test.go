package output

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/report/render"
)

func configOf(t *testing.T, args ...string) (Config, error) {
	t.Helper()
	var f Flags
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Bind(fs, render.DocumentFormats())
	f.Resumable(fs, "go on")
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	var wrong cmdline.Faults
	c := f.Config(&wrong)
	return c, errors.Join(wrong...)
}

// A result is printed once, and saved in each file by its ending; all mistakes are told at once.
func TestDeliver(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	c, err := configOf(t, "--save", path("a.json"), "--save", path("a.md"), "--format", "tex")
	if err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	if err := c.Deliver(Streams{Out: &printed},
		func(w io.Writer, format string) error { _, err := io.WriteString(w, format); return err }); err != nil {
		t.Fatal(err)
	}
	md, _ := os.ReadFile(path("a.md"))
	if printed.String() != "latex" || string(md) != "markdown" || c.Document() != path("a.json") {
		t.Errorf("printed %q, in a.md %q, the document is %s", &printed, md, c.Document())
	}
	if _, err := configOf(t, "--save", "a.doc", "--save", "b.md", "--save", "./b.md", "--format", "tabel"); err == nil ||
		strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("three mistakes: %v", err)
	}
}

// A result that is not finished leaves an earlier one of that name alone; --resume finds it, and the finished one takes
// its place.
func TestUnfinishedReplacesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new.json")
	write := func(text string) func(io.Writer, string) error {
		return func(w io.Writer, _ string) error { _, err := io.WriteString(w, text); return err }
	}
	deliver := func(c Config, text string) {
		t.Helper()
		c.Format = ""
		if err := c.Deliver(Streams{}, write(text)); err != nil {
			t.Fatal(err)
		}
	}
	config := func() Config {
		c, err := configOf(t, "--save", path, "--resume")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	deliver(config(), "115 records")
	var said strings.Builder
	unfinished := config()
	unfinished.Format, unfinished.kept = "", true
	if err := unfinished.DeliverPart(Streams{Err: &said}, false, []string{"gobw", "write", "--save", path},
		write("4 records")); err != nil {
		t.Fatal(err)
	}
	if _, err := configOf(t, "--save", path); err == nil ||
		!strings.Contains(err.Error(),
			"new.partial.json has an unfinished result: go on with --resume, or remove that file") {
		t.Errorf("a new run may replace the unfinished one: %v", err)
	}
	whole, _ := os.ReadFile(path)
	part, _ := os.ReadFile(config().ToResume())
	if string(whole) != "115 records" || string(part) != "4 records" {
		t.Fatalf("%q and to resume %q", whole, part)
	}
	for _, want := range []string{"new.partial.json", "new.json is as it was", "gobw write --save " + path + " --resume"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in %q", want, said.String())
		}
	}
	said.Reset()
	if err := (Config{kept: true, Format: "table"}).DeliverPart(Streams{Out: io.Discard, Err: &said}, false,
		[]string{"gobw", "write"}, write("")); err != nil ||
		!strings.Contains(said.String(), "nothing is saved; start with --save FILE.json") {
		t.Errorf("without --save: %v, %q", err, said.String())
	}
	said.Reset()
	if err := (Config{kept: true}).DeliverPart(Streams{Err: &said}, false, []string{"gobw", "write"},
		write("")); err != nil || said.String() != "" {
		t.Errorf("nothing was measured: %v, %q", err, said.String())
	}
	deliver(config(), "116 records")
	whole, _ = os.ReadFile(path)
	if files, _ := os.ReadDir(filepath.Dir(path)); string(whole) != "116 records" || len(files) != 1 ||
		config().ToResume() != path {
		t.Errorf("%q, %v", whole, slices.Collect(func(yield func(string) bool) {
			for _, f := range files {
				yield(f.Name())
			}
		}))
	}
}

// TestNothingIsKeptInADevice: what is no file, as a pipe, gets the finished result alone.
func TestNothingIsKeptInADevice(t *testing.T) {
	c, err := configOf(t, "--save", os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	c.Keeper(Streams{Err: io.Discard}).KeepLast(func(io.Writer) error {
		t.Error("it was written to before the result was there")
		return nil
	})
	folder := filepath.Join(t.TempDir(), "a.json")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err = configOf(t, "--save", folder, "--resume"); err == nil || !strings.Contains(err.Error(), "a folder") {
		t.Errorf("--resume of a folder: %v", err)
	}
}

// TestNothingIsKeptBesideADescriptor: a file behind a descriptor, as that of /dev/stdout, gets the finished result
// alone, and no word is said of it.
func TestNothingIsKeptBesideADescriptor(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	link := filepath.Join(t.TempDir(), "x.json")
	path := fmt.Sprintf("/dev/fd/%d", f.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, link} {
		c, err := configOf(t, "--save", path)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		out := Streams{Err: &said, Out: io.Discard}
		c.Keeper(out).Keep(func(io.Writer) error {
			t.Errorf("%s was written to before the result was there", path)
			return nil
		})
		if err := c.DeliverPart(out, true, nil,
			func(w io.Writer, _ string) error { _, err := io.WriteString(w, "new"); return err }); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if said.String() != "" {
			t.Errorf("%s: it said %q", path, said.String())
		}
		if is, _ := os.ReadFile(f.Name()); string(is) != "new" {
			t.Errorf("%s: it holds %q", path, is)
		}
	}
	if opened("/dev/shm/x.json") || !opened("/dev/stdout") {
		t.Error("a file in memory is a descriptor, or /dev/stdout is none")
	}
}

// TestLastSaveFails: no other try is promised where none follows.
func TestLastSaveFails(t *testing.T) {
	c, err := configOf(t, "--save", filepath.Join(t.TempDir(), "away", "x.json"))
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	c.Keeper(Streams{Err: &said}).KeepLast(func(io.Writer) error { return nil })
	if got := said.String(); !strings.HasPrefix(got, "not kept yet: ") || strings.Contains(got, "again") {
		t.Errorf("it said %q", got)
	}
}

// TestKeeperTriesAgain: a save that fails is told once, the next one comes, and the last one decides what is said of
// the file.
func TestKeeperTriesAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "away", "x.json")
	c, err := configOf(t, "--save", path)
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	out := Streams{Err: &said, Out: io.Discard}
	write := func(w io.Writer) error {
		_, err := io.WriteString(w, `{"complete": false, "records": [{}]}`)
		return err
	}
	k := c.Keeper(out)
	k.Keep(write)
	k.cost = 0
	k.Keep(write)
	if got := said.String(); strings.Count(got, "not kept yet") != 1 || !strings.Contains(got, path) {
		t.Errorf("of two saves that failed it said %q", got)
	}
	part := func() error {
		said.Reset()
		return c.DeliverPart(out, false, []string{"gobw", "write"}, func(w io.Writer, _ string) error { return write(w) })
	}
	if err := part(); err == nil || strings.Contains(said.String(), "kept in") {
		t.Errorf("nothing is kept: %v, %q", err, &said)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	k.cost = 0
	if k.Keep(write); !regular(path) {
		t.Error("it did not try again")
	}
	if err := part(); err != nil || !strings.Contains(said.String(), "kept in "+path) {
		t.Errorf("%v, %q", err, &said)
	}
}

// TestRepeatedCommand: a finished result is replaced with a word, and stays beside the new one where it took long.
func TestRepeatedCommand(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	for _, tt := range []struct {
		old   string
		stays bool
	}{
		{`{"started": "2026-11-27T10:00:00Z", "finished": "2026-11-27T10:00:09Z", "complete": true}`, false},
		{`{"started": "2026-11-27T10:00:00Z", "finished": "2026-11-27T10:50:00Z", "complete": true}`, true},
		{"my notes", true},
	} {
		if err := os.WriteFile(path, []byte(tt.old), 0o644); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(path + "~")
		c, err := configOf(t, "--save", path)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		if err := c.DeliverPart(Streams{Out: io.Discard, Err: &said}, true, nil,
			func(w io.Writer, _ string) error { _, err := io.WriteString(w, "new"); return err }); err != nil {
			t.Fatal(err)
		}
		is, _ := os.ReadFile(path)
		beside, _ := os.ReadFile(path + "~")
		if string(is) != "new" || (string(beside) == tt.old) != tt.stays ||
			!strings.Contains(said.String(), "replaces an earlier result") {
			t.Errorf("%s: now %q, beside it %q; it said %q", tt.old, is, beside, &said)
		}
	}
}

// TestTablesAreSetAside: a table of an earlier run stays beside the one that replaces it, also where the run does not
// finish, or the name is a link, which is written through.
func TestTablesAreSetAside(t *testing.T) {
	for _, name := range []string{"x.csv", "to.csv", ""} {
		complete, dir := name != "", t.TempDir()
		path := filepath.Join(dir, cmp.Or(name, "x.csv"))
		if err := os.WriteFile(filepath.Join(dir, "x.csv"), []byte("of an hour"), 0o600); err != nil {
			t.Fatal(err)
		}
		if name == "to.csv" {
			if err := os.Symlink("x.csv", path); err != nil {
				t.Skip(err)
			}
		}
		c, err := configOf(t, "--save", path)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		c.Format = ""
		write := func(w io.Writer, _ string) error { _, err := io.WriteString(w, "new"); return err }
		if err := c.DeliverPart(Streams{Err: &said, Out: io.Discard}, complete, nil, write); err != nil {
			t.Fatal(err)
		}
		old, _ := os.ReadFile(path + "~")
		now, _ := os.ReadFile(path)
		if string(old) != "of an hour" || string(now) != "new" ||
			!strings.Contains(said.String(), "which stays as "+path+"~") {
			t.Errorf("complete: %v: %q, %q, %s", complete, old, now, &said)
		}
	}
}

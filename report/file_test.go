package report

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "result.json")
	d := sampleDocument()
	d.Complete, d.Failure = false, "interrupted"
	if err := Save(path, d); err != nil {
		t.Fatal(err)
	}
	got, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, d); diff != "" {
		t.Error(diff)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("%d files are left, want 1 (%v)", len(left), err)
	}
}

// A write that fails half-way, as on a full disk, leaves the previous file and nothing else.
func TestFailedSaveKeepsThePreviousFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "result.json")
	if err := Save(path, sampleDocument()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	err = WriteFile(path, func(w io.Writer) error {
		if _, err := w.Write([]byte(`{"schema": "gobw.res`)); err != nil {
			return err
		}
		return full
	})
	if !errors.Is(err, full) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "unchanged") {
		t.Errorf("%v", err)
	}
	broken := sampleDocument()
	broken.Records[2].Seconds = math.NaN()
	err = Save(path, broken)
	if err == nil || !strings.Contains(err.Error(), "document.records[2].seconds is not a finite number") {
		t.Errorf("%v", err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the previous file changed (%v)", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("%d files are left, want 1", len(left))
	}
}

// The real thing, where the system has a device that is always full.
func TestSaveToFullDevice(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full on this system")
	}
	if err := Save("/dev/full", sampleDocument()); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%v", err)
	}
}

// Files of every earlier version stay in testdata and load.
func TestEarlierVersionsLoad(t *testing.T) {
	files, err := filepath.Glob("testdata/versions/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of earlier versions: %v", err)
	}
	for _, f := range files {
		d, err := Load(f)
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		if len(d.Records) == 0 || d.Records[0].Bandwidth.AverageBitsPerS == 0 {
			t.Errorf("%s loads without its figures", f)
		}
	}
}

func TestLoadRefuses(t *testing.T) {
	whole, err := marshal(sampleDocument())
	if err != nil {
		t.Fatal(err)
	}
	replaced := func(old, new string) string { return strings.Replace(string(whole), old, new, 1) }
	for _, tt := range []struct {
		name, content string
		want          []string
	}{
		{"empty", "", []string{"is empty"}},
		{"cut short", string(whole[:len(whole)/2]), []string{"line ", "cut short"}},
		{"not JSON", "#bytes #iterations", []string{"line 1, column 1", "not JSON"}},
		{"a table", "software device\n", []string{"not JSON"}},
		{"foreign", `{"results": []}`, []string{`no "schema"`, "not a result of gobw"}},
		{"foreign schema", `{"schema": "perftest/2"}`, []string{`"perftest/2"`}},
		{"a number", `12`, []string{"holds a JSON number"}},
		{"future", replaced("gobw.result/1", "gobw.result/7"), []string{"version 7", "later", "update gobw"}},
		{"wrong type", replaced(`"records": [`, `"records": "none", "x": [`), []string{"records is a JSON string", "line "}},
		{"unit", replaced(`"unit": "ps"`, `"unit": "us"`), []string{"records[6].histogram.unit", `"us"`, `"ps"`}},
		{"kind", replaced(`"kind": "bandwidth"`, `"kind": "speed"`), []string{"records[0].kind", `"speed"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.json")
			if err := os.WriteFile(path, []byte(tt.content), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Load(path)
			var fe *FileError
			if !errors.As(err, &fe) || fe.File != path {
				t.Fatalf("%v is not a FileError of this file", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
			if fe.Remedy == "" {
				t.Errorf("%q names no remedy", err)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "nowhere.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
}

func TestLoadAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "two.json")
	err := WriteFile(path, func(w io.Writer) error { return allJSON(w, []*Document{sampleDocument(), repeatedDocument(1)}) })
	if err != nil {
		t.Fatal(err)
	}
	docs, err := LoadAll(path)
	if err != nil || len(docs) != 2 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), "holds 2 results") {
		t.Errorf("%v", err)
	}
	q := &Qualification{Plan: "quick", Outcome: Passed, Tests: []QualificationTest{{Name: "first", Outcome: Passed, Document: sampleDocument()}, {Name: "second", Outcome: Skipped}}}
	if err := SaveQualification(path, q); err != nil {
		t.Fatal(err)
	}
	docs, err = LoadAll(path)
	if err != nil || len(docs) != 1 || docs[0].Description != "first" {
		t.Errorf("%d documents, %v", len(docs), err)
	}
}

// Whatever a file holds, reading and rendering it ends in output or an error.
func FuzzParse(f *testing.F) {
	for _, d := range []*Document{sampleDocument(), repeatedDocument(1), {}} {
		b, err := marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`[{"schema":"gobw.result/1","records":[{"kind":"latency","latency":{"samples":-1}}]}]`))
	f.Add([]byte(`{"schema":"gobw.qualification/1","tests":[{"document":{"records":null}}]}`))
	f.Add([]byte(`{"schema":"gobw.result/1","records":[{"kind":"bandwidth","series":{"interval_s":1,"bytes":[1,2]}}],"noncontig":{"points":[{"runs":[{}]}]}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		docs, err := Parse("fuzzed.json", b)
		if err != nil {
			if docs != nil {
				t.Error("documents come with an error")
			}
			return
		}
		for _, format := range Formats() {
			_ = format.All(io.Discard, docs) // an error is as good
		}
	})
}

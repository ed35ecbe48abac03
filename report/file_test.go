package report_test

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

	"github.com/gobw/gobw/internal/testrun"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/matrix"
	"github.com/gobw/gobw/report/qualify"
	"github.com/gobw/gobw/report/render"
	"github.com/gobw/gobw/report/stats"
)

// saved is a result of report/testdata.
func saved(name string) *report.Document {
	d, err := report.Load("testdata/" + name + ".json")
	if err != nil {
		panic(err)
	}
	return d
}

func TestSaveAndLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "result.json")
	d := saved("sample")
	d.Complete, d.Failure = false, "interrupted"
	if err := report.Save(path, d); err != nil {
		t.Fatal(err)
	}
	got, err := report.Load(path)
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
	if err := report.Save(path, saved("sample")); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("no space left on device")
	err = report.WriteFile(path, func(w io.Writer) error {
		if _, err := w.Write([]byte(`{"schema": "gobw.res`)); err != nil {
			return err
		}
		return full
	})
	if !errors.Is(err, full) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "unchanged") {
		t.Errorf("%v", err)
	}
	broken := saved("sample")
	broken.Records[2].Seconds = math.NaN()
	err = report.Save(path, broken)
	if err == nil || !strings.Contains(err.Error(), "NaN") {
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
	if err := report.Save("/dev/full", saved("sample")); err == nil || !strings.HasSuffix(err.Error(), "no space left on device") {
		t.Errorf("%v", err)
	}
}

// A folder that is there is not advised to be made.
func TestSaveWhereNobodyCan(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("no /proc on this system")
	}
	err := report.Save("/proc/x.json", saved("sample"))
	if err == nil || !strings.HasSuffix(err.Error(), "nobody can make a file there") {
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
		d, err := report.Load(f)
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
	whole, err := report.Marshal(saved("sample"))
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
			_, err := report.Load(path)
			var fe *report.FileError
			if !errors.As(err, &fe) || fe.File != path {
				t.Fatalf("%v is not a report.FileError of this file", err)
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
	if _, err := report.Load(filepath.Join(t.TempDir(), "nowhere.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file gives %v", err)
	}
}

func TestLoadAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "two.json")
	err := report.WriteFile(path, func(w io.Writer) error {
		return render.Documents(w, "json", []*report.Document{saved("sample"), saved("repeated")})
	})
	if err != nil {
		t.Fatal(err)
	}
	docs, err := report.LoadAll(path)
	if err != nil || len(docs) != 2 {
		t.Fatalf("%d documents, %v", len(docs), err)
	}
	if _, err := report.Load(path); err == nil || !strings.Contains(err.Error(), "holds 2 results") {
		t.Errorf("%v", err)
	}
	q := &qualify.Qualification{
		Plan: "quick", Outcome: stats.Pass, Tests: []qualify.Result{
			{Name: "first", Outcome: stats.Pass, Document: saved("sample")}, {Name: "second", Outcome: qualify.Skipped},
		},
	}
	if err := report.WriteFile(path, func(w io.Writer) error { return render.Qualification(w, "json", q) }); err != nil {
		t.Fatal(err)
	}
	docs, err = report.LoadAll(path)
	if err != nil || len(docs) != 1 || docs[0].Description != "first" {
		t.Errorf("%d documents, %v", len(docs), err)
	}
}

// What a qualification holds is computed and checked again as in a file of its own.
func TestQualificationIsReadAsItsDocuments(t *testing.T) {
	d := saved("grid")
	d.Noncontig.Cells = nil
	path := filepath.Join(t.TempDir(), "q.json")
	read := func() ([]*report.Document, error, error) {
		q := &qualify.Qualification{
			Plan: "grids", Outcome: stats.Pass, Tests: []qualify.Result{{Name: "grid", Outcome: stats.Pass, Document: d}},
		}
		if err := report.WriteFile(path, func(w io.Writer) error { return render.Qualification(w, "json", q) }); err != nil {
			t.Fatal(err)
		}
		docs, err := report.LoadAll(path)
		loaded, qualifyErr := qualify.Load(path)
		if loaded != nil {
			docs = append(docs, loaded.Documents()...)
		}
		return docs, err, qualifyErr
	}
	docs, err, other := read()
	if err != nil || other != nil || len(docs) != 2 {
		t.Fatalf("%d documents: %v, %v", len(docs), err, other)
	}
	for i, d := range docs {
		if c := d.Noncontig.Cells; len(c) == 0 || len(c[0].Strategies[0].Goodputs) == 0 {
			t.Errorf("reader %d leaves the grid without its cells", i)
		}
	}
	d.Fabric = &matrix.Matrix{Cells: matrix.Cells{From: []int{7}}}
	if _, err, other := read(); err == nil || other == nil {
		t.Errorf("a matrix of cells that are not there is read: %v, %v", err, other)
	}
}

// Whatever a file holds, reading and rendering it ends in output or an error.
func FuzzParse(f *testing.F) {
	for _, d := range []*report.Document{saved("sample"), saved("repeated"), {}} {
		b, err := report.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`[{"schema":"gobw.result/1","records":[{"kind":"latency","latency":{"samples":-1}}]}]`))
	f.Add([]byte(`{"schema":"gobw.qualification/1","tests":[{"document":{"records":null}}]}`))
	f.Add(
		[]byte(
			`{"schema":"gobw.result/1","records":[{"kind":"bandwidth","series":{"interval_s":1,"bytes":[1,2]}}],"noncontig":{"points":[{"runs":[{}]}]}}`))
	testrun.Fuzz(f, func(t *testing.T, b []byte) {
		docs, err := report.Parse("fuzzed.json", b)
		if err != nil {
			if docs != nil {
				t.Error("documents come with an error")
			}
			return
		}
		for _, format := range render.DocumentFormats() {
			_ = render.Documents(io.Discard, format, docs) // an error is as good
		}
	})
}

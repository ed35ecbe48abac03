package report

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// FileError is a results file that cannot be used: which, where in it, why, and what to do.
type FileError struct {
	File   string
	Place  string // "line 12, column 4", or ""
	Err    error
	Remedy string
	// Foreign tells a file that is no result, as far as can be seen, from one that is broken.
	Foreign bool
}

func (e *FileError) Error() string {
	s := e.File
	s += plain.When(e.Place != "", ": %s", e.Place)
	s += ": " + e.Err.Error()
	s += plain.When(e.Remedy != "", " (%s)", e.Remedy)
	return s
}

func (e *FileError) Unwrap() error { return e.Err }

// schemaPrefix and schemaNumber make [SchemaVersion].
const (
	schemaPrefix = "gobw.result/"
	schemaNumber = 1
)

// Save writes the document to path: into a file beside it that has no name until it is whole and synced, then renamed. On any
// error, a full disk too, what was at path stays as it was, and a process that is killed leaves nothing. The umask decides who may
// read a new file; one that was there keeps its mode.
func Save(path string, d *Document) error {
	b, err := Marshal(d)
	if err != nil {
		return &FileError{File: path, Err: err}
	}
	return WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// WriteFile writes a file as [Save] does, whatever its content.
func WriteFile(path string, write func(w io.Writer) error) (err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() { // a pipe, /dev/stdout: nothing to keep
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return saveError(path, err)
		}
		if err := errors.Join(buffered(f, write), f.Close()); err != nil {
			return saveError(path, err)
		}
		return nil
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	dir := filepath.Dir(path)
	temporary := filepath.Join(dir, fmt.Sprintf(".%s.%d", filepath.Base(path), rand.Uint64()))
	f, name, err := unnamed(dir)
	if err != nil { // not on every system and file system
		f, err = os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		name = func(string) error { return nil }
	}
	if err != nil {
		return saveError(path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already unless the write failed
			_ = os.Remove(temporary)
			err = saveError(path, err)
		}
	}()
	if err := buffered(f, write); err != nil {
		return err
	}
	if before, err := os.Stat(path); err == nil {
		if err := f.Chmod(before.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := name(temporary); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		return err
	}
	if d, err := os.Open(dir); err == nil { // the rename itself; not every file system can
		_ = d.Sync()
		_ = d.Close()
	}
	return nil
}

func buffered(f *os.File, write func(w io.Writer) error) error {
	b := bufio.NewWriter(f)
	if err := write(b); err != nil {
		return err
	}
	return b.Flush()
}

// CheckWritable tells whether [WriteFile] can begin: a long measurement should not end in front of a missing directory.
func CheckWritable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &FileError{File: path, Err: errors.New("cannot save: is a directory"), Remedy: "name a file in it"}
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return &FileError{File: path, Err: errors.New("cannot save: no such directory"), Remedy: "mkdir -p " + dir}
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return saveError(path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func saveError(path string, err error) error {
	if _, ok := errors.AsType[*FileError](err); ok {
		return err
	}
	return &FileError{File: path, Err: fmt.Errorf("cannot save: %w", err), Remedy: "the previous file, if any, is unchanged"}
}

// Load reads a saved document. Earlier versions load; a truncated, foreign or later file is a [FileError].
func Load(path string) (*Document, error) {
	docs, err := LoadAll(path)
	if err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, &FileError{
			File: path, Err: fmt.Errorf("holds %d results, not one", len(docs)),
			Remedy: "name a file of one run",
		}
	}
	return docs[0], nil
}

// LoadAll reads a file of one document, of a list of them, or of a qualification.
func LoadAll(path string) ([]*Document, error) {
	b, err := ReadFile(path, MostBytes)
	if err != nil {
		return nil, err
	}
	return Parse(path, b)
}

// MostBytes is the largest file of results that is read: a hundred thousand records with histograms have less.
const MostBytes = 1 << 30

// ReadFile reads a file of at most so many bytes, which /dev/zero and a pipe have not either.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err == nil {
		var b []byte
		if b, err = io.ReadAll(io.LimitReader(f, most+1)); err == nil && int64(len(b)) > most {
			err = fmt.Errorf("has more than %d MiB", most>>20)
		}
		if err = errors.Join(err, f.Close()); err == nil {
			return b, nil
		}
	}
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	return nil, &FileError{File: path, Err: err}
}

// Parse reads what a file holds; the name is for errors.
func Parse(file string, b []byte) ([]*Document, error) {
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, &FileError{File: file, Err: errors.New("is empty"), Remedy: "a run that was killed may leave it so; measure again with --save"}
	}
	if t := bytes.TrimSpace(b); t[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(b, &list); err != nil {
			return nil, jsonError(file, b, err)
		}
		var docs []*Document
		for i, item := range list {
			more, err := parse(fmt.Sprintf("%s[%d]", file, i), item)
			if err != nil {
				return nil, err
			}
			docs = append(docs, more...)
		}
		return docs, nil
	}
	return parse(file, b)
}

// schemaOf reads what a document says it is; nil where it does not.
func schemaOf(file string, b []byte) (*string, error) {
	var head struct {
		Schema *string `json:"schema"`
	}
	err := json.Unmarshal(b, &head)
	if kind, is := errors.AsType[*json.UnmarshalTypeError](err); is && kind.Field == "" {
		return nil, foreign(file, "holds a JSON "+kind.Value)
	}
	if err != nil {
		return nil, jsonError(file, b, err)
	}
	return head.Schema, nil
}

// LoadAs reads a file of another kind than a [Document], whose schema begins so; nil where the file holds something else.
func LoadAs[T any](path, prefix string) (*T, error) {
	b, err := ReadFile(path, MostBytes)
	if err != nil {
		return nil, err
	}
	if schema, err := schemaOf(path, b); err != nil || schema == nil || !strings.HasPrefix(*schema, prefix) {
		return nil, nil //nolint:nilerr,nilnil // whoever reads it as something else tells
	}
	v := new(T)
	return v, Decode(path, b, v)
}

// QualificationPrefix and QualificationNumber make the version of a qualification, whose documents [Parse] reads.
const (
	QualificationPrefix = "gobw.qualification/"
	QualificationNumber = 1
)

// parseQualification reads the documents of a qualification, each described by the name of its test.
func parseQualification(file string, b []byte) ([]*Document, error) {
	var q struct {
		Schema string `json:"schema"`
		Tests  []struct {
			Name     string    `json:"name"`
			Document *Document `json:"document"`
		} `json:"tests"`
	}
	if err := Decode(file, b, &q); err != nil {
		return nil, err
	}
	if err := CheckVersion(file, q.Schema, QualificationPrefix, QualificationNumber); err != nil {
		return nil, err
	}
	var out []*Document
	for _, t := range q.Tests {
		if d := t.Document; d != nil {
			if err := d.Check(file); err != nil {
				return nil, err
			}
			d.Description = cmp.Or(d.Description, t.Name)
			out = append(out, d)
		}
	}
	return out, nil
}

// Decode reads JSON into v; what is wrong with it is a [FileError] with its place.
func Decode(file string, b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return jsonError(file, b, err)
	}
	return nil
}

// parse reads one document, or those of a qualification.
func parse(file string, b []byte) ([]*Document, error) {
	schema, err := schemaOf(file, b)
	if err != nil {
		return nil, err
	}
	if schema == nil {
		return nil, foreign(file, `has no "schema"`)
	}
	if strings.HasPrefix(*schema, QualificationPrefix) {
		return parseQualification(file, b)
	}
	if strings.HasPrefix(*schema, "gobw.search/") {
		return nil, &FileError{
			File: file, Err: errors.New("is a result of 'gobw search', not a measurement"), Foreign: true,
			Remedy: "'gobw report' shows it, one file at a time; '--save FILE.svg' draws it",
		}
	}
	if err := CheckVersion(file, *schema, schemaPrefix, schemaNumber); err != nil {
		return nil, err
	}
	d := &Document{}
	if err := json.Unmarshal(b, d); err != nil {
		return nil, jsonError(file, b, err)
	}
	if err := d.Check(file); err != nil {
		return nil, err
	}
	return []*Document{d}, nil
}

// Check tells whether the parts of a document fit each other, as whoever shows it relies on, and computes again what follows from them.
func (d *Document) Check(file string) error {
	for i := range d.Records {
		r := &d.Records[i]
		if h := r.Histogram; h != nil && h.Unit != histogramUnit {
			return &FileError{
				File: file, Place: fmt.Sprintf("records[%d].histogram.unit", i),
				Err:    fmt.Errorf("the unit is %q, this version reads %q", h.Unit, histogramUnit),
				Remedy: "convert the histogram, or write the file again with this version",
			}
		}
		if r.Kind != "bandwidth" && r.Kind != "latency" {
			return &FileError{
				File: file, Place: fmt.Sprintf("records[%d].kind", i),
				Err: fmt.Errorf("%q is neither \"bandwidth\" nor \"latency\"", r.Kind), Remedy: "this is not a file of gobw, or it was edited",
			}
		}
	}
	if d.Noncontig != nil {
		d.Noncontig.Analyze()
	}
	if d.Fabric != nil {
		if err := d.Fabric.Check(); err != nil {
			return &FileError{File: file, Place: "fabric", Err: err, Remedy: "this is not a file of gobw, or it was edited"}
		}
	}
	return nil
}

// CheckVersion compares a schema string, prefix and number, with what this version knows.
func CheckVersion(file, schema, prefix string, known int) error {
	version, ok := strings.CutPrefix(schema, prefix)
	n, err := strconv.Atoi(version)
	if !ok || err != nil || n < 1 {
		return foreign(file, fmt.Sprintf("has the schema %q", schema))
	}
	if n > known {
		return &FileError{
			File: file, Place: `"schema"`,
			Err:    fmt.Errorf("version %d is from a later gobw; this one reads up to %s%d", n, prefix, known),
			Remedy: "update gobw",
		}
	}
	return nil
}

// savedRemedy is what to do about a file that is none of ours, or a page or table of ours.
const savedRemedy = "give the .json of a result: --save FILE.json writes one"

func foreign(file, why string) error {
	return &FileError{
		File: file, Err: fmt.Errorf("not a result of gobw: it %s", why),
		Remedy: savedRemedy, Foreign: true,
	}
}

// jsonError places a JSON error by line and column.
func jsonError(file string, b []byte, err error) error {
	fe := &FileError{File: file, Err: err}
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		fe.Place = place(b, syntax.Offset)
		if syntax.Offset >= int64(len(bytes.TrimRight(b, " \t\r\n"))) {
			fe.Err = errors.New("the file is cut short")
			fe.Remedy = "copy it again; gobw itself never leaves half a file"
		} else {
			fe.Err = fmt.Errorf("not JSON: %w", err)
			fe.Remedy = savedRemedy
		}
	case errors.As(err, &kind):
		fe.Place = place(b, kind.Offset)
		fe.Err = fmt.Errorf("%s is a JSON %s, want %s", kind.Field, kind.Value, jsonKind(kind.Type))
		fe.Remedy = "this is not a file of gobw, or it was edited"
	}
	return fe
}

// jsonKind is what JSON calls a Go type.
func jsonKind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a number (" + t.String() + ")"
	}
}

func place(b []byte, offset int64) string {
	offset = min(max(offset, 0), int64(len(b)))
	before := b[:offset]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Sprintf("line %d, column %d", line, max(column, 1))
}

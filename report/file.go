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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
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
	return e.File + plain.When(e.Place != "", ": %s", e.Place) + ": " + e.Err.Error() +
		plain.When(e.Remedy != "", " (%s)", e.Remedy)
}

func (e *FileError) Unwrap() error { return e.Err }

// Save writes the document to path: into a hidden file beside it until it is whole and synced, then renamed. On any
// error, a full disk too, what was at path stays as it was. The umask decides who may read a new file; one that was
// there keeps its mode.
func Save(path string, d *Document) error {
	return WriteFile(path, func(w io.Writer) error { return Write(w, d) })
}

// Write writes a document as its file has it.
func Write(w io.Writer, d *Document) error {
	b, err := Marshal(d)
	if err == nil {
		_, err = w.Write(b)
	}
	return err
}

// Marshal encodes a document with indents.
func Marshal(d *Document) ([]byte, error) {
	c := *d.Fitting()
	c.Schema = cmp.Or(c.Schema, SchemaVersion)
	b, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode document: %w", err)
	}
	return append(b, '\n'), nil
}

// WriteFile writes a file as [Save] does, whatever its content.
func WriteFile(path string, write func(w io.Writer) error) error {
	to, err := destination(path)
	if err != nil {
		return saveError(path, err)
	}
	info, err := os.Stat(to)
	if err == nil && !info.Mode().IsRegular() { // a pipe, /dev/stdout: nothing to keep
		if err := writeThrough(to, write); err != nil {
			return &FileError{File: path, Err: fmt.Errorf("cannot save: %w", err)}
		}
		return nil
	}
	f, err := beside(to)
	if err != nil {
		return saveError(path, err)
	}
	err = buffered(f, write)
	if err == nil && info != nil {
		err = f.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return saveError(path, err)
	}
	if d, err := os.Open(filepath.Dir(to)); err == nil { // the rename itself; not every file system can
		_ = d.Sync()
		_ = d.Close()
	}
	return nil
}

// writeThrough writes to what is no file. A pipe must have a reader: without one to open it waits for ever.
func writeThrough(path string, write func(w io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return errors.New("it is a pipe that nobody reads")
	}
	if err != nil {
		return err
	}
	return errors.Join(buffered(f, write), f.Close())
}

// mostLinks is how many symbolic links may follow each other, as on Linux.
const mostLinks = 40

// destination is the file that a write to path replaces: it follows symbolic links. A link or a pipe of another user is
// refused. The kernel refuses these in /tmp, too (fs.protected_symlinks, fs.protected_fifos), but not for a rename.
func destination(path string) (string, error) {
	for range mostLinks {
		info, err := os.Lstat(path)
		if err != nil || info.Mode().IsRegular() {
			return path, nil //nolint:nilerr // it is made, or the write says why not
		}
		link := info.Mode()&os.ModeSymlink != 0
		if user, foreign := ownedByOther(info); foreign && (link || info.Mode()&os.ModeNamedPipe != 0) {
			return path, &FileError{
				File: path, Err: fmt.Errorf("cannot save: it belongs to user %d", user), Remedy: "remove it, or name another file",
			}
		}
		// "/dev/stdout" leads to what has no name
		if real, err := os.Stat(path); !link || err == nil && !real.Mode().IsRegular() {
			return path, nil
		}
		to, err := os.Readlink(path)
		if err != nil {
			return path, err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return path, syscall.ELOOP
}

// beside makes a hidden file beside the one that it is to replace.
func beside(path string) (*os.File, error) {
	name := fmt.Sprintf(".%s.%d", filepath.Base(path), rand.Uint64())
	return os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
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
	to, err := destination(path)
	if err != nil {
		return saveError(path, err)
	}
	if info, err := os.Stat(to); err == nil && info.IsDir() {
		return &FileError{File: path, Err: errors.New("cannot save: is a directory"), Remedy: "name a file in it"}
	} else if err == nil && !info.Mode().IsRegular() {
		return nil
	}
	f, err := beside(to)
	if err != nil {
		return saveError(path, err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// CheckOwner tells whether a write to path would follow a symbolic link, or open a pipe, of another user.
func CheckOwner(path string) error {
	if _, err := destination(path); err != nil {
		return saveError(path, err)
	}
	return nil
}

func saveError(path string, err error) error {
	if _, told := errors.AsType[*FileError](err); told {
		return err
	}
	if folder := filepath.Dir(path); errors.Is(err, os.ErrNotExist) {
		if _, missing := os.Stat(folder); missing == nil { // as /proc
			return &FileError{File: path, Err: errors.New("cannot save: nobody can make a file there")}
		}
		return &FileError{File: path, Err: errors.New("cannot save: no such directory"), Remedy: "mkdir -p " + folder}
	}
	if pe, ok := errors.AsType[*os.PathError](err); ok { // it names the hidden file
		err = pe.Err
	}
	return &FileError{
		File: path, Err: fmt.Errorf("cannot save: %w", err), Remedy: "the previous file, if any, is unchanged",
	}
}

// Load reads a saved document. A truncated, foreign or later file is a [FileError].
func Load(path string) (*Document, error) {
	docs, err := LoadAll(path)
	if err != nil {
		return nil, err
	}
	if len(docs) != 1 {
		return nil, &FileError{
			File: path, Err: fmt.Errorf("holds %d results, not one", len(docs)), Remedy: "name a file of one run",
		}
	}
	return docs[0], nil
}

// LoadBeside reads, as LoadAll does, a file that lies in a folder, or below.
func LoadBeside(folder, name string) ([]*Document, error) {
	b, err := ReadBeside(folder, name, MostBytes)
	if err != nil {
		return nil, err
	}
	return Parse(filepath.Join(folder, name), b)
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

// mostPiped is how much is read of what is no file, such as a pipe, whose size nobody knows before.
const mostPiped = 64 << 20

// ReadFile reads a file of at most so many bytes.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	return readAll(path, f, err, most)
}

// ReadBeside reads a file as ReadFile does that lies in a folder, or below. A plan may come from somebody else: it
// names no other file, neither by itself nor by a symbolic link.
func ReadBeside(folder, name string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(cmp.Or(folder, "."))
	if err != nil {
		return readAll(name, nil, err, most)
	}
	defer func() { _ = root.Close() }()
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe that nobody writes to is no reason to wait
	if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
		return nil, &FileError{
			File: name, Err: errors.New("is not in the folder of the plan"),
			Remedy: "a plan names only files beside it: copy the file to " + cmp.Or(folder, "."),
		}
	}
	return readAll(filepath.Join(folder, name), f, err, most)
}

// readAll reads and closes a file that was opened, or not.
func readAll(path string, f *os.File, err error, most int64) (b []byte, _ error) {
	if err == nil {
		b, err = readBounded(f, most)
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		return b, nil
	}
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		err = pe.Err
	}
	return nil, &FileError{File: path, Err: err}
}

func readBounded(f *os.File, most int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if size := info.Size(); !info.Mode().IsRegular() {
		most = min(most, mostPiped)
	} else if size <= most {
		b.Grow(int(size) + bytes.MinRead)
	}
	n, err := io.Copy(&b, io.LimitReader(f, most+1))
	if err == nil && n > most {
		err = errors.New("has more than " + plain.Bytes(float64(most)))
	}
	return b.Bytes(), err
}

// Parse reads what a file holds; the name is for errors.
func Parse(file string, b []byte) ([]*Document, error) {
	items, list := []json.RawMessage{b}, false
	switch text := bytes.TrimSpace(b); {
	case len(text) == 0:
		return nil, &FileError{
			File: file, Err: errors.New("is empty"), Remedy: "a run that was killed may leave it so; measure again with --save",
		}
	case text[0] == '[':
		list = true
		if err := decode(file, b, &items); err != nil {
			return nil, err
		}
		if len(items) == 0 {
			return nil, &FileError{
				File: file, Err: errors.New("is an empty list: it has no result"), Remedy: "look at what wrote it",
			}
		}
	}
	var docs []*Document
	for i, item := range items {
		more, err := parse(file+plain.When(list, "[%d]", i), item)
		if err != nil {
			return nil, err
		}
		docs = append(docs, more...)
	}
	return docs, nil
}

// parse reads one document, or those of a qualification, each described by the name of its test.
func parse(file string, b []byte) ([]*Document, error) {
	schema, err := schemaOf(file, b)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(schema, "gobw.search/") {
		return nil, &FileError{
			File: file, Err: errors.New("is a result of 'gobw search', not a measurement"), Foreign: true,
			Remedy: "'gobw report' shows it, one file at a time; '--save FILE.svg' draws it",
		}
	}
	type test struct {
		Name     string
		Document *Document
	}
	var held struct{ Tests []test }
	if kind, _, _ := strings.Cut(QualificationSchema, "/"); strings.HasPrefix(schema, kind+"/") {
		err = cmp.Or(checkVersion(file, schema, QualificationSchema), decode(file, b, &held))
	} else {
		held.Tests = []test{{Document: &Document{}}}
		err = cmp.Or(checkVersion(file, schema, SchemaVersion), decode(file, b, held.Tests[0].Document))
	}
	var out []*Document
	for _, t := range held.Tests {
		if d := t.Document; d != nil && err == nil {
			d.Description = cmp.Or(d.Description, t.Name)
			out, err = append(out, d), d.Check(file)
		}
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// schemaOf reads what a document says it is.
func schemaOf(file string, b []byte) (string, error) {
	var head struct{ Schema *string }
	if err := decode(file, b, &head); err != nil {
		return "", err
	}
	if head.Schema == nil {
		return "", foreign(file, `has no "schema"`)
	}
	return *head.Schema, nil
}

// LoadAs reads a file of another kind than a [Document], by its schema; nil where the file holds something else.
func LoadAs[T any](path, schema string) (*T, error) {
	b, err := ReadFile(path, MostBytes)
	if err != nil {
		return nil, err
	}
	if is, err := schemaOf(path, b); err != nil || is != schema {
		return nil, nil //nolint:nilerr,nilnil // whoever reads it as something else tells
	}
	v := new(T)
	return v, decode(path, b, v)
}

// mostWords is how long the operation and the warnings of a record may be: tables put them into many places.
const mostWords = 64 << 10

func wordsOf(list []string) int { return len(strings.Join(list, "\n")) }

// Fitting is the document with no more words of warnings than [Document.Check] takes when the file is read.
func (d *Document) Fitting() *Document {
	c, copied := *d, false
	c.Warnings = fitting(d.Warnings, mostWords)
	for i := range d.Records {
		r := &d.Records[i]
		if list := fitting(r.Warnings, mostWords-len(r.Operation)); !slices.Equal(list, r.Warnings) {
			if !copied {
				c.Records, copied = slices.Clone(d.Records), true
			}
			c.Records[i].Warnings = list
		}
	}
	return &c
}

// fitting is a list of warnings that is shorter than most: where it is not, each is told once, the long ones by their
// beginning, and at the end how many are left out.
func fitting(list []string, most int) []string {
	if all := strings.Join(list, "\n"); len(all) < most && utf8.ValidString(all) { // JSON makes three bytes of a wrong one
		return list
	}
	const longest, end = 4 << 10, 100
	var out []string
	seen, words := map[string]bool{}, end
	for i, w := range list {
		if seen[w] {
			continue
		}
		seen[w] = true
		if w = strings.ToValidUTF8(w, "?"); len(w) > longest {
			w = strings.ToValidUTF8(w[:longest], "") + " …"
		}
		if words += len(w) + 1; words >= most {
			return append(out, fmt.Sprintf("%d more lines of warnings are left out", len(list)-i))
		}
		out = append(out, w)
	}
	return out
}

// Check tells whether the parts of a document fit each other, and computes again what follows from them.
func (d *Document) Check(file string) error {
	broken := func(place, format string, args ...any) error {
		return &FileError{
			File: file, Place: place, Err: fmt.Errorf(format, args...), Remedy: "this is not a file of gobw, or it was edited",
		}
	}
	if words := wordsOf(d.Warnings); words >= mostWords {
		return broken("warnings", "%d KiB of words", words>>10)
	}
	for i := range d.Records {
		r := &d.Records[i]
		if h := r.Histogram; h != nil && h.Unit != histogramUnit {
			return broken(fmt.Sprintf("records[%d].histogram.unit", i), "the unit is %q, want %q", h.Unit, histogramUnit)
		}
		if words := wordsOf(r.Warnings) + len(r.Operation); words >= mostWords {
			return broken(fmt.Sprintf("records[%d].warnings", i), "%d KiB of words", words>>10)
		}
		if r.Kind != bandwidthKind && r.Kind != latencyKind {
			return broken(fmt.Sprintf("records[%d].kind", i), "%q is neither %q nor %q", r.Kind, bandwidthKind, latencyKind)
		}
	}
	for i := range d.Checks {
		if c := &d.Checks[i]; c.Word == "" {
			c.Verdict = stats.Unknown(stats.Missing, "measuring again", "the file holds no verdict that this version reads")
		}
	}
	if d.Noncontig != nil {
		d.Noncontig.Analyze()
	}
	if d.Fabric != nil {
		if err := d.Fabric.Check(); err != nil {
			return broken("fabric", "%w", err)
		}
	}
	return nil
}

// checkVersion compares a schema with the one that this version knows: "gobw.result/1".
func checkVersion(file, schema, known string) error {
	kind, number, _ := strings.Cut(known, "/")
	version, ok := strings.CutPrefix(schema, kind+"/")
	n, err := strconv.Atoi(version)
	if !ok || err != nil || n < 1 {
		return foreign(file, fmt.Sprintf("has the schema %q", schema))
	}
	if version != number {
		return &FileError{
			File: file, Place: `"schema"`, Err: fmt.Errorf("version %d is from a later gobw; this one reads %s", n, known),
			Remedy: "update gobw",
		}
	}
	return nil
}

// savedRemedy is what to do about a file that is no JSON of a result.
const savedRemedy = "give the .json of a result: --save FILE.json writes one"

func foreign(file, why string) error {
	return &FileError{File: file, Err: fmt.Errorf("not a result of gobw: it %s", why), Remedy: savedRemedy, Foreign: true}
}

// decode reads JSON into v; what is wrong with it is a [FileError] with its place.
func decode(file string, b []byte, v any) error {
	if err := checkCost(b, v); err != nil {
		return &FileError{File: file, Err: err, Remedy: "this is not a file of gobw, or it was edited"}
	}
	err := json.Unmarshal(b, v)
	if err == nil {
		return nil
	}
	fe := &FileError{File: file, Err: err}
	if syntax, is := errors.AsType[*json.SyntaxError](err); is {
		fe.Place = place(b, syntax.Offset)
		fe.Err, fe.Remedy = fmt.Errorf("not JSON: %w", err), savedRemedy
		if syntax.Offset >= int64(len(bytes.TrimRight(b, " \t\r\n"))) {
			fe.Err, fe.Remedy = errors.New("the file is cut short"), "copy it again; gobw itself never leaves half a file"
		}
	}
	if kind, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		if kind.Field == "" {
			return foreign(file, "holds a JSON "+kind.Value)
		}
		fe.Place = place(b, kind.Offset)
		fe.Err = fmt.Errorf("%s is a JSON %s, want a value for %v", kind.Field, kind.Value, kind.Type)
		fe.Remedy = "this is not a file of gobw, or it was edited"
	}
	return fe
}

func place(b []byte, offset int64) string {
	offset = min(max(offset, 0), int64(len(b)))
	before := b[:offset]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n') - 1
	return fmt.Sprintf("line %d, column %d", line, max(column, 1))
}

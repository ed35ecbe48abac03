package report

import (
	"encoding/json"
	"io"
	"os"
	"strings"
	"time"
)

// QualificationVersion is the version of the qualification that this package writes.
const QualificationVersion = "gobw.qualification/1"

const (
	qualificationPrefix = "gobw.qualification/"
	qualificationNumber = 1
)

// Outcome is how a test of a qualification ended.
type Outcome string

// Outcomes.
const (
	Passed  Outcome = "pass"
	Failed  Outcome = "fail"    // an expectation missed
	Broken  Outcome = "error"   // the test did not complete
	Skipped Outcome = "skipped" // not run: not asked for, or an earlier test lost the peer or the device
)

// Qualification is a plan that was run: each test with its document and verdict.
type Qualification struct {
	Schema   string              `json:"schema"`
	Plan     string              `json:"plan"` // its name
	File     string              `json:"file,omitempty"`
	Version  string              `json:"version"`
	Command  []string            `json:"command"`
	Started  time.Time           `json:"started"`
	Finished time.Time           `json:"finished"`
	Label    string              `json:"label,omitempty"`
	Outcome  Outcome             `json:"outcome"`
	ExitCode int                 `json:"exit_code"`
	Tests    []QualificationTest `json:"tests"`
}

// QualificationTest is one test of a qualification.
type QualificationTest struct {
	Name     string    `json:"name"`
	Command  string    `json:"command"` // as one would type it
	Outcome  Outcome   `json:"outcome"`
	Reason   string    `json:"reason,omitempty"`
	Seconds  float64   `json:"seconds"`
	LeftOut  []string  `json:"left_out,omitempty"` // expectations of the plan that were not judged (--leave-out)
	Document *Document `json:"document,omitempty"`
}

// Documents of the tests that have one.
func (q *Qualification) Documents() []*Document {
	var out []*Document
	for i := range q.Tests {
		if d := q.Tests[i].Document; d != nil {
			if d.Description == "" {
				d.Description = q.Tests[i].Name
			}
			out = append(out, d)
		}
	}
	return out
}

// SaveQualification writes a qualification as [Save] writes a document.
func SaveQualification(path string, q *Qualification) error {
	c := *q
	c.Schema = QualificationVersion
	b, err := json.MarshalIndent(&c, "", "  ")
	if err != nil {
		return &FileError{File: path, Err: err}
	}
	return WriteFile(path, func(w io.Writer) error {
		_, err := w.Write(append(b, '\n'))
		return err
	})
}

// LoadQualification reads a saved qualification; nil where the file holds something else.
func LoadQualification(path string) (*Qualification, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if json.Unmarshal(b, &head) != nil || !strings.HasPrefix(head.Schema, qualificationPrefix) {
		return nil, nil //nolint:nilnil // another kind of file is no error
	}
	return parseQualification(path, b)
}

func parseQualification(file string, b []byte) (*Qualification, error) {
	q := &Qualification{}
	if err := json.Unmarshal(b, q); err != nil {
		return nil, jsonError(file, b, err)
	}
	return q, checkVersion(file, q.Schema, qualificationPrefix, qualificationNumber)
}

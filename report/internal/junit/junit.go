// Package junit is what JUnit's XML has of a test, whatever was tested.
package junit

import (
	"encoding/xml"
	"fmt"
	"io"
)

// Case is one test: without a reason it passed.
type Case struct {
	Name      string  `xml:"name,attr"`
	Classname string  `xml:"classname,attr"`
	Time      string  `xml:"time,attr"`
	Failure   *Reason `xml:"failure,omitempty"`
	Error     *Reason `xml:"error,omitempty"`
	Skipped   *Reason `xml:"skipped,omitempty"`
	SystemOut string  `xml:"system-out,omitempty"`
}

// Reason is why a test did not pass.
type Reason struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// Write writes a suite, or several, as a file.
func Write(w io.Writer, suites any) error {
	b, err := xml.MarshalIndent(suites, "", "  ")
	if err != nil {
		return fmt.Errorf("junit: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, b)
	return err
}

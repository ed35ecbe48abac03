package render

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// suites is JUnit's file.
type suites struct {
	XMLName xml.Name `xml:"testsuites"`
	Name    string   `xml:"name,attr"`
	counts
	Suites []suite `xml:"testsuite"`
}

type counts struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Errors   int `xml:"errors,attr"`
	Skipped  int `xml:"skipped,attr"`
}

type suite struct {
	XMLName xml.Name `xml:"testsuite"`
	Name    string   `xml:"name,attr"`
	counts
	Time       string     `xml:"time,attr"`
	Timestamp  string     `xml:"timestamp,attr,omitempty"`
	Hostname   string     `xml:"hostname,attr,omitempty"`
	Properties []property `xml:"properties>property,omitempty"`
	Cases      []testCase `xml:"testcase"`
	SystemOut  string     `xml:"system-out,omitempty"`
}

type property struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// testCase passed unless it has a reason.
type testCase struct {
	Name      string `xml:"name,attr"`
	Classname string `xml:"classname,attr"`
	Time      string `xml:"time,attr"`
	Reason    *reason
	SystemOut string `xml:"system-out,omitempty"`
}

// reason is why a test did not pass; its element says how it ended: "failure", "error" or "skipped".
type reason struct {
	XMLName xml.Name
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// because is a reason of one text.
func because(ended, kind, text string) *reason {
	return &reason{XMLName: xml.Name{Local: ended}, Message: text, Type: kind, Text: text}
}

// writeJUnit counts the cases and writes the file.
func writeJUnit(w io.Writer, name string, all []suite) error {
	out := suites{Name: name, Suites: all}
	for i := range all {
		s := &all[i]
		s.Tests = len(s.Cases)
		count := map[string]*int{"error": &s.Errors, "failure": &s.Failures, "skipped": &s.Skipped}
		for _, c := range s.Cases {
			if c.Reason != nil {
				*count[c.Reason.XMLName.Local]++
			}
		}
		out.Tests, out.Failures, out.Errors, out.Skipped = out.Tests+s.Tests, out.Failures+s.Failures, out.Errors+
			s.Errors, out.Skipped+s.Skipped
	}
	b, err := xml.MarshalIndent(out, "", "  ")
	if err != nil {
		return fmt.Errorf("junit: %w", err)
	}
	return write(w, plain.XML(xml.Header+string(b)+"\n"))
}

// suiteOf is the suite of a document: a test case for each expectation, or, without expectations, for each record. An
// incomplete document has a case with an error.
func suiteOf(d *report.Document) suite {
	s := suite{Name: d.Name(), Hostname: d.Client.Host, Time: seconds(d.Finished.Sub(d.Started).Seconds())}
	if !d.Started.IsZero() {
		s.Timestamp = d.Started.UTC().Format("2006-01-02T15:04:05")
	}
	for _, p := range []property{
		{"command", plain.JoinWords(d.Command)}, {"version", d.Version}, {"device", d.Device()}, {"label", d.Label},
	} {
		if p.Value != "" {
			s.Properties = append(s.Properties, property{p.Name, p.Value})
		}
	}
	class := d.Tool + plain.When(d.Description != "", ".%s", d.Description)
	if len(d.Checks) == 0 {
		for _, r := range d.Measured() {
			c := testCase{
				Name: fmt.Sprintf("%s run %d", r.Plan, r.Run), Classname: class, Time: seconds(r.Seconds), SystemOut: inWords(&r),
			}
			s.Cases = append(s.Cases, c)
		}
	}
	for _, check := range d.Checks {
		c := testCase{Name: check.Point + ": " + check.Expression, Classname: class, Time: seconds(0)}
		if check.Word == stats.Pass {
			c.SystemOut = "actual: " + check.Actual
		} else {
			c.Reason = because("failure", "expectation",
				check.Expression+": actual "+check.Actual+plain.When(check.Reason != "", ": %s", check.Why()))
		}
		s.Cases = append(s.Cases, c)
	}
	if !d.Complete {
		why := strings.Join(heading(&report.Document{Failure: d.Failure}), "")
		s.Cases = append(s.Cases,
			testCase{Name: "run", Classname: class, Time: s.Time, Reason: because("error", cmp.Or(d.Cause, "incomplete"), why)})
	}
	s.SystemOut = strings.Join(d.Warnings, "\n")
	return s
}

// inWords says a record's figures in one line.
func inWords(r *report.Record) string {
	if r.Kind == "latency" && r.Latency != nil {
		s := "p50 " + plain.WithUnit(r.Latency.P50Ns/1e9, plain.Seconds)
		if p := r.Latency.P99Ns; p != nil {
			s += ", p99 " + plain.WithUnit(*p/1e9, plain.Seconds)
		}
		return s + fmt.Sprintf(" (%d samples)", r.Latency.Samples)
	}
	return plain.WithUnit(r.Bandwidth.AverageBitsPerS, plain.BitsPerS) + ", " +
		plain.WithUnit(r.MessagesPerS, plain.MessagesPerS)
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", max(0, s)) }

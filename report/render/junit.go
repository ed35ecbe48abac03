package render

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/internal/junit"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

type junitSuites struct {
	XMLName  xml.Name      `xml:"testsuites"`
	Name     string        `xml:"name,attr"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Errors   int           `xml:"errors,attr"`
	Skipped  int           `xml:"skipped,attr"`
	Suites   []junit.Suite `xml:"testsuite"`
}

// documentsJUnit writes a test suite for each document: a test case for each expectation, or for each record where nothing was
// expected. A run that did not complete is an error of the suite.
func documentsJUnit(w io.Writer, docs []*report.Document) error {
	all := junitSuites{Name: "gobw"}
	for _, d := range docs {
		all.add(junitOf(d))
	}
	return junit.Write(w, &all)
}

func (all *junitSuites) add(s junit.Suite) {
	s.Count()
	all.Tests += s.Tests
	all.Failures += s.Failures
	all.Errors += s.Errors
	all.Skipped += s.Skipped
	all.Suites = append(all.Suites, s)
}

func junitOf(d *report.Document) junit.Suite {
	s := junit.Suite{Name: plain.XML(d.Name()), Hostname: plain.XML(d.Client.Host), Time: seconds(d.Finished.Sub(d.Started).Seconds())}
	if !d.Started.IsZero() {
		s.Timestamp = d.Started.UTC().Format("2006-01-02T15:04:05")
	}
	add := func(name, value string) {
		if value != "" {
			s.Properties = append(s.Properties, junit.Property{Name: plain.XML(name), Value: plain.XML(value)})
		}
	}
	add("command", strings.Join(d.Command, " "))
	add("version", d.Version)
	add("device", d.Device())
	add("label", d.Label)
	class := d.Tool
	class += plain.When(d.Description != "", ".%s", d.Description)
	class = plain.XML(class)
	if len(d.Checks) == 0 {
		for i := range d.Records {
			r := &d.Records[i]
			c := junit.Case{Name: fmt.Sprintf("%s run %d", r.Plan, r.Run), Classname: class, Time: seconds(r.Seconds), SystemOut: plain.XML(inWords(r))}
			s.Cases = append(s.Cases, c)
		}
	}
	for _, check := range d.Checks {
		c := junit.Case{Name: plain.XML(check.Point + ": " + check.Expression), Classname: class, Time: seconds(0), SystemOut: plain.XML("actual: " + check.Actual)}
		if check.Word != stats.Pass {
			text := check.Expression + ": actual " + check.Actual
			text += plain.When(check.Reason != "", ": %s", check.Why())
			c.Failure = &junit.Reason{Message: plain.XML(text), Type: "expectation", Text: plain.XML(text)}
			c.SystemOut = ""
		}
		s.Cases = append(s.Cases, c)
	}
	if !d.Complete {
		reason := strings.Join(heading(&report.Document{Failure: d.Failure}), "")
		s.Cases = append(s.Cases, junit.Case{
			Name: "run", Classname: class, Time: s.Time,
			Error: &junit.Reason{Message: plain.XML(reason), Type: "incomplete", Text: plain.XML(reason)},
		})
	}
	if len(d.Warnings) > 0 {
		s.SystemOut = plain.XML(strings.Join(d.Warnings, "\n"))
	}
	return s
}

// inWords says a record's figures in one line.
func inWords(r *report.Record) string {
	if r.Kind == "latency" && r.Latency != nil {
		s := fmt.Sprintf("p50 %s us", plain.Number(r.Latency.P50Ns/1e3))
		if p := r.Latency.P99Ns; p != nil {
			s += fmt.Sprintf(", p99 %s us", plain.Number(*p/1e3))
		}
		return s + fmt.Sprintf(" (%d samples)", r.Latency.Samples)
	}
	return fmt.Sprintf("%s Gb/s, %s Mmsg/s", plain.Number(r.Bandwidth.AverageBitsPerS/1e9), plain.Number(r.MessagesPerS/1e6))
}

func seconds(s float64) string { return fmt.Sprintf("%.3f", max(0, s)) }

//go:build linux

package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// verdict is what became of a test.
type verdict string

const (
	passed verdict = "passed"
	failed verdict = "failed"
	notRun verdict = "not run" // cannot be run here, for a reason that is named
)

// outcome is one test's.
type outcome struct {
	Name     string  `json:"name"`
	Row      string  `json:"-"` // place in the group's matrix
	Column   string  `json:"-"`
	Verdict  verdict `json:"verdict"`
	Reason   string  `json:"reason,omitempty"`
	Seconds  float64 `json:"seconds"`
	Attempts int     `json:"attempts,omitempty"` // how often it ran, where that was counted
	First    string  `json:"first,omitempty"`    // why the first attempt failed
	Figures  string  `json:"figures,omitempty"`  // what both ends printed, in short
	Command  string  `json:"command,omitempty"`
}

// attempts is how often a test is run at the most whose failure may be the machine's: see [outcome.attempt].
const attempts = 3

// grave is what no second attempt excuses: wrong data, a crash, and a program that
// says that a test failed (exit status 6).
var grave = regexp.MustCompile(
	`(?i)\bcorrupt|\bdiffers?\b|wrong data|` +
		`\bpanic|\bdata race|signal: (segm|abort|bus|illegal)|exit status [56]\b|ran nothing`)

// attempt runs a test, and again where it says that its failure may be the machine's, and notes what became of it.
// Whoever runs the suite counts the second attempts: see [printDetails].
func (o *outcome) attempt(test func(attempt int) (figures string, again bool, err error)) {
	began := time.Now()
	for again := true; again && o.Attempts < attempts && o.Verdict != passed; {
		var err error
		o.Attempts++
		o.Verdict, o.Reason = passed, ""
		if o.Figures, again, err = test(o.Attempts); err != nil {
			o.Verdict, o.Reason = failed, err.Error()
		}
		if o.Attempts == 1 {
			o.First = o.Reason
		}
	}
	o.Seconds = time.Since(began).Seconds()
}

// line is the outcome on one line.
func (o outcome) line() string {
	text := fmt.Sprintf("%-7s %s: %.1f s", o.Verdict, o.Name, o.Seconds)
	if o.Attempts > 1 {
		text += fmt.Sprintf(", attempt %d", o.Attempts)
	}
	if o.Figures != "" {
		text += ": " + o.Figures
	}
	if o.Reason != "" {
		text += ": " + o.Reason
	}
	return text
}

func count(out []outcome) map[verdict]int {
	c := map[verdict]int{}
	for _, o := range out {
		c[o.Verdict]++
	}
	return c
}

func tally(out []outcome) string {
	c := count(out)
	parts := []string{fmt.Sprintf("%d passed", c[passed])}
	for _, v := range []verdict{failed, notRun} {
		if c[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c[v], v))
		}
	}
	return strings.Join(parts, ", ")
}

// printDetails lists everything that did not pass at once; nothing is left out in silence. TestLab reads these lines.
func printDetails(w io.Writer, out []outcome) {
	for _, o := range out {
		if o.Verdict == passed && o.Attempts > 1 {
			fmt.Fprintf(w, "LATER: %s: attempt %d: the first: %s\n", o.Name, o.Attempts, o.First)
		}
	}
	for _, v := range []verdict{notRun, failed} {
		for _, o := range out {
			if o.Verdict != v {
				continue
			}
			fmt.Fprintf(w, "%s: %s: %s\n", strings.ToUpper(string(v)), o.Name, o.Reason)
			if v == failed && o.Command != "" {
				fmt.Fprintf(w, "    %s\n", o.Command)
			}
		}
	}
}

// printMatrix prints a group as rows and columns, with a mark in each cell.
func printMatrix(w io.Writer, out []outcome) {
	marks := map[verdict]string{passed: "ok", failed: "FAIL", notRun: "-"}
	var rows, columns []string
	cells := map[[2]string]verdict{}
	for _, o := range out {
		if o.Row == "" {
			continue
		}
		if _, seen := cells[[2]string{o.Row, ""}]; !seen {
			rows = append(rows, o.Row)
			cells[[2]string{o.Row, ""}] = passed
		}
		if _, seen := cells[[2]string{"", o.Column}]; !seen {
			columns = append(columns, o.Column)
			cells[[2]string{"", o.Column}] = passed
		}
		cells[[2]string{o.Row, o.Column}] = o.Verdict
	}
	width := 0
	for _, r := range rows {
		width = max(width, len(r))
	}
	fmt.Fprintf(w, "%-*s", width, "")
	for _, c := range columns {
		fmt.Fprintf(w, " %*s", max(5, len(c)), c)
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintf(w, "%-*s", width, r)
		for _, c := range columns {
			mark := "." // no such cell
			if v, ok := cells[[2]string{r, c}]; ok {
				mark = marks[v]
			}
			fmt.Fprintf(w, " %*s", max(5, len(c)), mark)
		}
		fmt.Fprintln(w)
	}
}

package expect

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/stats"
)

// Fields that a program does not say itself.
const (
	ExitCode  = "exit"
	SentBytes = "sent_bytes" // by the software devices of both ends
)

// field is what a program must say in its line of JSON.
type field struct{ name, operator, want string }

var fieldPattern = regexp.MustCompile(`^\s*([\pL_][\pL\pN_]*)\s*(>=|<=|==|!=|<|>)\s*([^\s=].*?)\s*$`)

func parseField(text string) (*Expectation, error) {
	parts := fieldPattern.FindStringSubmatch(text)
	if parts == nil || len(text) > longest {
		return nil, &Error{
			Text: text, Column: 1,
			Problem: "of a program want exit == 0, or a field of the line of JSON that it prints: verified == true",
		}
	}
	return &Expectation{text: strings.TrimSpace(text), field: &field{parts[1], parts[2], strings.Trim(parts[3], `"`)}}, nil
}

// Judges tells whether the expectation is of a program's field of that name.
func (e *Expectation) Judges(name string) bool { return e.field != nil && e.field.name == name }

// judgeField compares numbers as numbers, and all else as text.
func (e *Expectation) judgeField(d *report.Document) report.Check {
	f, c := e.field, report.Check{Expression: e.text, Point: "all", Limit: e.field.want}
	if d.Program == nil {
		c.Actual, c.Verdict = "none", stats.Failure("", "", "this is no result of a program")
		return c
	}
	said, told := d.Program.Said[f.name]
	missing := fmt.Sprintf("the program has printed no line of JSON with %q", f.name)
	switch f.name {
	case ExitCode:
		said, told = float64(d.Program.ExitCode), true
	case SentBytes:
		said, told = float64(d.Program.SentBytes), d.Program.SentBytes > 0
		missing = "roce0 has sent nothing, or the program ended without exit or a return from main"
	}
	if !told {
		c.Actual, c.Verdict = "none", stats.Failure("", "", "%s", missing)
		return c
	}
	c.Actual = fmt.Sprintf("%.60s", fmt.Sprint(said))
	if f.name == SentBytes {
		c.Actual = strconv.FormatUint(d.Program.SentBytes, 10)
	}
	if code := d.Program.ExitCode; f.name == ExitCode && code > 159 { // beyond those of signals
		c.Actual += fmt.Sprintf(" (in the program %d)", code-256)
	}
	number, isNumber := said.(float64)
	limit, err := strconv.ParseFloat(f.want, 64)
	order := cmp.Compare(fmt.Sprint(said), f.want)
	if isNumber && err == nil {
		order = cmp.Compare(number, limit)
	}
	comparable := isNumber && err == nil || f.operator == "==" || f.operator == "!="
	c.Word = stats.Pass
	if d.Program.NotStarted || !comparable || !holds(f.operator, order) {
		c.Verdict = stats.Failure("", "", "%s", cmp.Or(d.Program.Output, "it is "+c.Actual))
	}
	return c
}

// Package gate is --expect and --accept.
package gate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/report"
	"github.com/gobw/gobw/report/expect"
	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Flags are the flags as they were typed.
type Flags struct {
	expect []string
	accept stats.Accepted
	wrong  cmdline.Faults
}

// Config is what must hold.
type Config struct {
	Expect []*expect.Expectation
	Accept stats.Accepted
}

// Accept binds --accept, which may be repeated.
func Accept(fs *pflag.FlagSet, wrong *cmdline.Faults, accept *stats.Accepted) {
	text := "also judge results of this `KIND`: disturbed, or unclear (the interval is too wide); for both: " +
		"disturbed,unclear"
	cmdline.Parsed(fs, wrong, accept, "accept", "", "", text, func(kinds string) (stats.Accepted, error) {
		more, err := stats.ParseAccepted(kinds)
		return append(*accept, more...), err
	})
}

// Bind adds the flags to a command; an example shows what it judges.
func (f *Flags) Bind(fs *pflag.FlagSet, example string) {
	fs.StringArrayVar(&f.expect, "expect", nil, "exit 1 if this `RULE` is missed, 7 if gobw cannot tell: "+example)
	Accept(fs, &f.wrong, &f.accept)
}

// Given tells whether anything is judged.
func (f *Flags) Given() bool { return len(f.expect) > 0 }

// Config checks the flags; check refuses what the command cannot judge.
func (f *Flags) Config(wrong *cmdline.Faults, o expect.Options, check func(e *expect.Expectation) error) (c Config) {
	*wrong = append(*wrong, f.wrong...)
	c.Accept = f.accept
	for _, text := range f.expect {
		e, err := expect.Parse(text, o)
		if err == nil && check != nil {
			err = check(e)
		}
		if err != nil {
			wrong.Note(cmdline.Prefixed("--expect", err))
			continue
		}
		c.Expect = append(c.Expect, e)
	}
	return c
}

// mostTold is how many missed expectations are named, and how many that cannot be told. The tables have all.
const mostTold = 5

// Verdict is an error that names the expectations that are missed or cannot be told; nil: there are none.
func Verdict(checks []report.Check) error {
	var errs []error
	for _, word := range []stats.Word{stats.Fail, stats.CannotTell} {
		code, verdict := exit.Missed, "missed: "
		if word == stats.CannotTell {
			code, verdict = exit.Undecided, "cannot tell: "
		}
		told := func(what string) error { return exit.With(code, errors.New(verdict+what)) }
		open := slices.DeleteFunc(slices.Clone(checks), func(c report.Check) bool { return c.Word != word })
		for _, c := range open[:min(len(open), mostTold)] {
			why := strings.TrimPrefix(c.Why(), string(word)+": ")
			errs = append(errs,
				told(c.Expression+plain.When(c.Point != "all", " at %s", c.Point)+": "+c.Actual+
					plain.When(why != "", " (%s)", why)))
		}
		if more := len(open) - mostTold; more > 0 {
			errs = append(errs, told(fmt.Sprintf("%d more", more)))
		}
	}
	return errors.Join(errs...)
}

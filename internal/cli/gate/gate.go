// Package gate is what commands judge by: --expect and --accept.
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

// AcceptText is the help of --accept.
const AcceptText = "pass or miss, in place of undecided, what is `KIND`: unclear (the interval is too wide), disturbed"

// Bind adds the flags to a command; an example shows what it judges.
func (f *Flags) Bind(fs *pflag.FlagSet, example string) {
	fs.StringArrayVar(&f.expect, "expect", nil, "exit 1 if this `RULE` is missed, 7 if it is undecided: "+example)
	cmdline.Parsed(fs, &f.wrong, &f.accept, "accept", "", "", AcceptText, stats.ParseAccepted)
}

// Given tells whether anything is judged.
func (f *Flags) Given() bool { return len(f.expect) > 0 }

// Config checks the flags and names all mistakes at once; check refuses what the command cannot judge.
func (f *Flags) Config(o expect.Options, check func(e *expect.Expectation) error) (c Config, err error) {
	wrong := slices.Clone(f.wrong)
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
	return c, errors.Join(wrong...)
}

// mostTold is how many missed and how many undecided expectations are told one by one: the tables have them all.
const mostTold = 5

// Verdict is an error that names each expectation that is missed or undecided; nil if there is none.
func Verdict(checks []report.Check) error {
	var errs []error
	told := map[stats.Word]int{}
	for _, c := range checks {
		if c.Word == stats.Pass {
			continue
		}
		if told[c.Word]++; told[c.Word] > mostTold {
			continue
		}
		text := c.Expression + plain.When(c.Point != "all", " at %s", c.Point) + ": " + c.Actual
		if c.Word == stats.Fail {
			errs = append(errs, exit.MissedError{What: "missed: " + text + plain.When(c.Reason != "", " (%s)", c.Reason)})
		} else {
			errs = append(errs, exit.UndecidedError{What: fmt.Sprintf("undecided: %s (%s)", text, strings.TrimPrefix(c.InWords(), string(stats.CannotTell)+": "))})
		}
	}
	for word, n := range told {
		switch more := n - mostTold; {
		case more <= 0:
		case word == stats.Fail:
			errs = append(errs, exit.MissedError{What: fmt.Sprintf("missed: %d more", more)})
		default:
			errs = append(errs, exit.UndecidedError{What: fmt.Sprintf("undecided: %d more", more)})
		}
	}
	return errors.Join(errs...)
}

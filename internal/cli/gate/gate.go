// Package gate is what the commands that compare results judge by: --fail-on and the flags beside it.
package gate

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/cli/exit"
	"github.com/gobw/gobw/internal/cli/output"
	"github.com/gobw/gobw/report/compare"
	"github.com/gobw/gobw/report/stats"
)

const defaultDisturbed = 0.5

// Flags are the flags as they were typed.
type Flags struct {
	FailOn, accept, margin string
	Confidence, Disturbed  float64
	WithoutGate            []stats.Cause // that --accept changes what is told of even where nothing is gated

	rules []string // that can apply, by their first words
}

// Config is how to judge.
type Config struct {
	Gate   *compare.Gate // nil: report only
	Accept stats.Accepted
	Margin float64
}

// Bind adds the flags to a command; rules and causes are those that can apply to it.
func (f *Flags) Bind(fs *pflag.FlagSet, rules, causes string) {
	for rule := range strings.SplitSeq(rules, ", ") {
		word, _, _ := strings.Cut(rule, ">")
		f.rules = append(f.rules, word)
	}
	f.rules = slices.Compact(f.rules)
	fs.StringVar(&f.FailOn, "fail-on", "", "exit 1 on: "+rules)
	fs.StringVar(&f.accept, "accept", "", "let pass what cannot be told for these causes: "+causes)
	fs.StringVar(&f.margin, "margin", "5%", "changes up to this count as the same")
	fs.Float64Var(&f.Confidence, "confidence", stats.DefaultConfidence, "of verdicts and intervals")
	f.Disturbed = defaultDisturbed
}

// BindDisturbed adds --disturbed, where results that were measured before are judged.
func (f *Flags) BindDisturbed(fs *pflag.FlagSet) {
	fs.Float64Var(&f.Disturbed, "disturbed", defaultDisturbed, "share of disturbed runs above which nothing is told")
}

// Config checks the flags and names all mistakes at once.
func (f *Flags) Config() (c Config, err error) {
	var wrong cmdline.Faults
	c.Margin, err = cmdline.ParseShare(f.margin)
	wrong.Note(cmdline.Prefixed("--margin", err))
	c.Accept, err = stats.ParseAccepted(f.accept)
	wrong.Note(cmdline.Prefixed("--accept", err))
	if f.FailOn != "" {
		c.Gate, err = compare.ParseGate(f.FailOn, f.rules...)
		wrong.Note(cmdline.Prefixed("--fail-on", err))
	} else if f.accept != "" && !slices.ContainsFunc(f.WithoutGate, c.Accept.Has) {
		wrong.Note(errors.New("--accept is for a gate: give --fail-on, too"))
	}
	wrong.If(!(f.Confidence > 0 && f.Confidence < 1), "--confidence %g: want more than 0 and less than 1", f.Confidence)
	wrong.If(!(f.Disturbed > 0 && f.Disturbed <= 1), "--disturbed %g: want more than 0, at most 1", f.Disturbed)
	return c, errors.Join(wrong...)
}

// Judge fails where the gate does, or where a result that it should have seen is lost.
func (c Config) Judge(lost output.Lost, comparisons ...*compare.Comparison) error {
	if c.Gate == nil {
		return nil
	}
	missed := lost.Missed(c.Accept)
	for _, one := range comparisons {
		for _, reason := range c.Gate.Judge(one, c.Accept) {
			missed = append(missed, exit.MissedError{What: reason})
		}
	}
	return errors.Join(missed...)
}

package qualify

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/gobw/gobw/internal/cli/cmdline"
	"github.com/gobw/gobw/internal/plan"
)

// TestLength changes how long the tests of a plan measure. The zero value leaves them as planned.
type TestLength struct {
	scale float64 // of counts and times; 0: as planned
	runs  int     // repetitions; 0: as planned
}

// What a shortened test keeps at least, unless the plan has less: enough for p99, which needs 1000 samples, and for a rate.
const (
	leastMessages = 1100
	leastTime     = 100 * time.Millisecond
	leastGridTime = 5 * time.Millisecond
)

func (l TestLength) asPlanned() bool { return (l.scale == 0 || l.scale == 1) && l.runs == 0 }

func (l TestLength) check() error {
	var wrong cmdline.Faults
	wrong.If(!(l.scale > 0 && l.scale <= 1000), "--scale %g: want more than 0, to 1000; 1 is as the plan says", l.scale)
	wrong.If(l.runs < 0 || l.runs > 1000, "--runs %d: want 1 to 1000; 0 is as the plan says", l.runs)
	return errors.Join(wrong...)
}

// stretch sets the flags of a parsed test to the length asked for.
func (l TestLength) stretch(fs *pflag.FlagSet, r parsedRun) error {
	set := map[string]string{}
	if l.runs > 0 {
		set["runs"] = strconv.Itoa(l.runs)
	}
	switch {
	case l.scale == 0:
	case r.grid != nil:
		set["min-time"] = l.time(r.grid.MinTime, leastGridTime).String()
	default: // without a length of its own the test has the one of two gobw ends
		settled, err := plan.Settle(r.Test.Plan, plan.Limits{Dialled: true}, plan.Peer{}, plan.Policy{})
		if err != nil {
			return err
		}
		p := settled.Spec()
		if p.Iterations > 0 {
			n := max(uint64(float64(p.Iterations)*l.scale), min(p.Iterations, leastMessages))
			list := uint64(max(p.PostList, 1))
			set["iters"] = strconv.FormatUint((n+list-1)/list*list, 10)
		} else {
			set["duration"] = l.time(p.Duration, leastTime).String()
		}
		if p.Margin > 0 {
			set["margin"] = time.Duration(float64(p.Margin) * min(l.scale, 1)).Round(time.Millisecond).String()
		}
	}
	var errs []error
	for name, value := range set {
		errs = append(errs, fs.Set(name, value))
	}
	return errors.Join(errs...)
}

func (l TestLength) time(d, least time.Duration) time.Duration {
	return max(time.Duration(float64(d)*l.scale), min(d, least)).Round(time.Millisecond)
}

// typed is a command line as one would type it: its first words and the flags that are set.
func typed(words []string, fs *pflag.FlagSet) []string {
	out := append([]string(nil), words...)
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Changed {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand
		}
		if list, is := f.Value.(pflag.SliceValue); is {
			for _, v := range list.GetSlice() {
				out = append(out, name, v)
			}
			return
		}
		switch value := f.Value.String(); {
		case value == f.NoOptDefVal: // --verify, -b
			out = append(out, name)
		case f.NoOptDefVal != "":
			out = append(out, "--"+f.Name+"="+value)
		default:
			out = append(out, name, value)
		}
	})
	return out
}

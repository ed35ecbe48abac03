package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/plain"
)

// Word is what a verdict says.
type Word string

// Words of a gate: did what is expected hold?
const (
	Pass Word = "pass"
	Fail Word = "fail"
)

// Words of a comparison. Same is a claim, too: the interval lies within the margin.
const (
	Better Word = "better"
	Worse  Word = "worse"
	Same   Word = "same"
)

// CannotTell is the third word of a gate and the fourth of a comparison. It is said where no other word can be claimed.
const CannotTell Word = "cannot tell"

// Cause is the short name of why a gate failed or why nothing can be told. Other packages add causes of a failure
// ("slow", "lost").
type Cause string

// Causes for which nothing can be told.
const (
	TooFew     Cause = "too-few"    // runs, for an interval
	Unclear    Cause = "unclear"    // the interval holds both answers
	Disturbed  Cause = "disturbed"  // too many of the runs were
	Incomplete Cause = "incomplete" // the run was interrupted
	Missing    Cause = "missing"    // one side, or the figure, is not there
	NotFinite  Cause = "not-finite" // a figure is infinite or not a number
	Impossible Cause = "impossible" // what was measured cannot be true
)

// Causes lists the causes for which nothing can be told.
func Causes() []Cause {
	return []Cause{TooFew, Unclear, Disturbed, Incomplete, Missing, NotFinite, Impossible}
}

// Accepted are causes that a gate accepts, [Unclear] or [Disturbed] or both: it then passes or fails by the figures
// alone. A figure that is missing is never accepted.
type Accepted []Cause

// ParseAccepted reads a list such as "unclear,disturbed".
func ParseAccepted(text string) (Accepted, error) {
	var out Accepted
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	for word := range strings.SplitSeq(text, ",") {
		c := Cause(strings.TrimSpace(word))
		if c != Unclear && c != Disturbed {
			return nil, fmt.Errorf("%q: want %s or %s, or both: %[2]s,%[3]s", c, Unclear, Disturbed)
		}
		out = append(out, c)
	}
	return out, nil
}

// Has tells whether the cause is accepted.
func (a Accepted) Has(c Cause) bool { return slices.Contains(a, c) }

// Verdict is what a gate or a comparison found, and why.
type Verdict struct {
	Word   Word   `json:"verdict"`
	Cause  Cause  `json:"cause,omitempty"`  // where it failed or cannot tell; of a pass: what was accepted
	Reason string `json:"reason,omitempty"` // in words, with the interval and its coverage
	Settle string `json:"settle,omitempty"` // what would settle or mend it
}

// String is the verdict in a word or two, for a cell of a table.
func (v Verdict) String() string {
	if v.Word == CannotTell && v.Cause != "" {
		return fmt.Sprintf("%s: %s", v.Word, v.Cause)
	}
	return string(v.Word)
}

// Shown is the verdict in a word or two, in capitals where it failed or nothing can be told. A pass that needed an
// accepted cause shows the cause.
func (v Verdict) Shown() string {
	switch {
	case v.Word == Pass && v.Cause != "":
		return "accepted: " + string(v.Cause)
	case v.Word == Fail || v.Word == CannotTell:
		return strings.ToUpper(string(v.Word)) + strings.TrimPrefix(v.String(), string(v.Word))
	}
	return string(v.Word)
}

// InWords is the verdict with its reason, and what would settle it.
func (v Verdict) InWords() string {
	s := v.String()
	if v.Reason != "" {
		s += ": " + v.Reason
	}
	if v.Settle != "" && v.Word == CannotTell {
		s += "; try " + v.Settle
	} else if v.Settle != "" {
		s += "; " + v.Settle
	}
	return s
}

// Failure is the verdict that what is expected does not hold.
func Failure(c Cause, settle, format string, args ...any) Verdict {
	return Verdict{Word: Fail, Cause: c, Reason: fmt.Sprintf(format, args...), Settle: settle}
}

// Gravest is the word of several gates together: fail before cannot tell before pass. Of none nothing can be told.
func Gravest(words ...Word) Word {
	switch {
	case slices.Contains(words, Fail):
		return Fail
	case len(words) == 0 || slices.Contains(words, CannotTell):
		return CannotTell
	}
	return Pass
}

// Why is the reason; where nothing can be told, with the cause and what would settle it.
func (v Verdict) Why() string {
	if v.Word == CannotTell {
		return v.InWords()
	}
	return v.Reason
}

// Unknown is the verdict that nothing can be told.
func Unknown(c Cause, settle, format string, args ...any) Verdict {
	return Verdict{Word: CannotTell, Cause: c, Reason: fmt.Sprintf(format, args...), Settle: settle}
}

// DefaultMargin is the change up to which two figures count as the same.
const DefaultMargin = 0.05

// Procedure names the correction for many figures judged together, for outputs to say.
const Procedure = "Benjamini-Hochberg"

// Conclude judges effects together. Same: the interval lies within ±same, the margin. Better and worse: the interval
// does not hold zero, and p is at most [Level] after its correction for all effects (Benjamini-Hochberg). Where all
// figures are equal, fewer than 1 - confidence of comparisons raise an alarm, however many figures they have. A claim
// that all are the same needs no correction, as all must hold.
func Conclude(effects []Effect, same, confidence float64) []Verdict {
	adjusted := BenjaminiHochberg(plain.Each(effects, func(e Effect) float64 { return e.P }))
	out := make([]Verdict, len(effects))
	for i, e := range effects {
		out[i] = e.conclude(same, confidence, adjusted[i], len(effects))
	}
	return out
}

// conclude judges one of several effects. together is their number, and p is already corrected for all of them.
func (e Effect) conclude(same, confidence, p float64, together int) Verdict {
	if math.IsNaN(e.Change) || math.IsInf(e.Change, 0) {
		return Unknown(NotFinite, "", "a figure is missing, infinite or not a number")
	}
	if e.Interval == nil {
		if e.Pairs {
			needed := LeastPairs(confidence)
			return Unknown(TooFew, fmt.Sprintf("--pairs %d", needed), "pairs: %d, needed: %d", e.N, needed)
		}
		needed := LeastRuns(confidence)
		return Unknown(TooFew, fmt.Sprintf("measuring each side with --runs %d", needed), "runs on a side: %d, needed: %d",
			e.N, needed)
	}
	worseBy, low, high := e.Worse()
	worse, better := low > 0, high < 0 // by the interval
	said := inWords(e.Change) + ", " + e.Interval.changes()
	switch {
	// The interval lies on one side of zero, and the change does not.
	case worse && worseBy <= 0, better && worseBy >= 0:
		return Unknown(Unclear, e.settle(same, confidence, together),
			"%s: the medians disagree, so the runs fall into two groups", said)
	case low >= -same && high <= same:
		return Verdict{Word: Same, Reason: said}
	case worse && p <= Level(confidence, together):
		return Verdict{Word: Worse, Reason: said}
	case better && p <= Level(confidence, together):
		return Verdict{Word: Better, Reason: said}
	}
	if together > 1 && (worse || better) {
		return Unknown(Unclear, e.settle(same, confidence, together),
			"%s; with %d figures, some differ by chance (%s: p = %.2g)", said, together, Procedure, p)
	}
	return Unknown(Unclear, e.settle(same, confidence, together), "%s", said)
}

// Level is the largest p at which a difference is told. Where all figures are equal, the procedure raises false alarms
// as often as its level allows. So several are judged at four fifths of it: false alarms stay below what is promised.
func Level(confidence float64, together int) float64 {
	if together > 1 {
		return 0.8 * (1 - confidence)
	}
	return 1 - confidence
}

// settle says how many runs or pairs would likely tell.
func (e Effect) settle(same, confidence float64, together int) string {
	what, leastFor := "runs", LeastRuns
	if e.Pairs {
		what, leastFor = "pairs", LeastPairs
	}
	strictest := 1 - Level(confidence, together)/float64(together) // the confidence that tells one difference among all
	half, change := (e.Interval.High-e.Interval.Low)/2, math.Abs(e.Change)
	distance := max(change, same-change) // from zero or from the margin, whichever is told with fewer runs
	needed := Needed(what, e.N, leastFor(strictest), half, distance)
	return plain.When(!e.Pairs && strings.HasPrefix(needed, "--"), "measuring each side with ") + needed
}

// mostNeeded is how many runs or pairs are worth advising.
const mostNeeded = 1000

// Needed says how many runs or pairs, but no fewer than atLeast, would likely narrow an interval until half of its
// width is the distance. half is that half width with n of them. It narrows with the root of their number.
func Needed(what string, n, atLeast int, half, distance float64) string {
	need := math.Ceil(float64(n) * (half / distance) * (half / distance))
	if !(need <= mostNeeded) { // or it is not a number
		return fmt.Sprintf("a quieter machine (more than %d %s would be needed)", mostNeeded, what)
	}
	return fmt.Sprintf("--%s %d", what, max(n+1, atLeast, int(need)))
}

// NotWorse tells whether the interval shows that the figure is worse by no more than the limit.
func (e Effect) NotWorse(limit float64) bool {
	_, _, high := e.Worse()
	return high <= limit
}

// changes is an interval of a change in words: "between -1.2 % and +3.4 % (95.2 % interval)".
func (i Interval) changes() string {
	return fmt.Sprintf("between %s and %s (%s interval)", inWords(i.Low), inWords(i.High), Percent(i.Confidence))
}

// inWords writes a change as a percentage. From elevenfold on it writes the factor, which says more.
func inWords(change float64) string {
	if change >= 10 {
		return fmt.Sprintf("%.0f times", 1+change)
	}
	return fmt.Sprintf("%+.1f %%", 100*change)
}

// Percent writes a share as a percentage, with the digits that tell it from 100 %.
func Percent(share float64) string {
	digits := 3
	if share > 0.99 && share < 1 {
		digits = 4
	}
	return fmt.Sprintf("%.*g %%", digits, 100*share)
}

// BenjaminiHochberg adjusts p values that are judged together. Of the differences whose adjusted p is at most a level,
// no more than that share is expected to be false.
func BenjaminiHochberg(ps []float64) []float64 {
	order := plain.UpTo(0, len(ps))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ps[a], ps[b]) })
	out := make([]float64, len(ps))
	smallest := 1.0
	for rank, at := range slices.Backward(order) {
		smallest = min(smallest, ps[at]*float64(len(ps))/float64(rank+1))
		out[at] = smallest
	}
	return out
}

package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Verdict is the gravest of what was found of hosts and paths. A run that could have seen nothing cannot tell.
func (m *Matrix) Verdict() stats.Word {
	var words []stats.Word
	for _, h := range m.Hosts {
		words = append(words, h.Word)
	}
	for _, f := range m.Findings {
		words = append(words, f.Word)
	}
	if m.Judged.HostPower == 0 || m.Cells.Len() == 0 || m.stopped() {
		words = append(words, stats.CannotTell)
	}
	return stats.Gravest(words...)
}

// scheduled is how many rounds of the schedule were run.
func (m *Matrix) scheduled() int {
	return len(slices.DeleteFunc(slices.Clone(m.Rounds), func(r Round) bool { return r.Retest }))
}

// stopped tells of a run that ended before its schedule.
func (m *Matrix) stopped() bool { return m.scheduled() < m.Planned }

// Line is the verdict with what was found in one line.
func (m *Matrix) Line() string {
	counts := map[string]int{}
	var kinds []string
	count := func(v stats.Verdict, subject string) {
		if v.Word == stats.Pass {
			return
		}
		kind := "undecided " + subject
		if v.Word == stats.Fail {
			kind = strings.ReplaceAll(string(v.Cause), "-", " ") + " " + subject
		}
		if counts[kind]++; counts[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for _, f := range m.Findings {
		if f.OfHost() {
			count(f.Verdict, string(WholeOf))
		} else {
			count(f.Verdict, string(f.Subject))
		}
	}
	for _, h := range m.Hosts {
		count(h.Verdict, string(WholeOf))
	}
	parts := plain.Each(kinds, func(k string) string { return plain.Plural(counts[k], k) })
	switch {
	case len(parts) > 0:
	case m.Cells.Len() == 0:
		parts = append(parts, "nothing was measured")
	case m.Judged.HostPower == 0:
		parts = append(parts, fmt.Sprintf("too noisy (%s from one measurement to the next)", Percent(m.Judged.Sigma)))
	default:
		parts = append(parts, "nothing bad found")
	}
	if m.stopped() {
		parts = append(parts, fmt.Sprintf("after %d of %d rounds", m.scheduled(), m.Planned))
	}
	word := strings.ToUpper(string(m.Verdict()))
	if m.Verdict() == stats.CannotTell {
		word = "UNDECIDED"
	}
	return fmt.Sprintf("%s: %s. %d of %s, %s, %s and %s.", word, strings.Join(parts, ", "), m.Took(),
		plain.Plural(len(m.Hosts), "host"), plain.Plural(len(m.Rails), "rail"), plain.Plural(m.scheduled(), "round"), plain.Plural(len(m.Rounds)-m.scheduled(), "re-test"))
}

// Percent writes a share.
func Percent(share float64) string { return fmt.Sprintf("%.1f%%", share*100) }

// Tested says what the run could have seen.
func (m *Matrix) Tested() string {
	j := m.Judged
	if len(m.Rounds) == 0 {
		return "No round was run: nothing was tested."
	}
	s := fmt.Sprintf("Tested %d of %d ordered pairs (%s), pattern %s. One measurement differs from the next by %s.", j.Tested, j.Pairs,
		Percent(float64(j.Tested)/float64(max(j.Pairs, 1))), m.Pattern, Percent(j.Sigma))
	switch {
	case j.HostPower == 0:
		return s + " No host is known to be good, so this run can tell nothing: give it a longer --time, longer rounds (--round), or a quieter network."
	case j.Untimed >= j.Tested:
		return s + " Several senders met at each receiver: connections and data are judged here, speeds are not."
	case j.Untimed > 0:
		s += fmt.Sprintf(" Speeds are judged of %d of them, where one sender had a receiver for itself.", j.Tested-j.Untimed)
	}
	s += fmt.Sprintf(" This run finds (95 %%): a host slower by %s, a tested link slower by %s.", Percent(j.HostPower), Percent(j.LinkPower))
	s += plain.When(j.Tested < j.Pairs, " Links that were not tested can be anything.")
	s += plain.When(j.NotReproduced > 0, " Looked slow once and did not when tested again: %s.", plain.Plural(j.NotReproduced, "link"))
	s += plain.When(j.Untried > 0, " Looked slow and not tested again, as there were too many: %s.", plain.Plural(j.Untried, "link"))
	return s
}

// Knee is the fan-in from which on a receiver gets less than nine tenths of the best; 0: none.
func Knee(all []Incast) int {
	best, knee := 0.0, 0
	for _, i := range all {
		best = max(best, i.Receiver)
	}
	for _, i := range slices.Backward(all) {
		if i.Receiver >= 0.9*best {
			break
		}
		knee = i.FanIn
	}
	return knee
}

// mostAdvice is how many things are advised, and of how many hosts each is told.
const mostAdvice = 8

// Advice is what an operator does next. Nothing of it is run. Names that are none for a host do not come into a command.
func (m *Matrix) Advice(day string) []string {
	bad := m.Bad()
	var out []string
	named := slices.DeleteFunc(slices.Sorted(slices.Values(bad)), func(name string) bool { return !Pasteable(name) })
	if list := strings.Join(named, ","); list != "" {
		out = append(out, "For the next job:    --exclude="+list,
			fmt.Sprintf("To drain (not run):  scontrol update nodename=%s state=drain reason=\"gobw fabric %s\"", list, day))
	}
	if odd := slices.DeleteFunc(bad, Pasteable); len(odd) > 0 {
		out = append(out, fmt.Sprintf("Not in a list for commands, as their names are none for a host: %q", odd))
	}
	var order []string
	where := map[string][]string{}
	add := func(who string, v stats.Verdict) {
		if v.Word == stats.Pass || v.Settle == "" {
			return
		}
		if where[v.Settle] == nil {
			order = append(order, v.Settle)
		}
		where[v.Settle] = append(where[v.Settle], who)
	}
	for _, f := range m.Findings {
		add(m.Where(f), f.Verdict)
	}
	for _, h := range m.Hosts {
		add(h.Called(), h.Verdict)
	}
	for _, what := range order[:min(len(order), mostAdvice)] {
		who := where[what]
		more := plain.When(len(who) > mostAdvice, " and %d more", len(who)-mostAdvice)
		out = append(out, strings.Join(who[:min(len(who), mostAdvice)], "; ")+more+": "+what)
	}
	return out
}

// Pasteable tells whether a name can stand in a command: letters, digits, dots and dashes, and no option.
func Pasteable(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return name != "" && name[0] != '-' && strings.Trim(name, letters) == ""
}

package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gobw/gobw/report/plain"
	"github.com/gobw/gobw/report/stats"
)

// Tested says what the run could have seen.
func (m *Matrix) Tested() string {
	j := m.Judged
	if len(m.Rounds) == 0 {
		return "No round was run: nothing was tested."
	}
	s := fmt.Sprintf("Tested %d of %d ordered pairs (%s), pattern %s. Measurements of one path vary by %s.",
		j.Tested, j.Pairs,
		stats.Percent(float64(j.Tested)/float64(max(j.Pairs, 1))), m.Pattern, stats.Percent(j.Sigma))
	if j.HostPower == 0 {
		return s + " No host is known to be good."
	}
	s += fmt.Sprintf(" With a probability of 95 %% this run detects a host that is %s slower, "+
		"or a tested link that is %s slower.", stats.Percent(j.HostPower), stats.Percent(j.LinkPower))
	s += plain.When(j.Tested < j.Pairs, " Links that were not tested are unknown.")
	s += plain.When(j.Untried > 0, " Slow once, not tested again because there were too many: %s.",
		plain.Plural(j.Untried, "link"))
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

// Pasteable tells whether a name can stand in a command: letters, digits, dots and dashes, and no option.
func Pasteable(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return name != "" && name[0] != '-' && strings.Trim(name, letters) == ""
}

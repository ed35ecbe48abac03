//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// cellLine is what a run of the perftest group with -full prints of a cell: its verdict, row, column and role.
var cellLine = regexp.MustCompile(`^(passed|failed) +(ib_\w+ [A-Z]+) ([^,]+), ([^,:]+, [^,:]+): `)

// tables prints the perftest group's matrices from what one or several runs with -full printed, and the lines of the
// cells that failed or ran more than once. A cell that several runs had counts with its pass, if one passed.
func tables(w io.Writer, logs []string) error {
	cells := map[string]outcome{} // by name
	lines := map[string]string{}
	var roles, names []string
	for _, log := range logs {
		text, err := os.ReadFile(log)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			m := cellLine.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			role := m[4]
			if !slices.Contains(roles, role) {
				roles = append(roles, role)
			}
			name := m[2] + " " + m[3] + ", " + role
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			if cells[name].Verdict != passed {
				cells[name], lines[name] = outcome{Row: m[2], Column: m[3], Verdict: verdict(m[1])}, strings.TrimSpace(line)
			}
		}
	}
	if len(cells) == 0 {
		return fmt.Errorf("no cell in %s: give what 'scripts/lab test --full --only perftest' printed",
			strings.Join(logs, ", "))
	}
	for _, role := range roles {
		var out []outcome
		for _, c := range combinations(true) {
			if o, ran := cells[c.row()+" "+c.variant.name+", "+role]; ran {
				out = append(out, o)
			}
		}
		if len(out) == 0 { // cells beside the matrix, such as those of multicast: below, where one failed
			continue
		}
		fmt.Fprintf(w, "\n%s: %s\n", role, tally(out))
		printMatrix(w, out)
	}
	fmt.Fprintln(w)
	for _, role := range roles {
		for _, name := range names {
			if !strings.HasSuffix(name, ", "+role) {
				continue
			}
			if cells[name].Verdict == failed || strings.Contains(lines[name], ", attempt ") {
				fmt.Fprintln(w, lines[name])
			}
		}
	}
	return nil
}

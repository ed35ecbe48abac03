package trend

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
)

// Acceptance is what a person said of a change: the results since a time are as they should be.
type Acceptance struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	From   string    `json:"from"` // the flag, or the file and its line
}

func (a Acceptance) String() string {
	return fmt.Sprintf("results since %s: %s (%s)", day(a.Since), cmp.Or(a.Reason, "no reason given"), a.From)
}

// ParseAcceptance reads a date and a reason: "2026-11-01 new firmware".
func ParseAcceptance(text, from string, now time.Time) (Acceptance, error) {
	date, reason, _ := strings.Cut(strings.TrimSpace(text), " ")
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		return Acceptance{}, fmt.Errorf("%q: want a date and a reason: '2026-11-01 new firmware'", text)
	}
	if at.After(now) {
		return Acceptance{}, fmt.Errorf("%s is in the future: accept results that were measured", date)
	}
	return Acceptance{Since: at, Reason: strings.TrimSpace(reason), From: from}, nil
}

// ReadAcceptances reads a file with an acceptance on each line. Lines that are empty or begin with # are comments. It
// returns the newest, which is the one that holds.
func ReadAcceptances(r io.Reader, file string, now time.Time) (newest Acceptance, err error) {
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		from := fmt.Sprintf("%s:%d", file, n)
		a, err := ParseAcceptance(text, from, now)
		if err != nil {
			return Acceptance{}, fmt.Errorf("%s: %w", from, err)
		}
		if a.Reason == "" {
			return Acceptance{}, fmt.Errorf("%s: no reason: write 'DATE REASON'", from)
		}
		newest = newest.Newer(a)
	}
	return newest, lines.Err()
}

// Newer is the acceptance of two that holds.
func (a Acceptance) Newer(b Acceptance) Acceptance {
	if b.Since.Before(a.Since) {
		return a
	}
	return b
}

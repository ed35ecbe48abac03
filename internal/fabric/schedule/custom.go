package schedule

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/internal/fabric/hostlist"
)

// Bounds of a schedule read from a file.
const (
	mostCustomRounds = 100_000
	mostCustomFlows  = 10_000_000
)

// ReadCustom reads a schedule. Two forms are known and told apart by their first line: ClusterKit's "ROUND HOST1 HOST2",
// one pair a line, and SuperBench's "a,b;c,d", one round a line. Hosts are names or ranks; "#" begins a comment. A pair of which an
// end takes no part is left out, the others are tested.
func ReadCustom(r io.Reader, roster []Member) ([]Round, error) {
	c := customReader{names: map[string]int{}, roster: roster}
	for _, m := range roster {
		if m.Host != "" {
			c.names[m.Host] = m.Place
		}
	}
	if err := hostlist.Lines(r, c.line); err != nil {
		return nil, err
	}
	c.rounds = slices.DeleteFunc(c.rounds, func(r Round) bool { return len(r.Flows) == 0 })
	if len(c.rounds) == 0 {
		return nil, errors.New("no round of hosts that take part: want lines \"ROUND HOST1 HOST2\" or \"a,b;c,d\"")
	}
	for i := range c.rounds {
		c.rounds[i].Label = fmt.Sprintf("custom %d", i+1)
	}
	return c.rounds, nil
}

type customReader struct {
	names  map[string]int // to places
	roster []Member       // by rank
	rounds []Round
	place  map[string]int // ClusterKit's round number to its place
	rows   bool           // SuperBench's form
	flows  int
}

func (c *customReader) line(text string) error {
	rows := strings.Contains(text, ",")
	if len(c.rounds) > 0 && rows != c.rows {
		return errors.New("the two forms \"ROUND HOST1 HOST2\" and \"a,b;c,d\" do not mix")
	}
	c.rows = rows
	if rows {
		at, err := c.round()
		if err != nil {
			return err
		}
		for pair := range strings.SplitSeq(text, ";") {
			if pair = strings.TrimSpace(pair); pair == "" {
				continue
			}
			a, b, found := strings.Cut(pair, ",")
			if !found {
				return fmt.Errorf("%q: want two hosts with a comma between", pair)
			}
			if err := c.add(at, a, b); err != nil {
				return err
			}
		}
		return nil
	}
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return fmt.Errorf("%d words: want \"ROUND HOST1 HOST2\"", len(fields))
	}
	if _, err := strconv.ParseUint(fields[0], 10, 32); err != nil {
		return fmt.Errorf("round %q: want a number", fields[0])
	}
	at, known := c.place[fields[0]]
	if !known {
		var err error
		if at, err = c.round(); err != nil {
			return err
		}
		if c.place == nil {
			c.place = map[string]int{}
		}
		c.place[fields[0]] = at
	}
	return c.add(at, fields[1], fields[2])
}

// round opens a new round.
func (c *customReader) round() (int, error) {
	if len(c.rounds) == mostCustomRounds {
		return 0, fmt.Errorf("more than %d rounds", mostCustomRounds)
	}
	c.rounds = append(c.rounds, Round{})
	return len(c.rounds) - 1, nil
}

func (c *customReader) add(at int, a, b string) error {
	from, err := c.host(strings.TrimSpace(a))
	if err != nil {
		return err
	}
	to, err := c.host(strings.TrimSpace(b))
	if err != nil {
		return err
	}
	if from < 0 || to < 0 {
		return nil
	}
	if from == to {
		return fmt.Errorf("%q is paired with itself", a)
	}
	if c.flows += 2; c.flows > mostCustomFlows {
		return fmt.Errorf("more than %d flows", mostCustomFlows)
	}
	c.rounds[at].Flows = append(c.rounds[at].Flows, Flow{from, to}, Flow{to, from})
	return nil
}

func (c *customReader) host(s string) (int, error) {
	if i, known := c.names[s]; known {
		return i, nil
	}
	i, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("host %q is not one of this run", s)
	}
	if i < 0 || i >= len(c.roster) {
		return 0, fmt.Errorf("rank %d: there are ranks 0 to %d", i, len(c.roster)-1)
	}
	return c.roster[i].Place, nil
}

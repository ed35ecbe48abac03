package fabric

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/gobw/gobw/internal/fabric/schedule"
)

// Bounds of a schedule read from a file.
const (
	mostCustomRounds = 100_000
	mostCustomFlows  = 10_000_000
)

// ReadCustom reads a schedule: ClusterKit's lines "ROUND HOST1 HOST2", or SuperBench's lines "a,b;c,d", each of which is a round.
// Hosts are names or ranks; "#" begins a comment. place is a host's among those that are tested, by rank and by name; -1: it takes
// no part, and its pairs are left out.
func ReadCustom(r io.Reader, ranks []int, names map[string]int) ([]schedule.Round, error) {
	var rounds []schedule.Round
	at := map[string]int{} // of a round's name
	flows := 0
	host := func(text string) (int, error) {
		text = strings.TrimSpace(text)
		if place, known := names[text]; known {
			return place, nil
		}
		rank, err := strconv.Atoi(text)
		switch {
		case err != nil:
			return 0, fmt.Errorf("host %q is not one of this run", text)
		case rank < 0 || rank >= len(ranks):
			return 0, fmt.Errorf("rank %d: there are ranks 0 to %d", rank, len(ranks)-1)
		}
		return ranks[rank], nil
	}
	add := func(round, first, second string) error {
		from, err := host(first)
		to, err2 := host(second)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if from == to && from >= 0 {
			return fmt.Errorf("%q is paired with itself", first)
		}
		k, known := at[round]
		if !known {
			if k = len(rounds); k == mostCustomRounds {
				return fmt.Errorf("more than %d rounds", mostCustomRounds)
			}
			at[round], rounds = k, append(rounds, schedule.Round{})
		}
		if from < 0 || to < 0 {
			return nil
		}
		if flows += 2; flows > mostCustomFlows {
			return fmt.Errorf("more than %d flows", mostCustomFlows)
		}
		rounds[k].Flows = append(rounds[k].Flows, schedule.Flow{From: from, To: to}, schedule.Flow{From: to, To: from})
		return nil
	}
	rows := 0
	err := readLines(r, func(text string) error {
		if !strings.Contains(text, ",") {
			fields := strings.Fields(text)
			if len(fields) != 3 || rows > 0 {
				return errors.New("want \"ROUND HOST1 HOST2\" in every line, or \"a,b;c,d\" in every line")
			}
			if _, err := strconv.ParseUint(fields[0], 10, 32); err != nil {
				return fmt.Errorf("round %q: want a number", fields[0])
			}
			return add(fields[0], fields[1], fields[2])
		}
		if rows++; len(rounds) > 0 && rows == 1 {
			return errors.New("want \"ROUND HOST1 HOST2\" in every line, or \"a,b;c,d\" in every line")
		}
		for pair := range strings.SplitSeq(strings.Trim(text, "; "), ";") {
			first, second, found := strings.Cut(pair, ",")
			if !found {
				return fmt.Errorf("%q: want two hosts with a comma between", pair)
			}
			if err := add("row "+strconv.Itoa(rows), first, second); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	rounds = slices.DeleteFunc(rounds, func(r schedule.Round) bool { return len(r.Flows) == 0 })
	if len(rounds) == 0 {
		return nil, errors.New("no round of hosts that take part: want lines \"ROUND HOST1 HOST2\" or \"a,b;c,d\"")
	}
	for i := range rounds {
		rounds[i].Label = fmt.Sprintf("custom %d", i+1)
	}
	return rounds, nil
}

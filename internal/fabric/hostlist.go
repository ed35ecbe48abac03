package fabric

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// mostHosts bounds an expansion: a list is read from outside.
const mostHosts = 1 << 17

// ExpandHosts lists the hosts of a list as Slurm spells it, "r[1-2]n[01-03,7]", in its order; duplicates stay. Its answers are
// scontrol's.
func ExpandHosts(list string) ([]string, error) {
	var out []string
	for _, word := range hostWord.FindAllString(list, -1) {
		hosts, err := expandWord(strings.TrimSpace(word))
		if err != nil {
			return nil, fmt.Errorf("host list %.80q: %w", list, err)
		}
		if out = append(out, hosts...); len(out) > mostHosts {
			return nil, fmt.Errorf("host list %.80q: more than %d hosts", list, mostHosts)
		}
	}
	return out, nil
}

// hostWord is what stands between two commas, of which those in brackets are none.
var hostWord = regexp.MustCompile(`([^,\n\[]|\[[^\]]*\]?)+`) //nolint:gochecknoglobals // a constant

// expandWord multiplies the brackets of one word out, the last one fastest.
func expandWord(word string) ([]string, error) {
	head, rest, some := strings.Cut(word, "[")
	list, tail, closed := strings.Cut(rest, "]")
	switch {
	case strings.Contains(head, "]"):
		return nil, fmt.Errorf("%q: ] without [", word)
	case word == "":
		return nil, nil
	case !some:
		return []string{word}, nil
	case !closed:
		return nil, fmt.Errorf("%q: [ without ]", word)
	}
	numbers, err := expandNumbers(list)
	if err != nil {
		return nil, err
	}
	tails := []string{""}
	if tail != "" {
		if tails, err = expandWord(tail); err != nil {
			return nil, err
		}
	}
	if len(numbers)*len(tails) > mostHosts {
		return nil, fmt.Errorf("more than %d hosts", mostHosts)
	}
	out := make([]string, 0, len(numbers)*len(tails))
	for _, n := range numbers {
		for _, t := range tails {
			out = append(out, head+n+t)
		}
	}
	return out, nil
}

// expandNumbers reads "01-03,7": the width of a range's first number is that of all its numbers.
func expandNumbers(text string) ([]string, error) {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		low, err1 := number(first)
		high, err2 := number(last)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		if high < low {
			return nil, fmt.Errorf("range %q runs backwards", part)
		}
		if high-low >= mostHosts || len(out) > mostHosts {
			return nil, fmt.Errorf("more than %d hosts", mostHosts)
		}
		for n := low; n <= high; n++ {
			out = append(out, fmt.Sprintf("%0*d", len(first), n))
		}
	}
	return out, nil
}

func number(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 62)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return n, nil
}

// ReadHosts reads a file of hosts, one a line (what follows on it is ignored: mpirun's "slots=2"), without comments ("#") and empty
// lines.
func ReadHosts(b []byte) ([]string, error) {
	var hosts []string
	line := 0
	for text := range strings.Lines(string(b)) {
		line++
		text, _, _ = strings.Cut(text, "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		some, err := ExpandHosts(words[0])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		hosts = append(hosts, some...)
	}
	return hosts, nil
}

package fabric

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// mostHosts bounds an expansion: a list is read from outside.
const mostHosts = 1 << 17

// ExpandHosts lists the hosts of a list as Slurm spells it, "r[1-2]n[01-03,7]", in its order; duplicates stay. Its answers are
// scontrol's.
func ExpandHosts(list string) ([]string, error) {
	var out []string
	for _, word := range splitOutside(list) {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		hosts, err := expandWord(word)
		if err != nil {
			return nil, fmt.Errorf("host list %.80q: %w", list, err)
		}
		if out = append(out, hosts...); len(out) > mostHosts {
			return nil, fmt.Errorf("host list %.80q: more than %d hosts", list, mostHosts)
		}
	}
	return out, nil
}

// splitOutside splits at commas that are not in brackets.
func splitOutside(list string) []string {
	var out []string
	depth, begin := 0, 0
	for i, c := range list {
		switch c {
		case '[':
			depth++
		case ']':
			depth--
		case ',', '\n':
			if depth <= 0 {
				out = append(out, list[begin:i])
				begin = i + 1
			}
		}
	}
	return append(out, list[begin:])
}

// expandWord multiplies the brackets of one word out, the last one fastest.
func expandWord(word string) ([]string, error) {
	open := strings.IndexByte(word, '[')
	if closing := strings.IndexByte(word, ']'); closing >= 0 && (open < 0 || closing < open) {
		return nil, fmt.Errorf("%q: ] without [", word)
	}
	if open < 0 {
		return []string{word}, nil
	}
	length := strings.IndexByte(word[open:], ']')
	if length < 0 {
		return nil, fmt.Errorf("%q: [ without ]", word)
	}
	numbers, err := expandNumbers(word[open+1 : open+length])
	if err != nil {
		return nil, err
	}
	rest, err := expandWord(word[open+length+1:])
	if err != nil {
		return nil, err
	}
	if len(numbers)*len(rest) > mostHosts {
		return nil, fmt.Errorf("more than %d hosts", mostHosts)
	}
	out := make([]string, 0, len(numbers)*len(rest))
	for _, n := range numbers {
		for _, r := range rest {
			out = append(out, word[:open]+n+r)
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

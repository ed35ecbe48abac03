package fabric

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
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

//nolint:gochecknoglobals // constants
var (
	// hostWord is what stands between two commas, of which those in brackets are none.
	hostWord = regexp.MustCompile(`([^,\n\[]|\[[^\]]*\]?)+`)
	// brackets parts a word into what stands before its first brackets, in them and behind them.
	brackets = regexp.MustCompile(`^([^\[\]]*)(?:\[([^\]]*)\](.*))?$`)
	// span is a number, or a first and a last one.
	span = regexp.MustCompile(`^(\d{1,18})(?:-(\d{1,18}))?$`)
)

// expandWord multiplies the brackets of one word out, the last one fastest.
func expandWord(word string) ([]string, error) {
	parts := brackets.FindStringSubmatch(word)
	switch {
	case parts == nil:
		missing := "]"
		if word[strings.IndexAny(word, "[]")] == ']' {
			missing = "["
		}
		return nil, fmt.Errorf("%q is missing", missing)
	case parts[1] == word:
		return []string{word}, nil
	}
	numbers, err := expandNumbers(parts[2])
	if err != nil {
		return nil, err
	}
	tails, err := expandWord(parts[3])
	if err != nil {
		return nil, err
	}
	if len(numbers)*len(tails) > mostHosts {
		return nil, fmt.Errorf("more than %d hosts", mostHosts)
	}
	out := make([]string, 0, len(numbers)*len(tails))
	for _, n := range numbers {
		for _, t := range tails {
			out = append(out, parts[1]+n+t)
		}
	}
	return out, nil
}

// expandNumbers reads "01-03,7": the width of a range's first number is that of all its numbers.
func expandNumbers(text string) ([]string, error) {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		ends := span.FindStringSubmatch(part)
		if ends == nil {
			return nil, fmt.Errorf("%q is not a number, nor a range of numbers", part)
		}
		low, _ := strconv.Atoi(ends[1])
		high, _ := strconv.Atoi(cmp.Or(ends[2], ends[1]))
		switch {
		case high < low:
			return nil, fmt.Errorf("range %q runs backwards", part)
		case high-low >= mostHosts || len(out) > mostHosts:
			return nil, fmt.Errorf("more than %d hosts", mostHosts)
		}
		for n := low; n <= high; n++ {
			out = append(out, fmt.Sprintf("%0*d", len(ends[1]), n))
		}
	}
	return out, nil
}

// ReadHosts reads a file of hosts, one a line (what follows on it is ignored: mpirun's "slots=2"), without comments ("#") and empty
// lines.
func ReadHosts(b []byte) ([]string, error) {
	var hosts []string
	for i, text := range strings.Split(string(b), "\n") {
		text, _, _ = strings.Cut(text, "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		some, err := ExpandHosts(words[0])
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		hosts = append(hosts, some...)
	}
	return hosts, nil
}

// RankOf is the place in a list of a host that is called by these names: by a whole name, or where one of the two has no domain by what
// stands before the first dot; -1: it is not there.
func RankOf(hosts []string, names ...string) int {
	for _, name := range names {
		if i := slices.Index(hosts, name); i >= 0 {
			return i
		}
	}
	return slices.IndexFunc(hosts, func(h string) bool {
		short, _, domain := strings.Cut(h, ".")
		return slices.ContainsFunc(names, func(name string) bool {
			own, _, ownDomain := strings.Cut(name, ".")
			return short == own && (!domain || !ownDomain)
		})
	})
}

package launch

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mostHosts bounds an expansion: a list is read from outside.
const mostHosts = 1 << 17

// ExpandHosts lists the hosts of a list as Slurm spells it, "r[1-2]n[01-03,7]", in its order;
// duplicates stay. Its answers are scontrol's.
func ExpandHosts(list string) (out []string, err error) {
	for _, word := range hostWord.FindAllString(list, -1) {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		hosts, err := expandWord(word)
		if out = append(out, hosts...); err == nil && len(out) > mostHosts {
			err = errTooMany
		}
		if err != nil {
			return nil, fmt.Errorf("host list %.80q: %w", list, err)
		}
	}
	return out, nil
}

//nolint:gochecknoglobals // constants
var (
	// hostWord is what stands between two commas, of which those in brackets are none.
	hostWord = regexp.MustCompile(`([^,\n\[]|\[[^\]]*\]?)+`)
	// span is a number, or a first and a last one.
	span = regexp.MustCompile(`^(\d{1,18})(?:-(\d{1,18}))?$`)

	errTooMany = fmt.Errorf("more than %d hosts", mostHosts)
)

// expandWord multiplies the brackets of one word out, the last one fastest. The width of a range's
// first number is that of all its numbers.
func expandWord(word string) (out []string, err error) {
	before, rest, some := strings.Cut(word, "[")
	numbers, after, closed := strings.Cut(rest, "]")
	switch {
	case strings.Contains(before, "]"):
		return nil, errors.New(`"[" is missing`)
	case !some:
		return []string{word}, nil
	case !closed:
		return nil, errors.New(`"]" is missing`)
	}
	tails, err := expandWord(after)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(numbers, ",") {
		ends := span.FindStringSubmatch(part)
		if ends == nil {
			return nil, fmt.Errorf("%q is not a number, nor a range of numbers", part)
		}
		low, _ := strconv.Atoi(ends[1])
		high, _ := strconv.Atoi(cmp.Or(ends[2], ends[1]))
		switch {
		case high < low:
			return nil, fmt.Errorf("range %q runs backwards", part)
		case high-low >= mostHosts || len(out)+(high-low+1)*len(tails) > mostHosts:
			return nil, errTooMany
		}
		for n := low; n <= high; n++ {
			for _, tail := range tails {
				out = append(out, fmt.Sprintf("%s%0*d%s", before, len(ends[1]), n, tail))
			}
		}
	}
	return out, nil
}

// ReadHosts reads a file of hosts, one a line (what follows on it is ignored: mpirun's "slots=2"),
// without comments ("#") and empty lines.
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

// RankOf is the place in a list of a host that is called by these names: by a whole name, or where one of the two has
// no domain by what stands before the first dot; -1: it is not there.
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

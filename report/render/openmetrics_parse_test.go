package render_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// family is what a parser made of the lines of one metric.
type family struct {
	kind, unit, help string
	samples          map[string]float64 // by their labels
}

// parse is a strict reader of what the specification of OpenMetrics 1.0 allows for gauges: each rule it checks is named
// by the error. It is written from the ABNF of the specification's section 4, not from the writer.
func parse(text string) (map[string]*family, error) {
	if !utf8.ValidString(text) {
		return nil, fmt.Errorf("not UTF-8")
	}
	body, ok := strings.CutSuffix(text, "# EOF\n")
	if !ok {
		return nil, fmt.Errorf("does not end with # EOF")
	}
	out := map[string]*family{}
	current := ""
	open := func(name string) (*family, error) {
		if !metricName.MatchString(name) {
			return nil, fmt.Errorf("metric name %q", name)
		}
		if name != current {
			if out[name] != nil {
				return nil, fmt.Errorf("the lines of %s are not together", name)
			}
			out[name], current = &family{samples: map[string]float64{}}, name
		}
		return out[name], nil
	}
	lines := strings.Split(body, "\n") // the last is empty, as each line ends
	for i, line := range lines[:len(lines)-1] {
		if err := parseLine(line, open); err != nil {
			return nil, fmt.Errorf("line %d: %w: %s", i+1, err, line)
		}
	}
	for name, f := range out {
		switch {
		case f.kind != "gauge":
			return nil, fmt.Errorf("%s is of type %q", name, f.kind)
		case f.help == "":
			return nil, fmt.Errorf("%s has no help", name)
		case f.unit != "" && !strings.HasSuffix(name, "_"+f.unit):
			return nil, fmt.Errorf("%s does not end in its unit %s", name, f.unit)
		case len(f.samples) == 0:
			return nil, fmt.Errorf("%s has no sample", name)
		}
	}
	return out, nil
}

func parseLine(line string, open func(string) (*family, error)) error {
	if line == "" {
		return fmt.Errorf("a blank line")
	}
	if meta, ok := strings.CutPrefix(line, "# "); ok {
		parts := strings.SplitN(meta, " ", 3)
		if len(parts) != 3 {
			return fmt.Errorf("a descriptor has three words")
		}
		f, err := open(parts[1])
		if err != nil {
			return err
		}
		if len(f.samples) > 0 {
			return fmt.Errorf("a descriptor after the samples")
		}
		field := map[string]*string{"TYPE": &f.kind, "UNIT": &f.unit, "HELP": &f.help}[parts[0]]
		if field == nil || *field != "" {
			return fmt.Errorf("descriptor %q unknown, or twice", parts[0])
		}
		if parts[0] == "HELP" {
			if _, rest, err := escaped(parts[2]+`"`, true); err != nil || rest != "" {
				return fmt.Errorf("the escaping of the help: %w", err)
			}
		}
		*field = parts[2]
		return nil
	}
	at := strings.IndexAny(line, "{ ")
	if at < 0 {
		return fmt.Errorf("no value")
	}
	f, err := open(line[:at])
	if err != nil {
		return err
	}
	labels, rest, err := parseLabels(line[at:])
	if err != nil {
		return err
	}
	value, ok := strings.CutPrefix(rest, " ")
	if !ok || strings.ContainsAny(value, " \t") {
		return fmt.Errorf("want one space and a value, and neither time nor exemplar")
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		return err
	}
	if _, twice := f.samples[labels]; twice {
		return fmt.Errorf("the same labels twice")
	}
	f.samples[labels] = v
	return nil
}

// parseLabels reads the labels in braces at the front of s, if there are any.
func parseLabels(s string) (labels, rest string, err error) {
	s, ok := strings.CutPrefix(s, "{")
	if !ok {
		return "", s, nil
	}
	seen := map[string]string{}
	for {
		name, value, ok := strings.Cut(s, `="`)
		if !ok || !labelName.MatchString(name) {
			return "", "", fmt.Errorf("label name %q", name)
		}
		if _, twice := seen[name]; twice {
			return "", "", fmt.Errorf("label name %q twice", name)
		}
		text, after, err := escaped(value, false)
		if err != nil {
			return "", "", err
		}
		seen[name] = text
		switch {
		case strings.HasPrefix(after, "}"):
			return labelKey(seen), after[1:], nil
		case strings.HasPrefix(after, ","):
			s = after[1:]
		default:
			return "", "", fmt.Errorf("after a label %q", after)
		}
	}
}

// labelKey is a set of labels as one text.
func labelKey(set map[string]string) string {
	key := ""
	for _, name := range slices.Sorted(maps.Keys(set)) {
		key += name + "=" + strconv.Quote(set[name]) + ","
	}
	return key
}

// escaped reads to the closing quote.
func escaped(s string, quoteInside bool) (text, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' && (!quoteInside || i == len(s)-1):
			return b.String(), s[i+1:], nil
		case c == '\\' && i+1 < len(s) && strings.IndexByte(`\n"`, s[i+1]) >= 0:
			i++
			b.WriteByte(map[byte]byte{'\\': '\\', 'n': '\n', '"': '"'}[s[i]])
		case c == '\\':
			return "", "", fmt.Errorf("escape \\%.1s", s[i+1:])
		default:
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("no closing quote")
}

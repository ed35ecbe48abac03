package cmdline

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// RefuseEmpty refuses empty words and flags with an empty value, as from a variable that is not set. An empty --expect
// would pass, an empty --save would write no file, and an empty host would be this one.
func RefuseEmpty(fs *pflag.FlagSet, words []string) error {
	var wrong Faults
	for _, w := range words {
		wrong.If(strings.TrimSpace(w) == "", "%q: an empty word: is a variable not set?", w)
	}
	fs.Visit(func(f *pflag.Flag) {
		if value := f.Value.String(); value == "" || value == "[]" {
			wrong.Note(fmt.Errorf("--%s has an empty value: is a variable not set? Give a value, or leave the flag out", f.Name))
		}
	})
	return errors.Join(wrong...)
}

// MeantAsValue removes from args words that were meant as the value of a flag, and refuses them: the flag takes a value
// only after "=".
func MeantAsValue(wrong *Faults, flag *pflag.Flag, args []string, is func(word string) bool) []string {
	return slices.DeleteFunc(slices.Clone(args), func(word string) bool {
		meant := flag.Changed && flag.Value.String() == flag.NoOptDefVal && is(word)
		wrong.If(meant, "%q is taken for a host: write --%s=%s", word, flag.Name, word)
		return meant
	})
}

// ParsePrefix reads an address or a prefix such as 192.0.2.0/24. Clients have no zones, and IPv4 in IPv6 is IPv4.
func ParsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if a, noAddr := netip.ParseAddr(s); noAddr == nil && !strings.Contains(s, "/") { // which a zone may have
		p, err = netip.PrefixFrom(a.WithZone(""), a.BitLen()), nil
	}
	if err != nil {
		return p, fmt.Errorf("%q: want an address or a prefix such as 192.0.2.0/24", s)
	}
	if a := p.Addr(); a.Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

// ParsePrefixes reads several, with commas between.
func ParsePrefixes(s string) (list []netip.Prefix, err error) {
	for text := range strings.SplitSeq(s, ",") {
		p, err := ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

package control

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// DefaultPort is the TCP port of both dialects: perftest's.
const DefaultPort = 18515

// ourVersion is the version of our dialect that this code speaks.
const ourVersion = 1

// helloBytes is the length of perftest's first message, in which both dialects hide.
const helloBytes = 16

// hello is the first message of each end: perftest's version string, a NUL, and for our programs a marker that a stock
// perftest does not look at. Zero ours means no marker.
type hello struct {
	version string // "6.27"
	ours    int    // version of our dialect, 0: a stock perftest
}

// encode makes the 16 bytes on the wire.
func (h hello) encode() []byte {
	var m [helloBytes]byte
	n := copy(m[:helloBytes-1], h.version)
	if h.ours > 0 {
		copy(m[n+1:], "gobw/"+strconv.Itoa(h.ours))
	}
	return m[:]
}

// parseHello decodes a first message. Anything that is not a decimal version with a NUL behind it is refused.
func parseHello(b []byte) (hello, error) {
	if len(b) != helloBytes {
		return hello{}, fmt.Errorf("first message: %d bytes, want %d", len(b), helloBytes)
	}
	version, rest, found := bytes.Cut(b, []byte{0})
	if !found {
		return hello{}, fmt.Errorf("first message %q is no perftest version: it has no NUL", b)
	}
	h := hello{version: string(version)}
	if _, err := parseVersion(h.version); err != nil {
		return hello{}, fmt.Errorf("first message %q: %w", b, err)
	}
	marker, _, _ := bytes.Cut(rest, []byte{0})
	if digits, is := strings.CutPrefix(string(marker), "gobw/"); is {
		n, err := strconv.Atoi(digits)
		if err != nil || n < 1 {
			return hello{}, fmt.Errorf("first message %q: marker %q has no version", b, marker)
		}
		h.ours = n
	}
	return h, nil
}

// perftestVersion is a perftest version as perftest compares it: a decimal fraction in hundredths, so that 6.06 < 6.1.
type perftestVersion int

// Versions that change the conversation.
const (
	versionOldest      perftestVersion = 570 // below: refused by every perftest since
	versionNoFarewell  perftestVersion = 617
	versionNegotiates  perftestVersion = 628 // 6.28 negotiates with everyone, later ones only with 6.28 and up
	versionConditional perftestVersion = 629
)

func (v perftestVersion) String() string { return fmt.Sprintf("%d.%02d", v/100, v%100) }

// parseVersion reads "6.06" as 606 and "6.1" as 610.
func parseVersion(s string) (perftestVersion, error) {
	whole, fraction, found := strings.Cut(s, ".")
	if !found || whole == "" || fraction == "" || len(whole) > 3 || len(fraction) > 8 {
		return 0, fmt.Errorf("%q is no perftest version: want one such as 6.27", s)
	}
	for _, c := range whole + fraction {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is no perftest version: want one such as 6.27", s)
		}
	}
	fraction = (fraction + "00")[:2]
	n, err := strconv.Atoi(whole + fraction)
	if err != nil {
		return 0, fmt.Errorf("%q is no perftest version: %w", s, err)
	}
	return perftestVersion(n), nil
}

// checkOurVersion compares the versions of our dialect at both ends.
func checkOurVersion(peer int, peerName string) error {
	switch {
	case peer > ourVersion:
		return fmt.Errorf("the %s speaks gobw/%d, this end gobw/%d: upgrade this end", peerName, peer, ourVersion)
	case peer < ourVersion:
		return fmt.Errorf("the %s speaks gobw/%d, this end gobw/%d: upgrade the %s", peerName, peer, ourVersion, peerName)
	}
	return nil
}

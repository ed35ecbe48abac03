package wire

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// HelloBytes is the length of the first message, the same in perftest's dialect and in ours.
const HelloBytes = 16

// Hello is the first message of each end: perftest's version string, a NUL, and from our programs a marker that a stock
// perftest ignores.
type Hello struct {
	Version Version
	Ours    int // version of our dialect; 0: no marker, a stock perftest
}

// Encode makes the 16 bytes on the wire.
func (h Hello) Encode() []byte {
	var m [HelloBytes]byte
	n := copy(m[:HelloBytes-1], h.Version.String())
	if h.Ours > 0 {
		copy(m[n+1:], "gobw/"+strconv.Itoa(h.Ours))
	}
	return m[:]
}

// ParseHello decodes a first message. Anything that is not a decimal version with a NUL behind it is refused.
func ParseHello(b []byte) (h Hello, err error) {
	version, rest, found := strings.Cut(string(b), "\x00")
	marker, _, _ := strings.Cut(rest, "\x00")
	digits, is := strings.CutPrefix(marker, "gobw/")
	if is {
		h.Ours, _ = strconv.Atoi(digits)
	}
	h.Version, err = ParseVersion(version)
	switch {
	case len(b) != HelloBytes:
		err = fmt.Errorf("%d bytes, want %d", len(b), HelloBytes)
	case !found:
		err = errors.New("no perftest version: it has no NUL")
	case err == nil && is && h.Ours < 1:
		err = fmt.Errorf("marker %q has no version", marker)
	}
	if err != nil {
		return Hello{}, fmt.Errorf("first message %q: %w", b, err)
	}
	return h, nil
}

// Version is a perftest version as perftest compares it: a decimal fraction in hundredths, so that 6.06 < 6.1.
type Version int

// Versions that change the conversation.
const (
	VersionOldest      Version = 570 // below: refused by every perftest since
	VersionUsual       Version = 627 // the last that negotiates nothing: all but 6.28 talk to it
	VersionNegotiates  Version = 628 // the first that negotiates: 6.28 itself does so with everyone
	versionConditional Version = 629 // the first that negotiates only with 6.28 and up
)

func (v Version) String() string { return fmt.Sprintf("%d.%02d", v/100, v%100) }

// Advertised reads a version to advertise. An empty text gives 0: the version is chosen later.
func Advertised(text string) (Version, error) {
	if text == "" {
		return 0, nil
	}
	v, err := ParseVersion(text)
	if err == nil && v < VersionOldest {
		err = fmt.Errorf("version %s: every perftest refuses one below %s", text, VersionOldest)
	}
	return v, err
}

// Versions are those of both ends.
type Versions struct {
	Peer Version
	Mine Version // 0 at a server: answer as suits the client
}

// Check refuses versions that cannot talk to each other.
func (v Versions) Check() error {
	switch {
	case v.Peer < VersionOldest:
		return fmt.Errorf("the other end is perftest %s; versions below %s speak another protocol: upgrade it", v.Peer,
			VersionOldest)
	case v.Peer == VersionNegotiates && 0 < v.Mine && v.Mine < VersionNegotiates:
		return fmt.Errorf("the other end is perftest %s, which always negotiates parameters; this end advertises %s: "+
			"use ib_write_bw ('gobw version --install-links DIR') with --perftest-version %s",
			v.Peer, v.Mine, versionConditional)
	}
	return nil
}

// negotiate tells whether the ends compare their parameters.
func (v Versions) negotiate() bool { return v.Peer >= VersionNegotiates && v.Mine >= VersionNegotiates }

// ParseVersion reads "6.06" as 606 and "6.1" as 610.
func ParseVersion(s string) (Version, error) {
	whole, fraction, found := strings.Cut(s, ".")
	if !found || whole == "" || fraction == "" || len(whole) > 3 || len(fraction) > 8 ||
		strings.Trim(whole+fraction, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no perftest version: want one such as 6.27", s)
	}
	n, err := strconv.Atoi(whole + (fraction + "00")[:2])
	return Version(n), err
}

package flags

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/internal/plan"
	"github.com/gobw/gobw/verbs"
)

// rangeError is a number beyond its bounds.
type rangeError struct {
	value     string
	low, high int64
}

func (e *rangeError) Error() string { return fmt.Sprintf("%s: want %d to %d", e.value, e.low, e.high) }

// number reads an integer as strtol(…, 0) does: decimal, 0x or octal; what follows the digits is an error, not ignored.
func number(value string, low, high int64) (int64, error) {
	n, err := strconv.ParseInt(value, 0, 64) // base 0: the prefix chooses, as in C
	if err != nil || strings.ContainsAny(value, "_oObB") && !strings.HasPrefix(strings.ToLower(value), "0x") ||
		strings.Contains(value, "_") {
		return 0, fmt.Errorf("%q is no number", value)
	}
	if n < low || n > high {
		return 0, &rangeError{value, low, high}
	}
	return n, nil
}

// size reads a message size as perftest does: K and M, in upper case, are powers of 1024.
func size(value string) (int, error) {
	if strings.HasSuffix(value, "k") || strings.HasSuffix(value, "m") {
		return 0, fmt.Errorf("%q: the suffixes are K and M, in upper case (perftest reads %q as %s bytes)", value, value,
			value[:len(value)-1])
	}
	if strings.HasPrefix(value, "0") { // octal or hexadecimal, as in C
		n, err := number(value, 1, plan.MaxMessage)
		return int(n), err
	}
	n, err := plan.ParseSize(value)
	if err != nil {
		err = &StockError{fmt.Sprintf(" Message Size should be between 1 and %d", plan.MaxMessage), err}
	}
	return n, err
}

func constant[T any](field *T, is T) func(string) error {
	return func(string) error {
		*field = is
		return nil
	}
}

// parsed is what a parser makes of the value.
func parsed[T any](field *T, parse func(string) (T, error)) func(string) error {
	return func(value string) (err error) {
		*field, err = parse(value)
		return err
	}
}

func integer[T int | int64 | uint8 | uint16 | uint64](field *T, low, high int64) func(string) error {
	return func(value string) error {
		n, err := number(value, low, high)
		*field = T(n)
		return err
	}
}

// optional is an integer whose absence means something else than zero.
func optional[T int | int64 | uint8](field **T, low, high int64) func(string) error {
	return func(value string) error {
		*field = new(T)
		return integer(*field, low, high)(value)
	}
}

func span(field *time.Duration, unit time.Duration, high int64) func(string) error {
	return func(value string) error {
		n, err := number(value, 0, high)
		*field = time.Duration(n) * unit
		return err
	}
}

var numberAtFront = regexp.MustCompile(`^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?`)

// number reads a number. Where it has a name it is read as strtof does, which perftest reads -w and -y with: what
// follows the number says nothing, and here a line on stderr says that.
func (v *Invocation) number(field *float64, name string) func(string) error {
	return func(value string) error {
		front := value
		if name != "" {
			front = numberAtFront.FindString(value)
		}
		x, err := strconv.ParseFloat(front, 64)
		if err != nil || !(x >= 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%q: want a number, zero or more", value)
		}
		if front != value {
			v.warn("%s %s is read as %s, as by perftest: there are no suffixes", name, value, front)
		}
		*field = x
		return nil
	}
}

func (v *Invocation) limit(field **float64, name string) func(string) error {
	return func(value string) error {
		*field = new(float64)
		return v.number(*field, name)(value)
	}
}

func (v *Invocation) setSize(value string) error {
	n, err := size(value)
	if err != nil {
		return err
	}
	v.Plan.Sizes, v.sizeGiven = []int{n}, true
	fixed := plan.DefaultBytes(plan.RowOf(plan.Atomic), v.Tool.Kind)
	if v.Tool.Operation == plan.Atomic && n != fixed {
		err = &StockError{
			"Message size cannot be changed for Atomic tests ", fmt.Errorf("%d: an atomic has %d bytes", n, fixed),
		}
	}
	return err
}

func (v *Invocation) setDuration(value string) error {
	n, err := number(value, 1, 1<<30)
	v.Plan.Duration = time.Duration(n) * time.Second
	return err
}

func (v *Invocation) setTimeout(value string) error {
	n, err := number(value, 0, 255)
	switch v.Plan.Timeout = uint8(n) & 31; {
	case n > 31:
		v.warn("-u %d is read as %d, as by a device: the code has five bits", n, v.Plan.Timeout)
	case n == 0 && err == nil:
		v.warn("-u 0 (no timeout) is not there: the default is used")
	}
	return err
}

func (v *Invocation) setRetries(value string) error {
	const least, most = 1, 7
	n, err := number(value, 0, 1<<31-1)
	v.Plan.Retries = uint8(min(max(n, least), most))
	if err == nil && int64(v.Plan.Retries) != n {
		v.warn("--retry_count %d is read as %d: a queue pair has %d to %d", n, v.Plan.Retries, least, most)
	}
	return err
}

// masked is a number of 8 bits; of a larger one the lower bits are taken, as by a device.
func (v *Invocation) masked(field *uint8) func(string) error {
	return func(value string) error {
		n, err := number(value, 0, 1<<16-1)
		if *field = uint8(n); int64(*field) != n {
			v.warn("%s is read as %d, as by a device", value, *field)
		}
		return err
	}
}

func (v *Invocation) setJSON(string) error {
	v.JSONFile = cmp.Or(v.JSONFile, defaultJSON)
	return nil
}

func parseAtomic(value string) (verbs.Opcode, error) {
	for _, r := range plan.Rows() {
		if r.Counter && r.Perftest.Name == value {
			return r.Opcode, nil
		}
	}
	return 0, fmt.Errorf("%q: want CMP_AND_SWAP or FETCH_AND_ADD", value)
}

func (v *Invocation) setConnection(value string) error {
	if t := &v.Plan.Transport; value == strings.ToUpper(value) && t.UnmarshalText([]byte(value)) == nil {
		return nil
	}
	if slices.Contains([]string{"XRC", "DC", "SRD"}, value) {
		return fmt.Errorf("%s is not there: use RC, UC or UD", value)
	}
	return &StockError{
		" Invalid Connection type. Please choose from {RC,UC,UD,XRC,DC,SRD}",
		fmt.Errorf("%q: want RC, UC or UD, in upper case", value),
	}
}

// parseGroup reads a multicast group as perftest writes it, 16 numbers with colons between, or as an IP address.
func parseGroup(value string) (*verbs.GID, error) {
	var g verbs.GID
	parts := strings.Split(value, ":")
	if len(parts) != len(g) {
		a, err := netip.ParseAddr(value)
		if err != nil {
			return nil, fmt.Errorf("%q: want 16 numbers such as 255:14:0:0:0:0:0:0:0:0:0:0:0:0:0:1, "+
				"or an address such as 239.1.2.3 or ff0e::1", value)
		}
		g = verbs.GIDFromAddr(a)
		return &g, nil
	}
	for i, part := range parts {
		if err := integer(&g[i], 0, 255)(part); err != nil {
			return nil, fmt.Errorf("%q: byte %d: %w", value, i+1, err)
		}
	}
	return &g, nil
}

// setFlowLabels reads a list, of which queue pair k takes number k modulo its length. A label has 20 bits.
func (v *Invocation) setFlowLabels(value string) error {
	v.Plan.FlowLabels = nil
	for part := range strings.SplitSeq(value, ",") {
		n, err := number(part, 0, 1<<31-1)
		if err != nil {
			return err
		}
		label := uint32(n) & (1<<20 - 1)
		if int64(label) != n {
			v.warn("--flow_label %s is read as %d, as by a device", part, label)
		}
		v.Plan.FlowLabels = append(v.Plan.FlowLabels, label)
	}
	return nil
}

// parseLink reads --force-link, which must agree with the port: see Fit.
func parseLink(value string) (verbs.LinkLayer, error) {
	link, known := map[string]verbs.LinkLayer{
		"IB": verbs.LinkInfiniBand, "Ethernet": verbs.LinkEthernet, "ETHERNET": verbs.LinkEthernet,
	}[value]
	if !known {
		return 0, fmt.Errorf("%q: want IB or Ethernet", value)
	}
	return link, nil
}

// parseCounters reads -W: paths below the port's folder in sysfs, of which the file's name tells the counter.
func parseCounters(value string) ([]string, error) {
	names := strings.Split(value, ",")
	if slices.Contains(names, "") {
		return nil, fmt.Errorf("%q: want counters, separated by commas, such as counters/port_xmit_data", value)
	}
	return names, nil
}

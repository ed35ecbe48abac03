package netem

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Options describe a bad network. The zero value is a good one.
type Options struct {
	Loss      float64       // share of packets lost, 0…1
	Burst     float64       // mean number of packets lost in a row; 0 or 1: each loss for itself
	Duplicate float64       // share of packets that arrive twice
	Reorder   float64       // share of packets overtaken by the next one
	Delay     time.Duration // added to every packet
	Rate      float64       // bits per second of UDP payload; 0: no limit
	Queue     int           // bytes that wait for the rate before packets are dropped; 0: 1 MiB
	Seed      uint64        // same seed and same packets: same fate
}

const (
	maxQueue     = 1 << 30
	defaultQueue = 1 << 20
)

// unit is what may stand behind a number.
type unit struct {
	name string
	is   float64
}

func powers(base float64) []unit {
	return []unit{{"K", base}, {"M", base * base}, {"G", base * base * base}, {"T", base * base * base * base}}
}

// field is a word of [Parse].
type field struct {
	name            string
	at              any // what it sets
	units           []unit
	lowest, highest float64 // where it is not 0
	want            string
}

// fields are the words, in the order in which String prints them.
func (o *Options) fields() []field {
	percent := func(name string, share *float64) field {
		return field{name, share, []unit{{"%", 0.01}}, 0, 1, "0 to 100%"}
	}
	return []field{
		percent("loss", &o.Loss),
		{"burst", &o.Burst, nil, 1, 1e6, "1 to a million packets"},
		percent("dup", &o.Duplicate),
		percent("reorder", &o.Reorder),
		{"delay", &o.Delay, nil, 0, float64(10 * time.Second), "0 to 10s"},
		{"rate", &o.Rate, powers(1000), 1e3, 1e13, "1K to 10T, such as 10G (bits per second)"},
		{"queue", &o.Queue, powers(1024), 1, maxQueue, "such as 256K, at most 1G bytes"},
		{"seed", &o.Seed, nil, 0, math.MaxUint64, "a number"},
	}
}

func (f *field) isShare() bool { return f.highest == 1 }

func (f *field) value() float64 {
	switch at := f.at.(type) {
	case *time.Duration:
		return float64(*at)
	case *uint64:
		return float64(*at)
	case *int:
		return float64(*at)
	default:
		return *at.(*float64)
	}
}

func (f *field) parse(s string) (err error) {
	digits, is := s, 1.0
	if f.name == "queue" {
		digits = strings.TrimSuffix(strings.TrimSuffix(s, "B"), "i")
	}
	for _, u := range f.units {
		if number, has := strings.CutSuffix(strings.ToUpper(digits), u.name); has {
			digits, is = number, u.is
			break
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	switch at := f.at.(type) {
	case *time.Duration:
		*at, err = time.ParseDuration(s)
	case *uint64:
		*at, err = strconv.ParseUint(s, 10, 64)
	case *int:
		if math.IsNaN(v) {
			err = strconv.ErrSyntax
		}
		*at = int(min(math.Round(v*is), maxQueue+1)) // a queue of bytes cut off would not read back as it prints
	case *float64:
		if *at = v * is; f.isShare() && is == 1 && v >= 1 {
			return fmt.Errorf("%q may be a share or per cent: write %s%% or 0.01", s, digits)
		}
	}
	if err != nil || f.value() < 0 {
		return fmt.Errorf("%q: want %s", s, f.want)
	}
	return nil
}

// String is what parse reads.
func (f *field) String() string {
	switch at := f.at.(type) {
	case *time.Duration:
		return at.String()
	case *uint64:
		return fmt.Sprint(*at)
	}
	v, in := f.value(), unit{"", 1}
	for _, u := range f.units {
		if f.isShare() || v >= u.is {
			in = u
		}
	}
	return strconv.FormatFloat(v/in.is, 'g', 9, 64) + in.name
}

// Parse reads "loss=1%,burst=4,dup=0.1%,reorder=1%,delay=5ms,rate=10G,queue=1M,seed=7".
// The empty string is a good network.
func Parse(s string) (Options, error) {
	var o Options
	var errs []error
	for text := range strings.SplitSeq(s, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		key, value, _ := strings.Cut(text, "=")
		err := errors.New("want loss, burst, dup, reorder, delay, rate, queue or seed")
		for _, f := range o.fields() {
			if f.name == key {
				err = f.parse(value)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("emulated network: %q: %w", text, err))
		}
	}
	errs = append(errs, o.Validate())
	return o, errors.Join(errs...)
}

// Validate reports every value out of its range.
func (o Options) Validate() error {
	var errs []error
	for _, f := range o.fields() {
		if v := f.value(); v != 0 && !(v >= f.lowest && v <= f.highest) {
			errs = append(errs, fmt.Errorf("emulated network: %s %v: want %s", f.name, &f, f.want))
		}
	}
	if o.Queue != 0 && o.Rate == 0 {
		errs = append(errs, errors.New("emulated network: a queue without a rate has nothing to wait for"))
	}
	if o.Burst > 1 && o.Loss == 0 {
		errs = append(errs, errors.New("emulated network: bursts of what? Give loss too"))
	}
	return errors.Join(errs...)
}

// IsGood tells whether nothing is emulated.
func (o Options) IsGood() bool {
	return o.Loss == 0 && o.Duplicate == 0 && o.Reorder == 0 && o.Delay == 0 && o.Rate == 0
}

// String is what Parse reads; empty for a good network.
func (o Options) String() string {
	if o.IsGood() {
		return ""
	}
	var s []string
	for _, f := range o.fields() {
		if f.value() != 0 {
			s = append(s, f.name+"="+f.String())
		}
	}
	return strings.Join(s, ",")
}

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
	maxDelay     = 10 * time.Second
	maxBurst     = 1e6
	minRate      = 1e3
	maxRate      = 1e13
	maxQueue     = 1 << 30
	defaultQueue = 1 << 20
)

// fields are the words of [Parse], in the order in which String prints them.
var fields = []struct { //nolint:gochecknoglobals // a table: never written
	name  string
	parse func(o *Options, value string) error
	print func(o *Options) string
}{
	{"loss", shareOf(func(o *Options) *float64 { return &o.Loss }), func(o *Options) string { return share(o.Loss) }},
	{"burst", func(o *Options, v string) (err error) {
		if o.Burst, err = strconv.ParseFloat(v, 64); err != nil {
			err = fmt.Errorf("%q is no number of packets", v)
		}
		return err
	}, func(o *Options) string { return number(max(o.Burst, 1)) }},
	{"dup", shareOf(func(o *Options) *float64 { return &o.Duplicate }), func(o *Options) string { return share(o.Duplicate) }},
	{"reorder", shareOf(func(o *Options) *float64 { return &o.Reorder }), func(o *Options) string { return share(o.Reorder) }},
	{"delay", func(o *Options, v string) (err error) {
		o.Delay, err = time.ParseDuration(v)
		return err
	}, func(o *Options) string { return o.Delay.String() }},
	{"rate", func(o *Options, v string) (err error) {
		o.Rate, err = scaled(v, "10G (bits per second)", 1000)
		return err
	}, func(o *Options) string { return unscaled(o.Rate, 1000) }},
	{"queue", func(o *Options, v string) error {
		n, err := scaled(strings.TrimSuffix(strings.TrimSuffix(v, "iB"), "B"), "256K (bytes)", 1024)
		o.Queue = int(min(math.Round(n), maxQueue+1)) // a queue of bytes cut off would not read back as it prints
		return err
	}, func(o *Options) string { return unscaled(float64(o.Queue), 1024) }},
	{"seed", func(o *Options, v string) (err error) {
		o.Seed, err = strconv.ParseUint(v, 10, 64)
		return err
	}, func(o *Options) string { return strconv.FormatUint(o.Seed, 10) }},
}

// Parse reads "loss=1%,burst=4,dup=0.1%,reorder=1%,delay=5ms,rate=10G,queue=1M,seed=7". The empty string is a good network.
func Parse(s string) (Options, error) {
	var o Options
	var errs []error
	for text := range strings.SplitSeq(s, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		key, value, _ := strings.Cut(text, "=")
		err := errors.New("want loss, burst, dup, reorder, delay, rate, queue or seed")
		for _, f := range fields {
			if f.name == key {
				err = f.parse(&o, value)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("emulated network: %q: %w", text, err))
		}
	}
	errs = append(errs, o.Validate())
	return o, errors.Join(errs...)
}

// shareOf reads "1%" or "0.01" into a member. A bare 1 may mean either and is refused.
func shareOf(member func(o *Options) *float64) func(o *Options, s string) error {
	return func(o *Options, s string) error {
		digits, percent := strings.CutSuffix(s, "%")
		v, err := strconv.ParseFloat(digits, 64)
		switch {
		case err != nil:
			return fmt.Errorf("%q is no share: want 1%% or 0.01", s)
		case percent:
			v /= 100
		case v >= 1:
			return fmt.Errorf("%q may be a share or per cent: write %s%% or 0.01", s, digits)
		}
		*member(o) = v
		return nil
	}
}

// scaled reads a number with K, M, G or T behind it.
func scaled(s, example string, base float64) (float64, error) {
	digits, factor := s, 1.0
	if i := len(s) - 1; i >= 0 {
		if k := strings.IndexByte("KMGT", s[i]&^0x20); k >= 0 {
			digits = s[:i]
			for range k + 1 {
				factor *= base
			}
		}
	}
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil || !(v >= 0) {
		return 0, fmt.Errorf("%q: want a number such as %s", s, example)
	}
	return v * factor, nil
}

func unscaled(v, base float64) string {
	unit := ""
	for _, u := range []string{"K", "M", "G", "T"} {
		if v < base {
			break
		}
		v, unit = v/base, u
	}
	return number(v) + unit
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 9, 64) }

func share(v float64) string { return number(v*100) + "%" }

// Validate reports every value out of its range.
func (o Options) Validate() error {
	var errs []error
	check := func(name string, v, highest float64, want string) {
		if !(v >= 0 && v <= highest) {
			errs = append(errs, fmt.Errorf("emulated network: %s %v: want %s", name, v, want))
		}
	}
	check("loss", o.Loss, 1, "0 to 100%")
	check("burst", o.Burst, maxBurst, "1 to a million packets")
	check("dup", o.Duplicate, 1, "0 to 100%")
	check("reorder", o.Reorder, 1, "0 to 100%")
	check("queue", float64(o.Queue), maxQueue, "at most 1G bytes")
	if o.Delay < 0 || o.Delay > maxDelay {
		errs = append(errs, fmt.Errorf("emulated network: delay %v: want 0 to %v", o.Delay, maxDelay))
	}
	if o.Rate != 0 && !(o.Rate >= minRate && o.Rate <= maxRate) {
		errs = append(errs, fmt.Errorf("emulated network: rate %v bits per second: want 1K to 10T", o.Rate))
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
	for _, f := range fields {
		if v := f.print(&o); v != f.print(&Options{}) { // what is as by default is left out
			s = append(s, f.name+"="+v)
		}
	}
	return strings.Join(s, ",")
}

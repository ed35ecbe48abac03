package roce

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/gobw/gobw/verbs"
)

// FabricOptions describe a bad network, emulated on what a device receives. The zero value is a good one.
type FabricOptions struct {
	Loss      float64       // share of packets lost, 0…1
	Duplicate float64       // share of packets that arrive twice
	Reorder   float64       // share of packets overtaken by the next one
	Delay     time.Duration // added to every packet
	Seed      uint64        // same seed and same packets: same fate
}

// ParseFabric reads "loss=1%,dup=0.1%,reorder=1%,delay=5us,seed=7". The empty string is a good network.
func ParseFabric(s string) (FabricOptions, error) {
	var o FabricOptions
	var errs []error
	for field := range strings.SplitSeq(s, ",") {
		field = strings.TrimSpace(field)
		if field == "" {
			continue
		}
		key, value, _ := strings.Cut(field, "=")
		var err error
		switch key {
		case "loss":
			o.Loss, err = parseShare(value)
		case "dup":
			o.Duplicate, err = parseShare(value)
		case "reorder":
			o.Reorder, err = parseShare(value)
		case "delay":
			o.Delay, err = time.ParseDuration(value)
		case "seed":
			o.Seed, err = strconv.ParseUint(value, 10, 64)
		default:
			err = errors.New("want loss, dup, reorder, delay or seed")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("fabric %q: %w", field, err))
		}
	}
	errs = append(errs, o.validate())
	return o, errors.Join(errs...)
}

// parseShare reads "1%" or "0.01".
func parseShare(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no share: want 1%% or 0.01", s)
	}
	if percent {
		v /= 100
	}
	return v, nil
}

func (o FabricOptions) validate() error {
	var errs []error
	check := func(name string, v float64) {
		if !(v >= 0 && v <= 1) {
			errs = append(errs, fmt.Errorf("fabric %s %v: want 0 to 100%%", name, v))
		}
	}
	check("loss", o.Loss)
	check("dup", o.Duplicate)
	check("reorder", o.Reorder)
	if o.Delay < 0 || o.Delay > 10*time.Second {
		errs = append(errs, fmt.Errorf("fabric delay %v: want 0 to 10s", o.Delay))
	}
	return errors.Join(errs...)
}

// IsGood tells whether nothing is emulated.
func (o FabricOptions) IsGood() bool {
	return o.Loss == 0 && o.Duplicate == 0 && o.Reorder == 0 && o.Delay == 0
}

// String is what ParseFabric reads; empty for a good network.
func (o FabricOptions) String() string {
	if o.IsGood() {
		return ""
	}
	var s []string
	share := func(name string, v float64) {
		if v != 0 {
			s = append(s, name+"="+strconv.FormatFloat(v*100, 'g', 6, 64)+"%")
		}
	}
	share("loss", o.Loss)
	share("dup", o.Duplicate)
	share("reorder", o.Reorder)
	if o.Delay != 0 {
		s = append(s, "delay="+o.Delay.String())
	}
	if o.Seed != 0 {
		s = append(s, "seed="+strconv.FormatUint(o.Seed, 10))
	}
	return strings.Join(s, ",")
}

// maxHeld bounds the packets a fabric delays: beyond, the oldest is delivered at once.
const maxHeld = 4096

// fabric decides the fate of received packets. It belongs to the engine and is deterministic: the n-th packet's fate
// depends on the seed and n alone.
type fabric struct {
	FabricOptions
	random *rand.Rand
	delay  verbs.Ticks
	held   []heldPacket // in order of due
	swap   heldPacket   // the packet to be overtaken
}

// heldPacket is a packet that will be delivered later.
type heldPacket struct {
	path    *path
	segment int
	port    uint16
	bytes   []byte
	due     verbs.Ticks
}

func newFabric(o FabricOptions, c clock) *fabric {
	if o.IsGood() {
		return nil
	}
	return &fabric{FabricOptions: o, random: rand.New(rand.NewPCG(o.Seed, 4791)), delay: c.ticks(o.Delay)}
}

// chance draws once per question, so that fates stay aligned whatever the answers are.
func (f *fabric) chance(p float64) bool { return f.random.Float64() < p }

// admit takes a packet and calls deliver for what arrives now: nothing, it, it twice, or it and an overtaken one.
func (f *fabric) admit(p heldPacket, now verbs.Ticks, deliver func(heldPacket)) {
	lost, twice, late := f.chance(f.Loss), f.chance(f.Duplicate), f.chance(f.Reorder)
	if lost {
		return
	}
	if late && f.swap.bytes == nil {
		f.swap = p.keep(now)
		return
	}
	f.pass(p, now, deliver)
	if twice {
		f.pass(p, now, deliver)
	}
	if s := f.swap; s.bytes != nil {
		f.swap = heldPacket{}
		f.pass(s, now, deliver)
	}
}

func (f *fabric) pass(p heldPacket, now verbs.Ticks, deliver func(heldPacket)) {
	if f.delay == 0 {
		deliver(p)
		return
	}
	if len(f.held) >= maxHeld {
		first := f.held[0]
		f.held = f.held[1:]
		deliver(first)
	}
	p = p.keep(now + f.delay)
	f.held = append(f.held, p)
}

// release delivers what is due, and a packet that waited for an overtaker which never came.
func (f *fabric) release(now, patience verbs.Ticks, deliver func(heldPacket)) {
	for len(f.held) > 0 && f.held[0].due <= now {
		p := f.held[0]
		f.held = f.held[1:]
		deliver(p)
	}
	if s := f.swap; s.bytes != nil && now-s.due > patience {
		f.swap = heldPacket{}
		f.pass(s, now, deliver)
	}
}

// next is when release has something to do; ok is false for never.
func (f *fabric) next(patience verbs.Ticks) (at verbs.Ticks, ok bool) {
	if len(f.held) > 0 {
		at, ok = f.held[0].due, true
	}
	if f.swap.bytes != nil {
		if d := f.swap.due + patience; !ok || d < at {
			at, ok = d, true
		}
	}
	return at, ok
}

func (p heldPacket) keep(due verbs.Ticks) heldPacket {
	p.bytes = append([]byte(nil), p.bytes...)
	p.due = due
	return p
}
